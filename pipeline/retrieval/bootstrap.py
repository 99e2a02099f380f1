"""Intervals by resampling pictures, from the ranks alone: nothing is scored again.

Wald's interval takes queries for independent. The captions of one picture are not:
an easy picture is easy for all five. So whole pictures are drawn, with all their
captions, and the interval is as wide as the numbers move.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1000
SEED = 0
DEPTHS = (1, 5, 10)


def intervals(
    folds: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]], *, resamples: int = RESAMPLES, seed: int = SEED
) -> dict[str, list[float]]:
    """The 95 % percentile intervals of one direction's recalls and median rank (Efron & Tibshirani 1993, chapter 13).

    From each fold as many pictures as it has are drawn with replacement, each bringing all its queries. The numbers
    are then as in the metrics: recalls over the queries of all folds, the median rank as the mean of the folds'.

    Args:
        folds: for each fold the ranks of its queries, and the row of each query's picture; every row from 0 to
            the largest has a query.
        resamples: how often pictures are drawn.
        seed: of the draws. Both directions of a protocol see the same pictures drawn.

    Returns:
        ``r1``, ``r5``, ``r10`` in percent, and ``median_rank``: each [low, high].
    """
    random = np.random.default_rng(seed)
    sides = [_Fold(ranks, picture) for ranks, picture in folds]
    drawn = np.array([[side.draw(random) for side in sides] for _ in range(resamples)])  # (resamples, folds, 5)
    found = drawn.sum(axis=1)
    numbers = np.column_stack([100.0 * found[:, :3] / found[:, 3:4], drawn[:, :, 4].mean(axis=1)])
    low, high = np.quantile(numbers, [0.025, 0.975], axis=0)
    names = [*(f"r{k}" for k in DEPTHS), "median_rank"]
    return {name: [float(low[place]), float(high[place])] for place, name in enumerate(names)}


class _Fold:
    """The queries of a fold in the order of their ranks: all that is asked of a resample is where its counts add up."""

    def __init__(self, ranks: NDArray[np.int64], picture: NDArray[np.int64]) -> None:
        order = np.argsort(ranks, kind="stable")
        self._ranks, self._picture = ranks[order], picture[order]
        self._pictures = int(picture.max()) + 1
        self._within = np.searchsorted(self._ranks, DEPTHS, side="right") - 1  # the last query that is a hit; or -1

    def draw(self, random: np.random.Generator) -> tuple[float, ...]:
        """Hits at each depth, queries, and the median rank of one resample."""
        times = np.bincount(random.integers(0, self._pictures, self._pictures), minlength=self._pictures)
        count = times[self._picture].cumsum()  # queries among the first ranks
        hits = (float(count[last]) if last >= 0 else 0.0 for last in self._within.tolist())
        queries = int(count[-1])
        low, high = count.searchsorted([(queries - 1) // 2, queries // 2], side="right")
        return *hits, queries, (self._ranks[low] + self._ranks[high]) / 2
