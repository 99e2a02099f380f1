"""Tests of the difference of two correlations with the same gold scores on the same pairs.

Two systems succeed and fail on the same pairs. Tests that take the correlations for independent miss most differences;
these tests take the correlation between the systems into account.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.special import stdtr

_SAME = 1e-12
"""Correlations that are closer than this differ by rounding: ``1 - r_ab`` would have four digits or fewer."""


class Outcome(NamedTuple):
    """A test's statistic, above 0 if A is higher, and its two-sided p."""

    statistic: float
    p: float


def williams(r_a: float, r_b: float, r_ab: float, pairs: int) -> Outcome | None:
    """Return Williams' t for two correlations that share a variable (Williams 1959; Steiger 1980, equation 7).

    It has ``pairs - 3`` degrees of freedom.

    ``r_a`` and ``r_b`` are the correlations of A's and B's scores with the gold scores, ``r_ab`` that of A's with B's.

    Returns:
        Statistic and p; 0 and 1 for equal correlations, or for systems that are the same up to rounding. None if there
        is no test: three pairs or fewer, or correlations of 1 and -1.

    Raises:
        ValueError: the values are not correlations, or no data can have all three.
    """
    determinant = _determinant(r_a, r_b, r_ab)
    if pairs <= 3:
        return None
    if _same(r_a, r_b, r_ab):
        return Outcome(0.0, 1.0)
    middle = (r_a + r_b) / 2
    spread = 2 * determinant * (pairs - 1) / (pairs - 3) + middle**2 * (1 - r_ab) ** 3
    if spread <= 0:
        return None
    t = (r_a - r_b) * math.sqrt((pairs - 1) * (1 + r_ab) / spread)
    return Outcome(t, float(2 * stdtr(pairs - 3, -abs(t))))


def steiger(r_a: float, r_b: float, r_ab: float, pairs: int) -> Outcome | None:
    """Return Steiger's Z for two correlations that share a variable: Fisher's z with the covariance at their mean.

    Steiger 1980, equations 10 and 14, with the mean of ``r_a`` and ``r_b`` in place of each in the covariance.
    Arguments, result and errors are those of :func:`williams`; there is also no test if one correlation is perfect,
    which has no Fisher z.
    """
    _determinant(r_a, r_b, r_ab)
    if pairs <= 3:
        return None
    if _same(r_a, r_b, r_ab):
        return Outcome(0.0, 1.0)
    if max(abs(r_a), abs(r_b)) >= 1:
        return None
    square = ((r_a + r_b) / 2) ** 2
    covariance = r_ab * (1 - 2 * square) - square * (1 - 2 * square - r_ab**2) / 2
    spread = 2 - 2 * covariance / (1 - square) ** 2
    if spread <= 0:
        return None
    z = (math.atanh(r_a) - math.atanh(r_b)) * math.sqrt((pairs - 3) / spread)
    return Outcome(z, math.erfc(abs(z) / math.sqrt(2)))


def _same(r_a: float, r_b: float, r_ab: float) -> bool:
    return abs(r_a - r_b) < _SAME or 1 - r_ab < _SAME


def _determinant(r_a: float, r_b: float, r_ab: float) -> float:
    """Return the determinant of the three correlations' matrix, which real data never have below 0."""
    if not all(-1 <= r <= 1 for r in (r_a, r_b, r_ab)):
        raise ValueError(f"{r_a}, {r_b} and {r_ab} are not all correlations")
    determinant = 1 - r_a**2 - r_b**2 - r_ab**2 + 2 * r_a * r_b * r_ab
    if determinant < -1e-9:
        raise ValueError(f"no data have the correlations {r_a}, {r_b} and {r_ab} together")
    return max(0.0, determinant)
