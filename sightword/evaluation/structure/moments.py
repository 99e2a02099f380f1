"""Means and correlations of the cosines of all pairs of sentences, without a pair being formed.

With the sentences' sums ``t_p`` of each picture p, their matrix S, and the pictures' matrix V with each row as often as
its picture has sentences, the sums over all pairs (i, j) are ``sum cos = |sum_i s_i|^2``, ``sum cos^2 = |S'S|^2``,
``sum cos(s) cos(v) = |S'V|^2`` and the like, with squared Frobenius norms. The pairs of one picture are
then subtracted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sightword.errors import ScoringError
from sightword.evaluation.structure.inputs import Doubles, Space, all_alike

_ROWS = 4096
"""Rows of sentences that are multiplied at once."""
_ROUNDING = 1e-12
"""A variance of cosines below this is rounding around a constant."""


class Moments(NamedTuple):
    """Sums over ordered pairs of two sentences of different pictures: cosines x of sentences, y of their pictures."""

    pairs: float
    x: float
    y: float
    xx: float
    yy: float
    xy: float

    def correlation(self) -> float:
        """Return Pearson's correlation of x and y; NaN if either is constant up to rounding, or without a pair."""
        if not self.pairs:
            return float("nan")
        mean_x, mean_y = self.x / self.pairs, self.y / self.pairs
        of_x, of_y = self.xx / self.pairs - mean_x**2, self.yy / self.pairs - mean_y**2
        if min(of_x, of_y) < _ROUNDING:
            return float("nan")
        r = (self.xy / self.pairs - mean_x * mean_y) / float(np.sqrt(of_x * of_y))
        return min(1.0, max(-1.0, r))


class Own(NamedTuple):
    """Sums over ordered pairs of sentences of one picture, by picture: (M,) each."""

    x: Doubles
    """Of the cosines of all pairs, each sentence with itself as well: the square of the sum's length."""
    xx: Doubles
    """Of their squares."""
    itself: Doubles
    """Of the cosines of each sentence with itself: the number of sentences that are not zero."""


def own_pairs(space: Space) -> Own:
    """Return the sums over the pairs of each picture."""
    squares = np.einsum("nd,nd->n", space.sentences, space.sentences)
    itself = np.add.reduceat(squares, space.first[:-1])
    xx = np.empty(len(space.counts))
    for count in np.unique(space.counts):
        pictures = np.flatnonzero(space.counts == count)
        step = max(1, _ROWS // int(count))
        for start in range(0, len(pictures), step):
            chosen = pictures[start : start + step]
            rows = space.sentences[space.first[chosen][:, None] + np.arange(count)]
            xx[chosen] = np.square(rows @ rows.transpose(0, 2, 1)).sum(axis=(1, 2))
    return Own(np.einsum("pd,pd->p", space.sums, space.sums), xx, itself)


def moments(space: Space, own: Own) -> Moments:
    """Return the sums over all pairs of sentences of different pictures in O(N D^2)."""
    counts, sums, pictures = space.counts.astype(np.float64), space.sums, space.pictures
    gram = np.zeros((sums.shape[1],) * 2)
    for start in range(0, len(space.sentences), _ROWS):
        rows = space.sentences[start : start + _ROWS]
        gram += rows.T @ rows
    weighted = pictures * np.sqrt(counts)[:, None]
    itself = np.einsum("pd,pd->p", pictures, pictures)  # 1, or 0 for a picture of zeros
    total_x, total_y = sums.sum(axis=0), counts @ pictures
    return Moments(
        pairs=float(counts.sum() ** 2 - (counts**2).sum()),
        x=float(total_x @ total_x - own.x.sum()),
        y=float(total_y @ total_y - counts**2 @ itself),
        xx=_square(gram) - float(own.xx.sum()),
        yy=_square(weighted.T @ weighted) - float(counts**2 @ itself**2),
        xy=_square(sums.T @ pictures) - float(own.x @ itself),
    )


def _square(matrix: Doubles) -> float:
    """Return the squared Frobenius norm."""
    flat = matrix.ravel()
    return float(flat @ flat)


def require_variety(space: Space) -> None:
    """Raise ScoringError, with the reason, where Pearson's correlation is undefined whatever the measure says."""
    for rows, name in ((space.pictures, "pictures"), (space.sentences, "sentences")):
        if all_alike(rows):
            raise ScoringError(
                f"the vectors of all {len(rows)} {name} have one direction, so that all cosines are the same "
                "and Pearson's correlation is undefined",
                where=name,
                expected=f"{name} that differ",
            )
