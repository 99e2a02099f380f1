"""Two runs of hypernym prediction on the same pairs of concepts, compared by McNemar's exact test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.comparison.systems import Better, who_is_better
from sightword.errors import ScoringError
from sightword.files import read_table
from sightword.hypernyms.judging import mcnemar
from sightword.statistics import holm

_COLUMNS = ["hyponym", "hypernym", "label", "direct", "accepted"]


@dataclass(frozen=True)
class Part:
    """The accuracy of both runs, in percent, on a part of the pairs."""

    part: str
    pairs: int
    a: float
    b: float
    only_a: int
    """The number of pairs that only A classifies correctly."""
    only_b: int
    p: float
    """Two-sided, by McNemar's exact test."""
    holm: float
    """``p``, corrected over all parts."""

    @property
    def better(self) -> Better:
        """The run whose accuracy is higher beyond chance."""
        return who_is_better(self.a - self.b, self.holm)


def compare(a: Path, b: Path) -> list[Part]:
    """Compare two tables ``scores.parquet`` of the stage hypernyms: on all pairs, and on each part that has pairs.

    Raises:
        ScoringError: the tables have other pairs, or none.
        FileFormatError: a table is damaged.
    """
    tables = [read_table(path, _COLUMNS, todo="Run the stage hypernyms again.") for path in (a, b)]
    a_values, b_values = ({name: table[name].to_numpy() for name in _COLUMNS} for table in tables)
    label, direct = a_values["label"], a_values["direct"]
    same = all(np.array_equal(a_values[name], b_values[name]) for name in ("hyponym", "hypernym", "label"))
    if not same or not len(label):
        raise ScoringError("the two were judged on other pairs of concepts")
    first, second = a_values["accepted"] == label, b_values["accepted"] == label
    masks = {
        "all pairs": np.ones_like(label),
        "direct edges": label & direct,
        "other true pairs": label & ~direct,
        "false pairs": ~label,
    }
    parts = {name: mask for name, mask in masks.items() if mask.any()}
    rights = [(first[mask], second[mask]) for mask in parts.values()]
    tests = [mcnemar(*right) for right in rights]
    corrected = holm([p for _, _, p in tests])
    return [
        Part(name, len(ours), 100.0 * float(ours.mean()), 100.0 * float(theirs.mean()), *test, p)
        for name, (ours, theirs), test, p in zip(parts, rights, tests, corrected, strict=True)
    ]
