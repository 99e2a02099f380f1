"""The rows of tables that the systems declare, and two runs that classify the same pairs compared by McNemar's test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.comparison.correlations import Better, who_is_better
from sightword.errors import ScoringError
from sightword.io.files import read_table
from sightword.statistics.inference import holm, mcnemar

Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of both runs, in percent, on a part of the pairs."""

    part: str
    pairs: int
    a: float
    b: float
    only_a: int
    """The number of pairs that only A classifies correctly."""
    only_b: int
    p: float
    """Two-sided: McNemar's exact test, or the test over clusters of pairs."""
    holm: float
    """``p``, corrected over all parts."""

    @property
    def better(self) -> Better:
        """The run whose accuracy is higher beyond chance."""
        return who_is_better(self.a - self.b, self.holm)


@dataclass(frozen=True)
class Measure:
    """A measure of one scenario in both runs, in percent."""

    scenario: str
    measure: str
    a: float
    b: float
    difference: float
    interval: tuple[float, float] | None
    """Of the difference, 95 %; None where the test gives none."""
    p: float
    holm: float
    """``p``, corrected over all measures of all scenarios."""
    lower: bool = False
    """Whether lower is better."""

    @property
    def better(self) -> Better:
        """The run that is better beyond chance."""
        return who_is_better(-self.difference if self.lower else self.difference, self.holm)


def read(
    a: Path, b: Path, stage: str, same: Sequence[str], others: Sequence[str], what: str
) -> tuple[Columns, Columns]:
    """Read the columns of the tables of both runs, which a stage wrote; those of ``same`` must be the same.

    Raises:
        ScoringError: the tables have other pairs, or none.
        FileFormatError: a table is damaged.
    """
    names = [*same, *others]
    tables = [read_table(path, names, todo=f"Run the stage {stage} again.") for path in (a, b)]
    ours, theirs = ({name: table[name].to_numpy() for name in names} for table in tables)
    if not len(ours[names[0]]) or not all(np.array_equal(ours[name], theirs[name]) for name in same):
        raise ScoringError(f"the two were judged on other pairs of {what}")
    return ours, theirs


def classified(
    first: NDArray[Any], second: NDArray[Any], masks: Mapping[str, NDArray[Any]], clusters: NDArray[Any] | None = None
) -> list[Accuracy]:
    """Compare which pairs each side classifies correctly: all of them, and those of each mask with any.

    With ``clusters``, the pairs of one cluster are taken together.
    """
    parts = {"all pairs": np.ones_like(first), **{name: mask for name, mask in masks.items() if mask.any()}}
    rights = [(first[mask], second[mask]) for mask in parts.values()]
    tests = [
        mcnemar(*right, None if clusters is None else clusters[mask])
        for right, mask in zip(rights, parts.values(), strict=True)
    ]
    corrected = holm([p for _, _, p in tests])
    return [
        Accuracy(name, len(ours), 100.0 * float(ours.mean()), 100.0 * float(theirs.mean()), *test, p)
        for name, (ours, theirs), test, p in zip(parts, rights, tests, corrected, strict=True)
    ]
