"""Declarations of the pipeline of entailment: see :mod:`pipeline.systems`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.systems import Compared

if TYPE_CHECKING:
    from pipeline.comparison.parts import Accuracy

SEED = "train.seed"


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
