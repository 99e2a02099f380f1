"""The structural measures of a space of sentences (Bordes et al. 2019, section 4.3).

``c_intra`` and ``c_inter`` are mean cosines of two different sentences of one picture and of different pictures;
``rho_vis`` is Pearson's correlation, over pairs of sentences of different pictures, of their cosine and the cosine of
their pictures; ``mnno`` is the share of neighbours in common (Collell & Moens 2018). The paper
has them in percent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from sightword.errors import ScoringError
from sightword.evaluation.retrieval.ranks import Best
from sightword.evaluation.retrieval.similarity import PRODUCTS, embeddings, picture_rows
from sightword.statistics.bootstrap import draws, ends

Doubles = NDArray[np.float64]
Rows = NDArray[np.int64]

_SCORES = 1 << 22
"""Cosines that are held at once."""
_BLOCK = 256
"""Rows that are compared, or pictures whose pairs are formed, at once."""
_SAME = 1e-12
"""Directions that differ by less than this are the same up to rounding."""


@dataclass(frozen=True, eq=False)
class Space:
    """Sentences and their pictures, as rows of length 1; rows of zeros stay zeros, and their cosine counts as 0.

    The sentences are sorted by picture, and within a picture by appearance.
    """

    sentences: Doubles
    """(N, D)"""
    pictures: Doubles
    """(M, E) the pictures that have a sentence, in the order of their rows."""
    first: Rows
    """(M + 1,) the row of each picture's first sentence, and N."""

    @cached_property
    def counts(self) -> Rows:
        """(M,) the number of sentences of each picture."""
        return np.diff(self.first)

    @cached_property
    def sums(self) -> Doubles:
        """(M, D) the sum of each picture's sentences."""
        totals: Doubles = np.add.reduceat(self.sentences, self.first[:-1], axis=0)
        return totals

    def numbered(self, number: int) -> tuple[Rows, Rows]:
        """Return the rows of the sentences with a number within their picture, from 0, and of their pictures."""
        having = np.flatnonzero(self.counts > number)
        return self.first[having] + number, having


def space(sentences: ArrayLike, pictures: ArrayLike, picture_of_sentence: ArrayLike, *, centred: bool = False) -> Space:
    """Return sentences and pictures as rows of length 1, sorted by picture; pictures without a sentence are left out.

    ``centred`` subtracts the mean of all sentences from each first. ScoringError if an array has a wrong shape or a
    value that is not finite, a sentence has no picture, or fewer than two pictures have a sentence.
    """
    text, seen = embeddings(sentences, "sentences"), embeddings(pictures, "pictures")
    owner = picture_rows(picture_of_sentence, len(text), len(seen), "sentence", where="picture_of_sentence")
    used, counts = np.unique(owner, return_counts=True)
    if len(used) < 2:
        raise ScoringError("all sentences belong to one picture", where="picture_of_sentence", expected="two or more")
    rows = np.empty(text.matrix.shape)  # float64 at once: no second copy of the sentences
    rows[np.argsort(np.argsort(owner, kind="stable"), kind="stable")] = text.matrix
    if centred:
        rows -= rows.mean(axis=0)
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Space(_of_length_1(rows), _of_length_1(np.array(seen.matrix[used], dtype=np.float64)), first)


def _of_length_1(rows: Doubles) -> Doubles:
    """Divide rows, which are overwritten, by their lengths; a power of two first, so that no square overflows."""
    _, exponent = np.frexp(np.maximum(rows.max(axis=1, keepdims=True), -rows.min(axis=1, keepdims=True)))
    if (np.abs(exponent) > 400).any():
        np.ldexp(rows, -exponent, out=rows)
    lengths = np.sqrt(np.einsum("nd,nd->n", rows, rows))
    rows *= np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)[:, None]
    return rows


def all_alike(rows: Doubles) -> bool:
    """Return whether all rows are one direction up to rounding."""
    starts = range(0, len(rows), _BLOCK)
    return all(np.abs(rows[start : start + _BLOCK] - rows[0]).max() <= _SAME for start in starts)


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


