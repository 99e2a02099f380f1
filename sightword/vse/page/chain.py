"""The provenance of each table: files with their hashes, parameters, and the command for the full history.

The page's own inputs are the only source, so that the same run gives the same text: no commit and no date.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sightword.io.files import sha256_file
from sightword.messages import flat
from sightword.report import number_formats
from sightword.report.inputs import RunFiles, RunNumbers
from sightword.report.number_formats import is_number, plain
from sightword.vse.page import retrieval_table

ORDER = ("features", "captions", "training", "encoder")
"""The sources of tables; each depends on the ones before it."""
TABLES = (
    ("retrieval", "Retrieval", "encoder", "metrics/retrieval.json"),
    ("composition", "Two attributes as one query", "encoder", "metrics/retrieval.json"),
    ("lengths", "Short and long captions", "encoder", "data/retrieval/lengths.parquet"),
    ("semantics", "Sentence similarity", "encoder", "metrics/semantics.json"),
    ("systems", "Comparison with published systems", "encoder", "plots/semantics/systems.tsv"),
    ("pairs", "Cosine vs human score", "encoder", "data/semantics/pairs.parquet"),
    ("breakdown", "By length and by shared words", "encoder", "plots/semantics/breakdown.tsv"),
    ("worst", "Largest errors", "encoder", "data/semantics/worst.tsv"),
    ("loss", "Loss", "training", "plots/train/loss.tsv"),
    ("learning_rate", "Learning rate", "training", "plots/train/learning_rate.tsv"),
    ("recall", "Recall on dev", "training", "plots/train/recall.tsv"),
    ("epochs", "Every kept epoch", "training", "plots/epochs/epochs.tsv"),
    ("gallery", "Gallery", "encoder", "data/retrieval/top.parquet"),
    ("regularities", "Composition and abstraction", "encoder", "models/encoder/encoder.json"),
    ("attention", "Attention", "encoder", "models/encoder/encoder.json"),
)
"""Key, name, last source in :data:`ORDER`, and file of each table and drawing."""
SELECTED = ("criterion", "chosen_epochs", "members", "beside", "lexical")
FEATURES = ("backbone", "feature_point", "weights", "transform", "precision", "origin", "rows")
FEATURE_HASHES = {"features.h5 (the checksum in its first bytes)": "checksum", "weights": "weights_sha256"}

Texts = list[tuple[str, str]]
"""(name, value)."""


class Source(NamedTuple):
    """A source of tables: its parameters, without those of training, and (what, sha256) of its files or content."""

    key: str
    name: str
    facts: Texts
    hashes: Texts


class Made(NamedTuple):
    """A table or drawing: its sources' keys, its parameters, its file's path and sha256, the command of its history."""

    key: str
    name: str
    sources: tuple[str, ...]
    facts: Texts
    file: tuple[str, str]
    command: str


def sources(files: RunFiles, run: RunNumbers) -> list[Source]:
    """Return the features, captions, training, and encoder as sources.

    Raises:
        FileFormatError: a file cannot be read.
    """
    features = run.features
    known = [(key, features[key]) for key in FEATURES if features.get(key) not in ("", None, {})]
    made_by = [(_name(key), _spelt(one)) for key, one in known]
    hashes = [(name, str(features[key])) for name, key in FEATURE_HASHES.items() if features.get(key)]
    texts = [("unit", run.unit), ("tokens", plain(run.vocabulary))]
    tables = [("data/captions/captions.parquet", sha256_file(files.captions))]
    tables.append(("models/encoder/vocabulary.json", sha256_file(files.encoder / "vocabulary.json")))
    selected = [(_name(key), plain(run.select[key])) for key in SELECTED if run.select.get(key) is not None]
    parts = [files.encoder / "encoder.json", *sorted(files.encoder.glob("part-*.safetensors"))]
    encoder = [(f"models/encoder/{path.name}", sha256_file(path)) for path in parts if path.exists()]
    return [
        Source("features", "Features of the pictures", made_by, hashes),
        Source("captions", "Captions", texts, tables),
        Source("training", "Training", [], []),
        Source("encoder", "Encoder", selected, encoder),
    ]


def made(files: RunFiles, run: RunNumbers) -> list[Made]:
    """Return each table and drawing of the page that the run has, in the page's order.

    Raises:
        FileFormatError: a file cannot be read.
    """
    protocols = [
        f"{split}: {', '.join(name for name in body if name in retrieval_table.PROTOCOLS)}"
        for split, body in run.retrieval.items()
        if isinstance(body, dict)
    ]
    tasks = [name for name, body in run.semantics.items() if isinstance(body, dict)]
    facts = {"retrieval": ("protocols", "; ".join(protocols)), "semantics": ("tasks", ", ".join(tasks))}
    composed = {split: body.get("composition", {}) for split, body in run.retrieval.items() if isinstance(body, dict)}
    if key_of_composed := _key(composed, "r10"):
        split, _, rest = key_of_composed.partition(".")
        key_of_composed = f"{split}.composition.{rest}"
    entries = {
        "retrieval": _key(run.retrieval, "r10"),
        "composition": key_of_composed,
        "semantics": _key(run.semantics, "pearson", "accuracy"),
    }
    found = []
    for key, name, reached, shown in TABLES:
        path = _path(files, shown)
        if path.exists():
            used = ORDER[: ORDER.index(reached) + 1]
            command = f"sightword audit {shown}" + (f":{entries[key]}" if entries.get(key) else "")
            about = [facts[key]] if facts.get(key, ("", ""))[1] else []
            found.append(Made(key, name, used, about, (shown, sha256_file(path)), command))
    return found


def _name(key: str) -> str:
    return key.replace("_", " ")


def _spelt(value: object) -> str:
    return (
        ", ".join(f"{key} {one}" for key, one in number_formats.flat(value).items())
        if isinstance(value, dict)
        else plain(value)
    )


def _path(files: RunFiles, shown: str) -> Path:
    """Return the path of a project's file in this run."""
    folder, _, name = shown.rpartition("/")
    top, _, below = folder.partition("/")
    if top == "data":
        return files.top.with_name(name) if below == "retrieval" else files.pairs / name
    return {"metrics": files.metrics, "plots": files.plots, "models": files.encoder.parent}[top] / below / name


def _key(values: Mapping[str, Any], *last: str) -> str:
    """Return the first number with one of these names, as keys joined by dots; empty without such an entry."""
    numbers = (name for name, value in flat(values).items() if is_number(value))
    return next((name for name in numbers if name.rpartition(".")[2] in last), "")
