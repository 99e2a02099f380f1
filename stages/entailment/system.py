"""Declarations of the pipeline of entailment: see :mod:`pipeline.systems`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.doctor.context import Context
from pipeline.doctor.files import exist
from pipeline.doctor.findings import Check, Finding
from pipeline.systems import Compared

if TYPE_CHECKING:
    from pipeline.comparison.parts import Accuracy

SEED = "train.seed"
PARAMS = "entailment/params.yaml"
USED_WITH: dict[str, tuple[str, tuple[object, ...]]] = {
    f"train.{name}": ("train.start", (None,))
    for name in (
        *("unit", "unicode", "case", "whitespace", "full_stop", "min_count", "embedding", "cell", "hidden"),
        *("bidirectional", "pooling", "attention", "initialisation"),
    )
}


def conflicts(values: dict[str, dict[str, Any]]) -> list[str]:
    """Return the conflicts between two sections: undecided pairs have none of three classes."""
    pairs, evaluate = values.get("pairs", {}), values.get("evaluate", {})
    if pairs.get("undecided") != "not_entailed" or evaluate.get("classifier", {}).get("classes") != 3:
        return []
    return ["pairs.undecided = not_entailed: with evaluate.classifier.classes = 3, set it to drop"]


def encoders(values: dict[str, dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the encoder from which training starts."""
    train = values.get("train", {})
    return [("train.start", f"{train['encoders']}/{train['start']}")] if train.get("start") else []


def check(context: Context) -> Iterator[Finding]:
    """Check the files of the sentence pairs."""
    pairs = context.section(f"{PARAMS}:pairs")
    if pairs is None:
        return
    sources = {"train": pairs.train, "dev": pairs.dev, "test": pairs.test}
    named = {f"pairs.{name}[{place}]": one.path for name in sources for place, one in enumerate(sources[name])}
    yield from exist(context, {f"{PARAMS}:{parameter}": path for parameter, path in named.items()})


def compare(a: Path, b: Path, **_: int) -> list[Accuracy]:
    """Compare two tables ``scores.parquet`` of the stage evaluate: on all pairs, and on each class that has pairs.

    Raises:
        ScoringError: the tables have other pairs, or none.
        FileFormatError: a table is damaged.
    """
    from pipeline.comparison.parts import classified, read
    from sightword.entailment.data.pairs import LABELS, premise_numbers

    stage, same = "entailment/dvc.yaml:evaluate", ("premise", "hypothesis", "label", "entailed")
    ours, theirs = read(a, b, stage, same, ("accepted",), "sentences")
    first, second = (one["accepted"] == one["entailed"] for one in (ours, theirs))
    masks = {label: ours["label"] == label for label in LABELS}
    return classified(first, second, masks, premise_numbers(ours["premise"].tolist()))


CHECKS = (Check("entailment", check, needs_project=True),)
COMPARED = (
    Compared(
        "entailment",
        "Entailment",
        "Percent of the pairs of sentences that are classified correctly. Only A: pairs that A has right and B has "
        "wrong; p is that of McNemar's test, which takes the pairs of one premise together.",
        "pairs of sentences",
        Path("data/entailment/scores/scores.parquet"),
        compare,
    ),
)
