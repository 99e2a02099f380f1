"""The bootstrap: items, or clusters such as pictures with all their captions, are drawn with replacement.

Numbers of a resample are sums over the sample, weighted by how often each item was drawn. The bootstrap needs
independent items. Percentile intervals are those of Efron & Tibshirani (1993), chapter 13.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

_BLOCK = 1 << 22
"""Items times resamples in a block, at most."""
_IN_CACHE = 1 << 17
"""The same where a block is used more than once: it stays in a CPU's cache."""
_ROUNDING = 1e-12
"""A variance, as a share of the whole sample's, or a difference, that is rounding."""


class Resampled(NamedTuple):
    """The 95 % percentile interval of a difference, and the two-sided p of no difference."""

    low: float
    high: float
    p: float


def draws(items: int, samples: int, seed: int, name: str, *, block: int = _BLOCK) -> Iterator[Doubles]:
    """Yield how often each of ``items`` items is drawn in ``items`` draws, (rows, items), ``samples`` rows in all.

    The draws depend on seed, name and number of items alone, so that two systems that are judged on the same items have
    the same ones. ``block`` limits the numbers that are held at a time.
    """
    random = np.random.default_rng([seed, zlib.crc32(name.encode())])
    most = max(1, block // items)
    for start in range(0, samples, most):
        rows = min(most, samples - start)
        drawn = random.integers(0, items, (rows, items)) + items * np.arange(rows)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * items).reshape(rows, items).astype(float)


def ends(values: Doubles) -> list[float] | None:
    """Return the 2.5 and 97.5 percentiles of (R,) numbers; None if more than half of them are NaN."""
    defined = values[~np.isnan(values)]
    if 2 * len(defined) < len(values) or not len(defined):
        return None
    low, high = np.quantile(defined, [0.025, 0.975])
    return [float(low), float(high)]


def resampled(differences: Doubles) -> Resampled | None:
    """Return interval and p of (R,) resampled differences; None if more than half of them are NaN.

    p is twice the smaller share of resamples on one side of 0. Resamples at 0 count on both sides, and one more
    resample is counted, so that p is never 0 (Davison & Hinkley 1997, section 4.2): with 10,000 resamples it is 0.0002
    or more.
    """
    interval, defined = ends(differences), differences[~np.isnan(differences)]
    if interval is None:
        return None
    smaller = min(int((defined <= 0).sum()), int((defined >= 0).sum()))
    return Resampled(interval[0], interval[1], min(1.0, 2 * (smaller + 1) / (len(defined) + 1)))


def pearson_differences(gold: Doubles, a: Doubles, b: Doubles, *, samples: int, seed: int, name: str = "") -> Doubles:
    """Return Pearson's r of A (N,) minus that of B (N,) in each resample (samples,); NaN where one of them is NaN.

    The arguments are those of :func:`resampled_pearson`.
    """
    r_a, r_b = resampled_pearson(gold, np.stack([a, b]), samples=samples, seed=seed, name=name)
    difference: Doubles = r_a - r_b
    difference[np.abs(difference) < _ROUNDING] = 0.0
    return difference


def resampled_pearson(gold: Doubles, scores: Doubles, *, samples: int, seed: int, name: str = "") -> Doubles:
    """Return Pearson's r (S, samples) of S systems' scores (S, N) with people's (N,), on pairs drawn with replacement.

    Scores are not constant; all systems have the same draws, and another ``name`` of the pairs has others. NaN if all
    drawn scores of people or of the system are the same.
    """
    g, *own = ((series - series.mean()) / series.std() for series in (gold, *scores))
    products = np.column_stack([g, g * g, *own, *(x * x for x in own), *(g * x for x in own)])
    blocks = draws(len(gold), samples, seed, name, block=_IN_CACHE)
    return np.concatenate([_correlations(times @ products / len(gold)) for times in blocks], axis=1)


def _correlations(means: Doubles) -> Doubles:
    """Return the correlations (S, rows) from the means (rows, 2 + 3 S) of the products."""
    (g, gg), (x, xx, gx) = means.T[:2], np.split(means.T[2:], 3)
    of_gold, of_own = gg - g * g, xx - x * x
    flat = np.minimum(of_gold, of_own) < _ROUNDING
    found: Doubles = np.where(flat, np.nan, (gx - g * x) / np.sqrt(np.where(flat, 1, of_gold * of_own)))
    return found


def resampled_spearman(gold: Doubles, scores: Doubles, *, samples: int, seed: int, name: str = "") -> Doubles:
    """Return Spearman's correlations (S, samples) of S systems' scores (S, N) with people's (N,) on the same draws.

    A resample's ties share their mean rank. NaN where a resample's scores are all the same. The other arguments are
    those of :func:`resampled_pearson`.
    """
    found = []
    for times in draws(len(gold), samples, seed, name):
        of_gold = _centred_ranks(gold, times)
        part = np.empty((len(scores), len(times)))
        for row, own in enumerate(scores):
            of_own = _centred_ranks(own, times)
            products = np.einsum("rn,rn,rn->r", times, of_gold, of_own)
            squares = np.einsum("rn,rn,rn->r", times, of_gold, of_gold)
            squares *= np.einsum("rn,rn,rn->r", times, of_own, of_own)
            flat = squares < _ROUNDING
            part[row] = np.where(flat, np.nan, products / np.sqrt(np.where(flat, 1, squares)))
        found.append(part)
    return np.concatenate(found, axis=1)


def _centred_ranks(values: Doubles, times: Doubles) -> Doubles:
    """Return the (R, N) mean ranks of values in each resample, minus their mean."""
    _, group = np.unique(values, return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    counts = np.add.reduceat(times[:, order], starts, axis=1)
    ranks = np.cumsum(counts, axis=1) - (counts - 1) / 2
    centred: Doubles = (ranks - (times.sum(axis=1, keepdims=True) + 1) / 2)[:, group]
    return centred