def nearest(rows: Doubles, k: int) -> Rows:
    """Return the (N, k) nearest other rows of each row of length 1 or 0, nearest first, by the ties of ``Best``."""
    best, step = Best(len(rows), len(rows), k, PRODUCTS, torch.device("cpu")), max(1, _SCORES // len(rows))
    for start in range(0, len(rows), step):
        block = slice(start, min(start + step, len(rows)))
        scores = rows[block] @ rows.T
        scores[np.arange(len(scores)), np.arange(block.start, block.stop)] = -np.inf
        best.offer(torch.from_numpy(scores), rows=block, candidates_from=0)
    return best.done(1.0).candidate


def common(first: Rows, second: Rows) -> Doubles:
    """Return the (N,) shares of K neighbours that two lists (N, K) have in common."""
    both = np.sort(np.concatenate([first, second], axis=1), axis=1)
    shared: Doubles = (both[:, 1:] == both[:, :-1]).sum(axis=1) / first.shape[1]
    return shared


_NUMBERS = 1 << 24
"""Numbers held at once."""


class Resampled(NamedTuple):
    """The measures of each resample: (R,) each; NaN where a resample does not define a measure."""

    mnno: Doubles
    rho_vis: Doubles
    c_inter: Doubles
    c_intra: Doubles


def resampled(space: Space, shares: list[tuple[Rows, Doubles]], *, resamples: int, seed: int) -> Resampled:
    """Return the measures of each resample; ``shares`` are those of :func:`shares`."""
    times = np.concatenate(list(draws(len(space.counts), resamples, seed, "pictures")))
    own, counts = own_pairs(space), space.counts.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        intra = times @ (own.x - own.itself) / (times @ (counts**2 - counts))
        overlaps = [times[:, having] @ values / times[:, having].sum(axis=1) for having, values in shares]
        sums = _sums(space, times)
        inter = sums[1] / sums[0]
        rho = np.array([Moments(*map(float, row)).correlation() for row in sums.T])
    return Resampled(np.mean(overlaps, axis=0), rho, inter, intra)


def _sums(space: Space, times: Doubles) -> Doubles:
    """Return (6, R) sums over the pairs of different pictures of each resample, in the order of :class:`Moments`."""
    sums = np.zeros((6, len(times)))
    count, step = len(space.counts), max(1, min(_BLOCK, _NUMBERS // len(space.sentences) // int(space.counts.max())))
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
            sums[place] += np.einsum("rp,rp->r", times[:, part], times @ terms.T)
    return sums


def _by_picture(values: Doubles, space: Space, part: slice) -> Doubles:
    """Return the sums (n, M) of values (rows, N) over the sentences of each of n pictures and of each picture."""
    first = space.first[part] - space.first[part.start]
    sums: Doubles = np.add.reduceat(np.add.reduceat(values, space.first[:-1], axis=1), first, axis=0)
    return sums


MEASURES = ("mnno", "rho_vis", "c_inter", "c_intra")

Shares = list[tuple[Rows, Doubles]]
"""By the number of a sentence within its picture: the pictures (n,) that have the sentence, and their shares (n,) of
common neighbours."""


def structure(
    sentences: ArrayLike, pictures: ArrayLike, picture_of_sentence: ArrayLike, k: int = 10
) -> dict[str, float | None]:
    """Return the structural measures as fractions, computed in float64 without a matrix of all pairs.

    For each number c, the c-th sentences of all pictures, in the order of appearance, and their pictures are two lists;
    ``mnno`` is the mean share of the K nearest neighbours that a sentence and its picture have in common, and the mean
    over c. Ties of cosines go to the picture in the lower row. Numbers that K pictures or fewer have are left out, and
    so are pictures without a sentence. A vector of zeros has the cosine 0 with all.

    Args:
        sentences: (N, D) vectors.
        pictures: (M, E) vectors.
        picture_of_sentence: (N,) the row of each sentence's picture.
        k: the number of neighbours K.

    Returns:
        ``mnno``, ``rho_vis``, ``c_inter`` and ``c_intra``; ``c_intra`` is None if no picture has two sentences.

    Raises:
        ScoringError: an array has a wrong shape or a value that is not finite, a sentence has no picture, all pictures
            or all sentences have one direction, so that Pearson's correlation is undefined, or there are too few
            pictures for K neighbours.
    """
    vectors = space(sentences, pictures, picture_of_sentence)
    return {"mnno": mnno(shares(vectors, k)), **cosines(vectors)}


def cosines(vectors: Space) -> dict[str, float | None]:
    """Return ``rho_vis``, ``c_inter`` and ``c_intra``; ScoringError if Pearson's correlation is undefined."""
    require_variety(vectors)
    own, counts = own_pairs(vectors), vectors.counts.astype(np.float64)
    sums = moments(vectors, own)
    rho, intra = sums.correlation(), float((counts**2 - counts).sum())
    if np.isnan(rho):
        what = "all pairs of pictures, or of their sentences, have the same cosine: Pearson's correlation is undefined"
        raise ScoringError(what, where="pictures", expected="pairs that differ")
    return {
        "rho_vis": rho,
        "c_inter": sums.x / sums.pairs,
        "c_intra": float((own.x - own.itself).sum()) / intra if intra else None,
    }


def shares(vectors: Space, k: int) -> Shares:
    """Return the shares of common neighbours, by the number of a sentence within its picture.

    ScoringError if ``k`` is not from 1 to the number of pictures minus 1.
    """
    check_neighbours(len(vectors.counts), k)
    known: dict[int, Rows] = {}
    listed: Shares = []
    for number in range(int(vectors.counts.max())):
        rows, having = vectors.numbered(number)
        if len(having) <= k:
            break
        if len(having) not in known:  # fewer pictures have a higher number, and always some of those of a lower one
            known = {len(having): nearest(vectors.pictures[having], k)}
        listed.append((having, common(nearest(vectors.sentences[rows], k), known[len(having)])))
    return listed


def mnno(listed: Shares) -> float:
    """Return the mean over numbers of the mean share."""
    return float(np.mean([overlaps.mean() for _, overlaps in listed]))


def with_intervals(vectors: Space, k: int, *, resamples: int, seed: int) -> tuple[dict[str, Any], Resampled | None]:
    """Return the measures with intervals by resampling pictures, and the measures of each resample.

    The measures are those of :func:`structure`, with ``NAME_ci95`` (None if undefined), ``pictures``, ``captions`` and
    ``k``; without resamples there is no interval. Raises as :func:`structure`.
    """
    listed = shares(vectors, k)
    values: dict[str, Any] = {"mnno": mnno(listed), **cosines(vectors)}
    drawn = resampled(vectors, listed, resamples=resamples, seed=seed) if resamples else None
    if drawn is not None:
        values |= {f"{name}_ci95": ends(getattr(drawn, name)) for name in MEASURES}
    return values | {"pictures": len(vectors.counts), "captions": len(vectors.sentences), "k": k}, drawn


def check_neighbours(pictures: int, k: int) -> None:
    """Refuse a number K of neighbours that is not from 1 to the number of pictures minus 1, by a ScoringError."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ScoringError(f"k is {k!r}", where="k", expected="a whole number of at least 1")
    if k >= pictures:
        what = f"there are {pictures} pictures with sentences, too few for {k} neighbours"
        raise ScoringError(what, where="pictures", expected=f"at least {k + 1}", todo="Lower k.")
