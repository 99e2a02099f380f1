"""Correlations, confidence intervals of correlations and recalls, and Holm's correction for multiple tests.

An undefined number, such as the correlation with a constant, is ``None``, never 0 or NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Z95 = 1.96
"""The standard normal's 97.5 % point as the papers round it."""

_FLAT = 1e-13
"""A series whose spread is below this share of its mean is rounding noise around a constant (as SciPy warns)."""


def rounded(value: Any, digits: int = 6) -> Any:
    """Return metrics, in nested mappings and lists, with their floats rounded: no digits but those that can be read."""
    if isinstance(value, Mapping):
        return {key: rounded(one, digits) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one, digits) for one in value]
    return round(value, digits) if isinstance(value, float) else value


def wald_half_width(percent: float, queries: int) -> float:
    """Return half the width of the 95 % interval of a recall, ``1.96 sqrt(p (1 - p) / n)``, in percent.

    The width is 0 for a recall ``percent`` of 0 or 100, where Wald's approximation does not apply. ValueError for a
    percent beyond these, or fewer queries than 1.
    """
    if queries < 1 or not 0.0 <= percent <= 100.0:
        raise ValueError(f"not a recall: {percent} percent of {queries} queries")
    share = percent / 100.0
    return 100.0 * Z95 * math.sqrt(share * (1.0 - share) / queries)


def clustered_half_width(right: ArrayLike, clusters: ArrayLike) -> float:
    """Return half the width of the 95 % interval of a share, whose (N,) cases come in clusters of cases that are alike.

    The variance is that of a ratio of totals of C clusters (Cochran 1977, section 11.8),
    ``C / (C - 1) sum_c (sum_(i in c) (x_i - mean))^2 / N^2``: with a case in each cluster that of Wald, times
    ``N / (N - 1)``. The width is 0 with one cluster. ValueError without cases.
    """
    values = _series(right)
    if not len(values):
        raise ValueError("a share of no cases")
    totals = _totals(values - values.mean(), clusters)
    many = len(totals)
    return Z95 * math.sqrt(many / max(1, many - 1) * float(totals @ totals)) / len(values) if many > 1 else 0.0


def clustered_mcnemar(first: ArrayLike, second: ArrayLike, clusters: ArrayLike) -> tuple[int, int, float]:
    """Compare two classifiers of the same (N,) cases, which come in clusters of cases that are alike.

    The statistic is ``(sum_c d_c)^2 / sum_c d_c^2`` with d_c the cases of a cluster that only the first classifies
    correctly minus those that only the second does: chi-squared with one degree of freedom, and McNemar's test (without
    a correction for continuity) with a case in each cluster. For clusters of one size it is that of Durkalski et al.
    (2003), who divide d_c by the size of the cluster; here each case counts the same, as in the accuracies.

    Args:
        first: whether the first classifier is right.
        second: whether the second one is right.
        clusters: the cluster of each case.

    Returns:
        The cases that only the first, and only the second classifies correctly, and the two-sided p-value.
    """
    ours, theirs = _series(first), _series(second)
    one, other = int((ours > theirs).sum()), int((theirs > ours).sum())
    totals = _totals(ours - theirs, clusters)
    spread = float(totals @ totals)
    return one, other, math.erfc(math.sqrt((one - other) ** 2 / spread / 2.0)) if spread else 1.0


def fisher_interval(r: float, pairs: int, variance: float = 1.0) -> tuple[float, float] | None:
    """Return the 95 % interval of a Pearson correlation by Fisher's z, ``tanh(atanh(r) -+ 1.96 / sqrt(n - 3))``.

    ``variance`` is the variance of z, times n - 3. The interval is None for three pairs or fewer, and both its ends are
    ``r`` for a perfect correlation. ValueError if ``r`` is not within -1 and 1.
    """
    if not -1.0 <= r <= 1.0:
        raise ValueError(f"{r} is not a correlation")
    if pairs <= 3:
        return None
    if abs(r) == 1.0:
        return r, r
    middle, half = math.atanh(r), Z95 * math.sqrt(variance / (pairs - 3))
    return math.tanh(middle - half), math.tanh(middle + half)


def rank_interval(rho: float, pairs: int) -> tuple[float, float] | None:
    """Return the 95 % interval of a Spearman correlation: as :func:`fisher_interval`, with the variance of Bonett &
    Wright (2000), ``(1 + rho^2 / 2) / (n - 3)``.
    """
    return fisher_interval(rho, pairs, 1.0 + rho * rho / 2.0)


def pearson(x: ArrayLike, y: ArrayLike) -> float | None:
    """Return Pearson's product-moment correlation of (N,) and (N,) values in float64, within -1 and 1.

    The correlation is None for fewer than two pairs or a series that is constant up to rounding. ValueError if the
    shapes are wrong, or a value is not finite.
    """
    a, b = _centred(x), _centred(y)
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} values do not pair up")
    if not a.any() or not b.any():
        return None
    r = float(np.dot(a / np.linalg.norm(a), b / np.linalg.norm(b)))
    return min(1.0, max(-1.0, r))


def spearman(x: ArrayLike, y: ArrayLike) -> float | None:
    """Return Spearman's rank correlation, Pearson's of the mean ranks; None and errors as :func:`pearson`."""
    return None if pearson(x, y) is None else pearson(mean_ranks(x), mean_ranks(y))


def mean_ranks(x: ArrayLike) -> NDArray[np.float64]:
    """Return the (N,) ranks, from 1, of (N,) values; tied values share their mean rank."""
    _, place, counts = np.unique(_series(x), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: NDArray[np.float64] = ((last - counts + 1 + last) / 2.0)[place]
    return ranks


def holm(p: Sequence[float]) -> list[float]:
    """Return the p-values of several tests, in their order, corrected by Holm (1979); ValueError beyond 0 and 1.

    The k-th smallest of m values is multiplied by m - k + 1, and is at least the (k-1)-th corrected value and at most
    1. Below 0.05 the chance of at least one false positive is 5 % at most, however the tests depend on each other.
    """
    if wrong := [value for value in p if not 0.0 <= value <= 1.0]:
        raise ValueError(f"{wrong[0]} is not a probability")
    corrected, largest = [0.0] * len(p), 0.0
    for k, place in enumerate(sorted(range(len(p)), key=lambda place: p[place])):
        largest = max(largest, (len(p) - k) * p[place])
        corrected[place] = min(1.0, largest)
    return corrected


def _totals(values: NDArray[np.float64], clusters: ArrayLike) -> NDArray[np.float64]:
    """Return the sum of (N,) values in each of C clusters, (C,)."""
    return np.bincount(np.unique(np.asarray(clusters), return_inverse=True)[1], values).astype(np.float64)


def _series(x: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(x, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"expected a one-dimensional series, got an array of shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("the series has values that are not finite")
    return values


def _centred(x: ArrayLike) -> NDArray[np.float64]:
    """Return the series minus its mean, or zeros for a series that is constant up to rounding."""
    values = _series(x)
    if len(values) < 2:
        return np.zeros_like(values)
    mean = values.mean()
    centred: NDArray[np.float64] = values - mean
    if np.linalg.norm(centred) <= _FLAT * abs(mean):
        return np.zeros_like(values)
    return centred
