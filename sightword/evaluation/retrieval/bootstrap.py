"""Computes confidence intervals by resampling pictures, from the ranks alone.

Wald's interval assumes independent queries, but the captions of a picture depend on each other. Whole pictures are
therefore drawn, with all their captions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sightword.statistics.bootstrap import Doubles, draws, ends

RESAMPLES = 1000
SEED = 0
DEPTHS = (1, 5, 10)
_NUMBERS = 1 << 21
"""Queries times resamples in one block."""

Fold = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The ranks of a fold's queries, and the row of each query's picture; every row from 0 to the largest has a query."""


def intervals(
    directions: Sequence[Sequence[Fold]], *, resamples: int = RESAMPLES, seed: int = SEED
) -> list[dict[str, list[float]]]:
    """Return 95 % percentile intervals of recalls and median ranks.

    From each fold as many pictures as it has are drawn with replacement, each with all its queries. The numbers of a
    resample are defined as in the metrics: recalls over the queries of all folds, the mean of the folds' median ranks.

    Args:
        directions: the folds of each direction. The folds have the same pictures in all directions, and each resample
            draws the same pictures in all directions.
        resamples: the number of resamples.
        seed: the seed of the draws.

    Returns:
        For each direction ``r1``, ``r5``, ``r10`` in percent, and ``median_rank``: each [low, high].
    """
    sides = [[_Fold(ranks, picture) for ranks, picture in folds] for folds in directions]
    queries = max(len(ranks) for folds in directions for ranks, _ in folds)
    at_once = max(1, _NUMBERS // queries)
    drawn = [
        draws(fold.pictures, resamples, seed, f"fold {number}", block=at_once * fold.pictures)
        for number, fold in enumerate(sides[0])
    ]
    found: list[list[list[Doubles]]] = [[] for _ in sides]
    for times in zip(*drawn, strict=True):
        for numbers, folds in zip(found, sides, strict=True):
            numbers.append([fold.numbers(rows) for fold, rows in zip(folds, times, strict=True)])
    return [_intervals(np.concatenate(numbers, axis=1)) for numbers in found]


def _intervals(numbers: Doubles) -> dict[str, list[float]]:
    """Return the intervals of one direction from (folds, resamples, 5) numbers of :meth:`_Fold.numbers`."""
    found = numbers.sum(axis=0)
    of_all = [*(100.0 * found[:, :3] / found[:, 3:4]).T, numbers[:, :, 4].mean(axis=0)]
    names = [*(f"r{k}" for k in DEPTHS), "median_rank"]
    return {name: ends(values) or [] for name, values in zip(names, of_all, strict=True)}


class _Fold:
    """The queries of a fold in the order of ranks, with each picture's numbers of queries and hits."""

    def __init__(self, ranks: NDArray[np.int64], picture: NDArray[np.int64]) -> None:
        order = np.argsort(ranks, kind="stable")
        self._ranks, self._picture = ranks[order], picture[order]
        self.pictures = int(picture.max()) + 1
        hits = [self._queries(int(np.searchsorted(self._ranks, k, side="right"))) for k in DEPTHS]
        self._counted = np.column_stack([*hits, self._queries(len(ranks))])
        most = self.pictures * self._counted[:, 3].max()  # the largest possible number of queries of a resample
        self._kind = np.float32 if most < 2**24 else np.float64

    def _queries(self, first: int) -> NDArray[np.float64]:
        """Return the (pictures,) numbers of the first queries that each picture has."""
        return np.bincount(self._picture[:first], minlength=self.pictures).astype(np.float64)

    def numbers(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return hits at each depth, queries and median rank of each resample; ``times`` is (resamples, pictures)."""
        counted = times @ self._counted  # whole numbers, so exact
        queries = counted[:, -1:]
        middle = np.column_stack([(queries - 1) // 2, queries // 2])  # the one or two in the middle, from 0
        return np.column_stack([counted, self._at(times, middle).mean(axis=1)])

    def _at(self, times: NDArray[np.float64], places: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the ranks at some places (resamples, 2) of each resample's sorted queries.

        The middle of a resample is near the sample's: only queries near it are counted, and more if they do not reach.
        """
        count = len(self._ranks)
        margin = 1 + int(2 * count / np.sqrt(self.pictures))
        while True:
            low, high = max(0, count // 2 - margin), min(count, count // 2 + margin)
            before = (times @ self._queries(low))[:, None]
            # The numbers of queries up to each query: whole numbers, which the type holds exactly.
            upto = times.astype(self._kind)[:, self._picture[low:high]].cumsum(axis=1)
            upto += before.astype(self._kind)
            if (before <= places).all() and (upto[:, -1:] > places).all():
                steps = np.column_stack([(upto <= place[:, None]).sum(axis=1) for place in places.T])
                found: NDArray[np.int64] = self._ranks[low + steps]
                return found
            margin *= 4
