"""Correlations, confidence intervals of correlations and proportions, and Holm's correction for multiple tests.

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

Interval = float | Sequence[float]
"""Half the width of an interval around its value, or its ends [low, high]."""

_FEW = 10
"""Successes or failures below which an interval of a proportion is Wilson's."""
_FLAT = 1e-13
"""A series whose spread is below this share of its mean is rounding noise around a constant (as SciPy warns)."""


def rounded(value: Any, digits: int = 6) -> Any:
    """Return metrics, in nested mappings and lists, with their floats rounded: no digits but those that can be read."""
    if isinstance(value, Mapping):
        return {key: rounded(one, digits) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one, digits) for one in value]
    return round(value, digits) if isinstance(value, float) else value


def proportion_interval(percent: float, cases: float) -> Interval:
    """Return the 95 % interval of a proportion in percent, such as a recall: half its width, or [low, high].

    The half-width is Wald's, ``1.96 sqrt(p (1 - p) / n)``, as in published tables. With fewer than 10 successes or
    failures, where Wald's interval is too narrow, the interval is Wilson's (1927), the roots of
    ``(q - p)^2 = 1.96^2 q (1 - q) / n`` (Brown et al. 2001 compare both). ``cases`` may be an effective number, which
    is not whole. ValueError for a percent below 0 or beyond 100, or fewer cases than 1.
    """
    if cases < 1 or not 0.0 <= percent <= 100.0:
        raise ValueError(f"not a proportion: {percent} percent of {cases} cases")
    share = percent / 100.0
    if round(cases * min(share, 1.0 - share), 6) >= _FEW:
        return 100.0 * Z95 * math.sqrt(share * (1.0 - share) / cases)
    ratio = Z95 * Z95 / cases
    middle = share + ratio / 2.0
    half = math.sqrt(ratio * (share * (1.0 - share) + ratio / 4.0))
    low, high = (100.0 * (middle + sign * half) / (1.0 + ratio) for sign in (-1.0, 1.0))
    return [low if share else 0.0, high if share < 1.0 else 100.0]


def clustered_interval(right: ArrayLike, clusters: ArrayLike) -> Interval:
    """Return the 95 % interval in percent of a share, whose (N,) cases come in clusters of cases that are alike.

    The interval is that of :func:`proportion_interval` for the :func:`effective_cases`. ValueError without cases.
    """
    cases = effective_cases(right, clusters)
    return proportion_interval(100.0 * float(_series(right).mean()), cases)


def effective_cases(right: ArrayLike, clusters: ArrayLike) -> float:
    """Return the number of independent cases with which a share has the variance of (N,) cases in clusters.

    The variance over clusters is that of :func:`clustered_half_width`. Where it is 0, since all cases are equal or
    there is one cluster, the number is that of the clusters. ValueError without cases.
    """
    half = clustered_half_width(right, clusters)
    share = float(_series(right).mean())
    cases = share * (1.0 - share) * (Z95 / half) ** 2 if half else 0.0
    return max(1.0, cases or len(np.unique(np.asarray(clusters))))


def interval_text(interval: Interval | None, digits: int = 1) -> str:
    """Return an interval as ``± 1.2``, its half-width, or ``95.4 to 100.0``, its ends; empty without one."""
    if isinstance(interval, Sequence):
        return " to ".join(f"{end:.{digits}f}" for end in interval)
    return "" if interval is None or not math.isfinite(interval) else f"± {interval:.{digits}f}"


def interval_ends(value: float, interval: Interval) -> tuple[float, float]:
    """Return the ends of an interval around a value in percent, within 0 and 100."""
    if isinstance(interval, Sequence):
        return interval[0], interval[1]
    return max(0.0, value - interval), min(100.0, value + interval)


def with_interval(value: float, interval: Interval | None, digits: int = 1) -> str:
    """Return a value with its interval: ``71.7 ± 1.2``, ``100.0 (95.4 to 100.0)``."""
    text = interval_text(interval, digits)
    behind = f" ({text})" if isinstance(interval, Sequence) else f" {text}" if text else ""
    return f"{value:.{digits}f}{behind}"


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


def mcnemar(first: ArrayLike, second: ArrayLike, clusters: ArrayLike | None = None) -> tuple[int, int, float]:
    """Compare two classifiers of the same (N,) cases by McNemar's test.

    Returns the cases that only the first, and only the second classifies correctly, and the two-sided p. Without
    clusters the test is the exact one. Where cases come in clusters of cases that are alike, the statistic is ``(sum_c
    d_c)^2 / sum_c d_c^2`` with d_c the cases of a cluster that only the first classifies correctly minus those that
    only the second does: chi-squared with one degree of freedom, without a correction for continuity. For clusters of
    one size it is that of Durkalski et al. (2003), who divide d_c by the size of the cluster.
    """
    ours, theirs = _series(first), _series(second)
    one, other = int((ours > theirs).sum()), int((theirs > ours).sum())
    if clusters is None:
        from scipy.stats import binomtest

        return one, other, float(binomtest(one, one + other).pvalue) if one + other else 1.0
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
    largest = float(np.abs(values).max())
    if largest and not 1e-140 < largest < 1e140:  # or squares overflow or vanish
        values = values / largest
    mean = values.mean()
    centred: NDArray[np.float64] = values - mean
    if np.linalg.norm(centred) <= _FLAT * abs(mean):
        return np.zeros_like(values)
    return centred
