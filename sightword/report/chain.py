"""The provenance of each table: files with their hashes, parameters, and the command for the full history.

The page's own inputs are the only source, so that the same run gives the same text: no commit and no date.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightword.files import canonical_json, sha256_file
from sightword.report.inputs import Run, RunFiles
from sightword.report.number_formats import is_number, plain

SELECTED = ("criterion", "chosen_epochs", "members")
ORDER = ("features", "captions", "training", "encoder")
"""The sources of tables; each depends on the ones before it."""
TABLES = (
    ("retrieval", "Retrieval", "encoder", "metrics/retrieval.json"),
    ("semantics", "Sentence similarity", "encoder", "metrics/semantics.json"),
    ("systems", "Comparison with published systems", "encoder", "plots/semantics/systems.tsv"),
    ("pairs", "Cosine against people's score", "encoder", "data/semantics/pairs.parquet"),
    ("breakdown", "By length and by shared words", "encoder", "plots/semantics/breakdown.tsv"),
    ("worst", "Pairs with the largest disagreement", "encoder", "data/semantics/worst.tsv"),
    ("loss", "Loss", "training", "plots/train/loss.tsv"),
    ("learning_rate", "Learning rate", "training", "plots/train/learning_rate.tsv"),
    ("recall", "Recall on dev", "training", "plots/train/recall.tsv"),
    ("epochs", "Every kept epoch", "training", "plots/epochs/epochs.tsv"),
    ("gallery", "Gallery", "encoder", "data/retrieval/top.parquet"),
    ("attention", "Attention", "encoder", "models/encoder/encoder.json"),
)
"""Key, name, last source in :data:`ORDER`, and file of each table and drawing."""
FEATURES = ("backbone", "feature_point", "weights", "transform", "precision", "origin", "rows")

_FEATURE_HASHES = {"features.h5 (the checksum in its first bytes)": "checksum", "weights": "weights_sha256"}


@dataclass(frozen=True)
class Source:
    """A source of tables.

    Attributes:
        key: the identifier within the page.
        name: the title.
        facts: (name, value) texts; the training parameters have a table of their own.
        hashes: (what, sha256) of its files or content.
    """

    key: str
    name: str
    facts: list[tuple[str, str]]
    hashes: list[tuple[str, str]]


@dataclass(frozen=True)
class Made:
    """A table or drawing of the page.

    Attributes:
        key: the identifier within the page.
        name: the title.
        sources: the keys of its sources.
        facts: its own parameters, as far as the files name them.
        file: (path, sha256) of the displayed file.
        command: the command for the full history.
    """

    key: str
    name: str
    sources: list[str]
    facts: list[tuple[str, str]]
    file: tuple[str, str]
    command: str


def sources(files: RunFiles, run: Run) -> list[Source]:
    """Return the features, captions, training, and encoder as sources.

    Raises:
        FileFormatError: a file cannot be read.
    """
    features = run.features
    hashes = [(name, str(features[key])) for name, key in _FEATURE_HASHES.items() if features.get(key)]
    facts = [(key, _written(features[key])) for key in FEATURES if features.get(key) not in ("", None, {})]
    captions = [
        ("data/captions/captions.parquet", sha256_file(files.captions)),
        ("models/encoder/vocabulary.json", sha256_file(files.encoder / "vocabulary.json")),
    ]
    names = run.description.get("members")
    members = [Path(str(name)).name for name in names] if isinstance(names, list) else []
    encoder = [
        (f"models/encoder/{name}", sha256_file(files.encoder / name))
        for name in ("encoder.json", *members)
        if (files.encoder / name).exists()
    ]
    chosen = [(key, plain(run.select[key])) for key in SELECTED if key in run.select]
    return [
        Source("features", "Features of the pictures", facts, hashes),
        Source("captions", "Captions", [("unit", run.unit), ("tokens", plain(run.vocabulary))], captions),
        Source("training", "Training", [], []),
        Source("encoder", "Encoder", chosen, encoder),
    ]


def made(files: RunFiles, run: Run) -> list[Made]:
    """Return each table and drawing of the page that the run has, in the page's order.

    Raises:
        FileFormatError: a file cannot be read.
    """
    facts = {"retrieval": _protocols(run), "semantics": _tasks(run)}
    entries = {"retrieval": _key(run.retrieval, "r10"), "semantics": _key(run.semantics, "pearson", "accuracy")}
    found = []
    for key, name, reached, shown in TABLES:
        path = _path(files, shown)
        if path.exists():
            entry = entries.get(key)
            command = f"sightword audit {shown}:{entry}" if entry else f"sightword audit {shown}"
            used = list(ORDER[: ORDER.index(reached) + 1])
            found.append(Made(key, name, used, facts.get(key, []), (shown, sha256_file(path)), command))
    return found


def _path(files: RunFiles, shown: str) -> Path:
    """Return the path of a project's file in this run."""
    folder, _, name = shown.rpartition("/")
    top, _, below = folder.partition("/")
    if top == "data":
        return files.top if below == "retrieval" else files.pairs / name
    return {"metrics": files.metrics, "plots": files.plots, "models": files.encoder.parent}[top] / below / name


def _protocols(run: Run) -> list[tuple[str, str]]:
    names = [
        f"{split}: {', '.join(name for name in body if name != 'skipped')}"
        for split, body in run.retrieval.items()
        if isinstance(body, dict)
    ]
    return [("protocols", "; ".join(names))] if names else []


def _tasks(run: Run) -> list[tuple[str, str]]:
    names = [name for name, body in run.semantics.items() if isinstance(body, dict) and name != "skipped"]
    return [("tasks", ", ".join(names))] if names else []


def _key(values: Mapping[str, Any], *last: str) -> str:
    """Return the first entry of a metrics file with one of these names, as keys joined by dots; empty without such an
    entry.
    """
    for key, value in values.items():
        if key in last and is_number(value):
            return key
        if isinstance(value, Mapping) and (below := _key(value, *last)):
            return f"{key}.{below}"
    return ""


def _written(value: object) -> str:
    return canonical_json(value) if isinstance(value, dict | list) else plain(value)
