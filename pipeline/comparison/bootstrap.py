"""The difference of two systems' correlations with the same gold scores, under resampling of the pairs.

The bootstrap needs independent pairs. Fisher's intervals and the tests of dependent correlations also need normally
distributed scores.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_DRAWS = 1 << 17
"""Pairs times resamples in a block, which stays in a CPU's cache."""
_ROUNDING = 1e-12
"""A variance, as a share of the whole sample's, or a difference, that is rounding."""

Doubles = NDArray[np.float64]


class Resampled(NamedTuple):
    """The 95 % percentile interval of a difference, and the two-sided p of no difference."""

    low: float
    high: float
    p: float


def resamples(count: int, samples: int, seed: int, name: str, *, block: int) -> Iterator[Doubles]:
    """Yield how often each of ``count`` items is drawn in ``count`` draws, (rows, count), ``samples`` rows in all.

    Other names have other draws from the same seed. ``block`` limits the numbers that are held at a time.
    """
    random = np.random.default_rng([seed, zlib.crc32(name.encode())])
    most = max(1, block // count)
    for start in range(0, samples, most):
        rows = min(most, samples - start)
        drawn = random.integers(0, count, (rows, count)) + count * np.arange(rows)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * count).reshape(rows, count).astype(float)


def resampled_differences(gold: Doubles, a: Doubles, b: Doubles, *, samples: int, seed: int, name: str = "") -> Doubles:
    """Return Pearson's r of A minus that of B on pairs drawn with replacement.

    Args:
        gold: (N,) human scores, not constant.
        a: (N,) scores of A, not constant.
        b: (N,) scores of B, not constant.
        samples: the number of resamples.
        seed: the seed of the draws.
        name: the name of the pairs; other names have other draws from the same seed.

    Returns:
        (samples,) differences; NaN if all drawn scores of people, A or B are the same.
    """
    g, x, y = ((series - series.mean()) / series.std() for series in (gold, a, b))
    # Sums over a resample are sums over the sample, weighted by how often each pair was drawn.
    products = np.column_stack([g, x, y, g * g, x * x, y * y, g * x, g * y])
    blocks = resamples(len(gold), samples, seed, name, block=_DRAWS)
    return np.concatenate([_differences(times @ products / len(gold)) for times in blocks])


def resampled(differences: Doubles) -> Resampled | None:
    """Return interval and p of the result of :func:`resampled_differences`.

    The interval is from the 2.5 to the 97.5 percentile (Efron & Tibshirani 1993, chapter 13). p is twice the smaller
    share of resamples on one side of 0. Resamples at 0 count on both sides, and one more resample is counted, so that p
    is never 0 (Davison & Hinkley 1997, section 4.2): with 10,000 resamples it is 0.0002 or more.

    Returns:
        None if fewer than half of the resamples have a difference.
    """
    defined = differences[~np.isnan(differences)]
    if 2 * len(defined) < len(differences) or not len(defined):
        return None
    low, high = np.quantile(defined, [0.025, 0.975])
    smaller = min(int((defined <= 0).sum()), int((defined >= 0).sum()))
    return Resampled(float(low), float(high), min(1.0, 2 * (smaller + 1) / (len(defined) + 1)))


def _differences(means: Doubles) -> Doubles:
    """Return the differences from the means (rows, 8) of the products."""
    g, x, y, gg, xx, yy, gx, gy = means.T
    of_gold, of_a, of_b = gg - g * g, xx - x * x, yy - y * y
    flat = np.minimum(np.minimum(of_gold, of_a), of_b) < _ROUNDING
    of_gold[flat] = np.nan
    r_a, r_b = (gx - g * x) / np.sqrt(of_gold * of_a), (gy - g * y) / np.sqrt(of_gold * of_b)
    difference: Doubles = r_a - r_b
    difference[np.abs(difference) < _ROUNDING] = 0.0
    return difference
