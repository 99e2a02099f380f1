"""Declarations of the pipeline of hypernyms: see :mod:`pipeline.systems`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.systems import Compared

if TYPE_CHECKING:
    from pipeline.comparison.parts import Accuracy

SEED = "train.seed"


def compare(a: Path, b: Path, **_: int) -> list[Accuracy]:
    """Compare two tables ``scores.parquet`` of the stage evaluate: on all pairs, and on each part that has pairs."""
    from pipeline.comparison.parts import classified, read

    stage, same = "hypernyms/dvc.yaml:evaluate", ("hyponym", "hypernym", "label")
    ours, theirs = read(a, b, stage, same, ("direct", "accepted"), "concepts")
    label, direct = ours["label"], ours["direct"]
    masks = {"direct edges": label & direct, "other true pairs": label & ~direct, "false pairs": ~label}
    return classified(ours["accepted"] == label, theirs["accepted"] == label, masks)


COMPARED = (Compared("Hypernyms", "pairs of concepts", Path("data/hypernyms/scores/scores.parquet"), compare),)
