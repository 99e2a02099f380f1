"""Two systems' recalls side by side, with what chance may explain of their difference.

Both answered the same queries, and mostly fail on the same ones, so their intervals say little of the difference.
For its interval pictures are drawn with all their queries, as for the intervals of one system
(:mod:`sightword.retrieval.bootstrap`), the same ones for both.

For the test the answers to all queries of a picture are swapped between the two at random (Noreen 1989; Smucker, Allan
& Carterette 2007). Its level is exact however few queries the two differ on. A bootstrap's is not: where four pictures
are right with A only and none with B only, chance does as much one time in eight, yet one resample in 55 has no
difference.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pipeline.comparison.systems import SAMPLES, SEED, Better, who_is_better
from sightword.errors import ScoringError
from sightword.statistics import holm

DEPTHS = (1, 5, 10)
DIRECTIONS = ("caption_to_image", "image_to_caption")
_DRAWS = 1 << 22
"""Pictures times resamples that are worked on together."""

Ranks = Mapping[tuple[str, int], int]
"""The position of the first right answer to each query (picture, caption; -1 for the picture itself), 0 where it is
not among the best that were kept."""


@dataclass(frozen=True)
class Recall:
    """R@k of one direction. ``interval``, ``p`` and ``holm`` are None where A and B have as many right answers to the
    queries of each picture.
    """

    direction: str
    depth: int
    queries: int
    a: float
    """In percent."""
    b: float
    difference: float
    """``a - b``."""
    only_a: int
    """Queries that A has a right answer to among the first ``depth``, and B has not."""
    only_b: int
    interval: tuple[float, float] | None
    """From the 2.5 to the 97.5 percentile of ``difference`` under resampling of pictures."""
    p: float | None
    """Two-sided, of no difference: the share of random swaps that differ as much or more."""
    holm: float | None
    """``p``, corrected over all rows."""

    @property
    def better(self) -> Better:
        """Whose recall is higher beyond chance."""
        return who_is_better(self.difference, self.holm)


def compare(
    a: Mapping[str, Ranks], b: Mapping[str, Ranks], *, depth: int, samples: int = SAMPLES, seed: int = SEED
) -> list[Recall]:
    """Compare two systems that answered the same queries.

    Args:
        a: the ranks of system A by direction.
        b: those of B, of the same queries.
        depth: how many answers were kept of each query; recalls beyond it are left out.
        samples: resamples of the bootstrap, and random swaps.
        seed: of their draws.

    Returns:
        A row for each direction that both have and each k of 1, 5 and 10.

    Raises:
        ScoringError: they were asked other queries, so that recalls are of other things.
    """
    directions = [name for name in DIRECTIONS if a.get(name) and b.get(name)]
    for name in directions:
        _same_queries(name, a[name], b[name])
    if not directions:
        return []
    pictures = {picture: row for row, picture in enumerate(sorted({key[0] for key in a[directions[0]]}))}
    rows, columns, queries = [], [], []
    for name in directions:
        keys = sorted(a[name])
        ours, theirs = (np.array([ranks[name][key] for key in keys]) for ranks in (a, b))
        picture = np.array([pictures[key[0]] for key in keys])
        for k in DEPTHS:
            if k > depth:
                continue
            hit, other = (ours > 0) & (ours <= k), (theirs > 0) & (theirs <= k)
            columns.append(np.bincount(picture, hit.astype(float) - other.astype(float), len(pictures)))
            queries.append(np.bincount(picture, minlength=len(pictures)).astype(float))
            r_a, r_b = 100.0 * float(hit.mean()), 100.0 * float(other.mean())
            only_a, only_b = int((hit & ~other).sum()), int((other & ~hit).sum())
            difference = 100.0 * (only_a - only_b) / len(keys)
            rows.append(Recall(name, k, len(keys), r_a, r_b, difference, only_a, only_b, None, None, None))
    differences: NDArray[np.float64] = np.column_stack(columns)
    low, high = np.quantile(_resampled(differences, np.column_stack(queries), samples, seed), [0.025, 0.975], axis=0)
    p = _swapped(differences, samples, seed)
    tested = np.flatnonzero(differences.any(axis=0)).tolist()
    for place, corrected in zip(tested, holm(p[tested].tolist()), strict=True):
        ends = float(low[place]), float(high[place])
        rows[place] = replace(rows[place], interval=ends, p=float(p[place]), holm=corrected)
    return rows


def _same_queries(direction: str, a: Ranks, b: Ranks) -> None:
    if a.keys() == b.keys():
        return
    only = [f"{len(mine.keys() - other.keys()):,} only in {name}" for name, mine, other in (("A", a, b), ("B", b, a))]
    raise ScoringError(
        f"the two were asked other queries: {', '.join(only)}",
        where=direction,
        expected="the same captions and pictures of the same split",
    )


def _resampled(
    differences: NDArray[np.float64], queries: NDArray[np.float64], samples: int, seed: int
) -> NDArray[np.float64]:
    """(samples, rows) differences in percent under resampling of pictures, all rows on the same draws.

    Args:
        differences: (pictures, rows) hits of A less hits of B.
        queries: (pictures, rows) how many queries each picture has.
        samples: how many resamples.
        seed: of the draws.
    """
    random = np.random.default_rng([seed, zlib.crc32(b"pictures")])
    count = len(differences)
    at_once = max(1, _DRAWS // count)
    found = []
    for start in range(0, samples, at_once):
        rows = min(at_once, samples - start)
        drawn = random.integers(0, count, (rows, count))
        drawn += count * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * count).reshape(rows, count).astype(float)
        found.append(100.0 * (times @ differences) / (times @ queries))
    return np.concatenate(found)


def _swapped(differences: NDArray[np.float64], samples: int, seed: int) -> NDArray[np.float64]:
    """(rows,) the share of random swaps of A's and B's answers, picture by picture, that differ as much as they do.

    What is seen counts as one more swap, so that the share is never 0 (Davison & Hinkley 1997, section 4.2).

    Args:
        differences: (pictures, rows) hits of A less hits of B.
        samples: how many swaps.
        seed: of the draws.
    """
    random = np.random.default_rng([seed, zlib.crc32(b"swaps")])
    seen = np.abs(differences.sum(axis=0))
    at_once = max(1, _DRAWS // len(differences))
    as_much = np.ones(len(seen))
    for start in range(0, samples, at_once):
        signs = random.integers(0, 2, (min(at_once, samples - start), len(differences))) * 2.0 - 1.0
        as_much += (np.abs(signs @ differences) >= seen).sum(axis=0)  # of whole numbers, so nothing is rounded
    return as_much / (samples + 1)


def better_counts(rows: Sequence[Recall]) -> tuple[int, int]:
    """On how many rows A, and B, is better beyond chance."""
    better = [row.better for row in rows]
    return better.count("A"), better.count("B")
