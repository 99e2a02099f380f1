"""A row's run beside the same run made again: which scores differ, and whether they may.

On the same kind of machine with the same inputs all scores are equal. Elsewhere a score may differ from the mean of the
row by :data:`DEVIATIONS` standard deviations over its seeds; with fewer than three seeds, within its own 95 % interval.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import NamedTuple

from pipeline.results.records import Row, Run, Score

DEVIATIONS = 2.5
FEWEST = 3
"""Seeds from which a deviation is taken."""


class Difference(NamedTuple):
    """A score that differs, or that only the row has."""

    name: str
    row: float
    again: float | None
    """None where the run made again has no such score."""
    low: float | None
    """The least value that agrees; None where nothing is known of the score's spread."""
    high: float | None

    @property
    def beyond(self) -> bool:
        """Whether the difference is more than chance and machine explain."""
        if self.again is None:
            return True
        return self.low is not None and self.high is not None and not self.low <= self.again <= self.high

    @property
    def judged(self) -> bool:
        """Whether anything is known of how far the score may differ."""
        return self.again is None or self.low is not None


def compare(row: Row, run: Run, again: Mapping[str, Score], *, equal: bool) -> list[Difference]:
    """Return the scores of a run that differ when made again, those beyond their bounds first, then the largest.

    Args:
        row: the row of the run.
        run: the run.
        again: all scores of the run made again.
        equal: whether the machine and the inputs are the same, so that every difference counts.
    """
    found = []
    for name, score in run.scores.items():
        there = again.get(name)
        if there is None or there.value != score.value:
            ends = (score.value, score.value) if equal else _bounds(row, score, name)
            found.append(Difference(name, score.value, None if there is None else there.value, *ends))
    return sorted(found, key=lambda one: (not one.beyond, -_share(one), one.name))


def _bounds(row: Row, score: Score, name: str) -> tuple[float, float] | tuple[None, None]:
    values = [run.scores[name].value for run in row.runs if name in run.scores]
    middle, spread = statistics.fmean(values), statistics.stdev(values) if len(values) >= FEWEST else 0.0
    if score.sd and any(run.scores.get(name) is score and len(run.seeds) >= FEWEST for run in row.runs):
        middle, spread = score.value, score.sd
    if spread:
        return middle - DEVIATIONS * spread, middle + DEVIATIONS * spread
    return (score.low, score.high) if score.low is not None and score.high is not None else (None, None)


def _share(one: Difference) -> float:
    """Return the size of a difference as a share of the value, since scores have several units."""
    return abs(one.again - one.row) / max(abs(one.row), 1e-9) if one.again is not None else float("inf")
