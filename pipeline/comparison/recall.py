"""Two systems' recalls on the same queries, and whether their difference may be chance.

Both systems mostly fail on the same queries, so their own intervals say little about the difference. For its interval,
pictures are drawn with all their queries, as for the interval of one system
(:mod:`sightword.evaluation.retrieval.protocols`), the same pictures for both systems.

For the test, the answers to all queries of a picture are swapped between the systems at random (Noreen 1989; Smucker,
Allan & Carterette 2007). Its level is exact however few queries the systems differ on. The level of a bootstrap is not:
if four pictures are right with A only and none with B only, chance does as much one time in eight, but only one
resample in 55 has no difference.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from pipeline.comparison.correlations import SAMPLES, SEED, Better, who_is_better
from sightword.errors import ScoringError
from sightword.report.gallery import QueryKey
from sightword.statistics.bootstrap import Doubles, draws
from sightword.statistics.inference import holm

DEPTHS = (1, 5, 10)
DIRECTIONS = ("caption_to_image", "image_to_caption")
_DRAWS = 1 << 22
"""Pictures times resamples in a block."""

Ranks = Mapping[QueryKey, int]
"""The position of the first right answer to each query; 0 if it is not among the kept answers."""


@dataclass(frozen=True)
class Recall:
    """R@k of one direction in percent.

    ``interval``, ``p`` and ``holm`` are None if A and B have as many right answers to the queries of each picture.
    """

    direction: str
    depth: int
    queries: int
    a: float
    b: float
    difference: float
    """``a - b``."""
    only_a: int
    """The number of queries with a right answer among the first ``depth`` of A, and none of B."""
    only_b: int
    interval: tuple[float, float] | None = None
    """From the 2.5 to the 97.5 percentile of ``difference`` under resampling of pictures."""
    p: float | None = None
    """Two-sided, of no difference: the share of random swaps with a difference as large or larger."""
    holm: float | None = None
    """``p``, corrected over all rows."""

    @property
    def better(self) -> Better:
        """The system whose recall is higher beyond chance."""
        return who_is_better(self.difference, self.holm)


def compare(
    a: Mapping[str, Ranks], b: Mapping[str, Ranks], *, depth: int, samples: int = SAMPLES, seed: int = SEED
) -> list[Recall]:
    """Compare two systems by their ranks in each direction, on the same queries.

    Args:
        a: the ranks of system A by direction.
        b: the ranks of system B.
        depth: the number of kept answers to each query; recalls beyond it are left out.
        samples: the number of resamples, and of random swaps.
        seed: the seed of their draws.

    Returns:
        A row for each direction that both have and each k of 1, 5 and 10.

    Raises:
        ScoringError: the queries differ, so that the recalls cannot be compared.
    """
    directions = [name for name in DIRECTIONS if a.get(name) and b.get(name)]
    for name in directions:
        _check_queries(name, a[name], b[name])
    if not directions:
        return []
    pictures = {picture: row for row, picture in enumerate(sorted({key[0] for key in a[directions[0]]}))}
    rows, columns, queries = [], [], []
    for name in directions:
        keys = sorted(a[name])
        ours, theirs = (np.array([ranks[name][key] for key in keys]) for ranks in (a, b))
        picture = np.array([pictures[key[0]] for key in keys])
        for k in (k for k in DEPTHS if k <= depth):
            hit, other = (ours > 0) & (ours <= k), (theirs > 0) & (theirs <= k)
            columns.append(np.bincount(picture, hit.astype(float) - other.astype(float), len(pictures)))
            queries.append(np.bincount(picture, minlength=len(pictures)).astype(float))
            r_a, r_b = 100.0 * float(hit.mean()), 100.0 * float(other.mean())
            only_a, only_b = int((hit & ~other).sum()), int((other & ~hit).sum())
            rows.append(Recall(name, k, len(keys), r_a, r_b, 100.0 * (only_a - only_b) / len(keys), only_a, only_b))
    hits: Doubles = np.column_stack(columns)  # (pictures, rows): hits of A minus hits of B
    counts = np.column_stack(queries)
    blocks = draws(len(hits), samples, seed, "pictures")
    differences = np.concatenate([100.0 * (times @ hits) / (times @ counts) for times in blocks])
    low, high = np.quantile(differences, [0.025, 0.975], axis=0)
    p = _swapped(hits, samples, seed)
    tested = np.flatnonzero(hits.any(axis=0)).tolist()
    for place, corrected in zip(tested, holm(p[tested].tolist()), strict=True):
        ends = float(low[place]), float(high[place])
        rows[place] = replace(rows[place], interval=ends, p=float(p[place]), holm=corrected)
    return rows


def _check_queries(direction: str, a: Ranks, b: Ranks) -> None:
    if a.keys() != b.keys():
        raise ScoringError(
            f"the two were asked other queries: {len(a.keys() - b.keys()):,} only in A, "
            f"{len(b.keys() - a.keys()):,} only in B",
            where=direction,
            expected="the same captions and pictures of the same split",
        )


def _swapped(hits: Doubles, samples: int, seed: int) -> Doubles:
    """Return the share of random swaps of A's and B's answers, picture by picture, with a difference as large, (rows,).

    The real difference counts as one more swap, so that the share is never 0 (Davison & Hinkley 1997, section 4.2).
    """
    random = np.random.default_rng([seed, zlib.crc32(b"swaps")])
    seen = np.abs(hits.sum(axis=0))
    block = max(1, _DRAWS // len(hits))
    as_much = np.ones(len(seen))
    for start in range(0, samples, block):
        signs = random.integers(0, 2, (min(block, samples - start), len(hits))) * 2.0 - 1.0
        as_much += (np.abs(signs @ hits) >= seen).sum(axis=0)  # sums of whole numbers, so nothing is rounded
    return as_much / (samples + 1)
