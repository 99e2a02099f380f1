"""Structural measures under resampling of pictures, each picture with all its sentences.

Two draws of one picture are no pair of different pictures; the neighbours of the mNNO are those of the whole sample.
The draws are the same for two encoders, so that the differences of their resampled measures are paired.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sightword.evaluation.structure.inputs import Doubles, Rows, Space
from sightword.evaluation.structure.moments import Moments, own_pairs
from sightword.statistics.bootstrap import draws

_ROWS = 256
"""Pictures whose pairs are formed at once, at most."""
_NUMBERS = 1 << 24
"""Numbers held at once."""


class Resampled(NamedTuple):
    """The measures of each resample: (R,) each; NaN where a resample does not define a measure."""

    mnno: Doubles
    rho_vis: Doubles
    c_inter: Doubles
    c_intra: Doubles


def resampled(space: Space, shares: list[tuple[Rows, Doubles]], *, resamples: int, seed: int) -> Resampled:
    """Return the measures of each resample.

    Args:
        space: sentences and pictures.
        shares: for each number of a sentence, the pictures (n,) that have the sentence, and their shares (n,) of common
            neighbours.
        resamples: the number R of resamples.
        seed: the seed of the draws.
    """
    times = np.concatenate(list(draws(len(space.counts), resamples, seed, "pictures")))
    own, counts = own_pairs(space), space.counts.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        intra = times @ (own.x - own.itself) / (times @ (counts**2 - counts))
        overlaps = [times[:, having] @ found / times[:, having].sum(axis=1) for having, found in shares]
        sums = _sums(space, times)
        inter = sums[1] / sums[0]
        rho = np.array([Moments(*map(float, row)).correlation() for row in sums.T])
    return Resampled(np.mean(overlaps, axis=0), rho, inter, intra)


def _sums(space: Space, times: Doubles) -> Doubles:
    """Return (6, R) sums over the pairs of different pictures of each resample, in the order of :class:`Moments`."""
    found = np.zeros((6, len(times)))
    count, step = len(space.counts), max(1, min(_ROWS, _NUMBERS // len(space.sentences) // int(space.counts.max())))
    for start in range(0, count, step):
        part = slice(start, min(start + step, count))
        rows = slice(space.first[part.start], space.first[part.stop])
        cosines = space.sentences[rows] @ space.sentences.T
        x = _by_picture(cosines, space, part)
        xx = _by_picture(np.square(cosines, out=cosines), space, part)
        y = space.pictures[part] @ space.pictures.T
        pairs = np.outer(space.counts[part], space.counts).astype(np.float64)
        for place, terms in enumerate((pairs, x, pairs * y, xx, pairs * y * y, x * y)):
            terms[np.arange(part.stop - part.start), np.arange(part.start, part.stop)] = 0.0
            found[place] += np.einsum("rp,rp->r", times[:, part], times @ terms.T)
    return found


def _by_picture(values: Doubles, space: Space, part: slice) -> Doubles:
    """Return the sums (n, M) of values (rows, N) over the sentences of each of n pictures and of each picture."""
    first = space.first[part] - space.first[part.start]
    found: Doubles = np.add.reduceat(np.add.reduceat(values, space.first[:-1], axis=1), first, axis=0)
    return found
