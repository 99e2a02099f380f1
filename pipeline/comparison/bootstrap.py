"""The difference of two systems' correlations under resampling of the pairs, which both are judged on.

Nothing is taken for granted about how scores are distributed, as Fisher's intervals and the tests of dependent
correlations do (they take them for normal), only that the pairs are independent of each other.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_DRAWS = 1 << 17
"""Pairs times resamples that are worked on together: few enough for a CPU's cache."""

_NOTHING = 1e-12
"""A variance, as a share of the whole sample's, or a difference, that is rounding."""


@dataclass(frozen=True)
class Resampled:
    """What the resamples say of a difference."""

    low: float
    high: float
    """The ends of the 95 % percentile interval."""
    p: float
    """Two-sided, of no difference."""


def resampled_differences(
    gold: NDArray[np.float64],
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    *,
    samples: int,
    seed: int,
    name: str = "",
) -> NDArray[np.float64]:
    """Pearson's r of A less that of B on pairs drawn with replacement, as many as there are.

    Args:
        gold: (N,) people's scores, not constant.
        a: (N,) those of A, not constant.
        b: (N,) those of B, not constant.
        samples: how many resamples.
        seed: of the draws.
        name: of the pairs; other names have other draws from the same seed.

    Returns:
        (samples,) differences; NaN where all drawn gold scores, or all of A or of B, are the same.
    """
    random = np.random.default_rng([seed, zlib.crc32(name.encode())])
    count = len(gold)
    g, x, y = (_standard(series) for series in (gold, a, b))
    # Sums over a resample are sums over the sample, weighted by how often each pair was drawn.
    products = np.column_stack([g, x, y, g * g, x * x, y * y, g * x, g * y])
    at_once = max(1, _DRAWS // count)
    found = np.empty(samples)
    for start in range(0, samples, at_once):
        rows = min(at_once, samples - start)
        drawn = random.integers(0, count, (rows, count))
        drawn += count * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * count).reshape(rows, count)
        found[start : start + rows] = _differences(times @ products / count)
    return found


def resampled(differences: NDArray[np.float64]) -> Resampled | None:
    """Interval and p of resampled differences.

    The interval is from the 2.5 to the 97.5 percentile (Efron & Tibshirani 1993, chapter 13). p is twice the smaller
    share of resamples on one side of 0, those at 0 counted to both, with one more counted than there are so that it
    is never 0 (Davison & Hinkley 1997, section 4.2): with 10,000 resamples it is 0.0002 or more.

    Args:
        differences: what :func:`resampled_differences` gave.

    Returns:
        None where fewer than half of the resamples have a difference.
    """
    defined = differences[~np.isnan(differences)]
    if 2 * len(defined) < len(differences) or not len(defined):
        return None
    low, high = np.quantile(defined, [0.025, 0.975])
    smaller = min(int((defined <= 0).sum()), int((defined >= 0).sum()))
    return Resampled(float(low), float(high), min(1.0, 2 * (smaller + 1) / (len(defined) + 1)))


def _standard(series: NDArray[np.float64]) -> NDArray[np.float64]:
    centred = series - series.mean()
    standard: NDArray[np.float64] = centred / np.sqrt(np.mean(centred**2))
    return standard


def _differences(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """From the means (rows, 8) of the products."""
    g, x, y, gg, xx, yy, gx, gy = means.T
    of_gold, of_a, of_b = gg - g * g, xx - x * x, yy - y * y
    flat = np.minimum(np.minimum(of_gold, of_a), of_b) < _NOTHING
    of_gold[flat] = np.nan
    r_a, r_b = (gx - g * x) / np.sqrt(of_gold * of_a), (gy - g * y) / np.sqrt(of_gold * of_b)
    difference: NDArray[np.float64] = r_a - r_b
    difference[np.abs(difference) < _NOTHING] = 0.0
    return difference
