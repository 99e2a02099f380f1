"""The structural measures of a space of sentences (Bordes et al. 2019, section 4.3).

``c_intra`` and ``c_inter`` are mean cosines of two different sentences of one picture and of different pictures;
``rho_vis`` is Pearson's correlation, over pairs of sentences of different pictures, of their cosine and the cosine of
their pictures; ``mnno`` is the share of neighbours in common (:mod:`sightword.evaluation.structure.overlap`). The paper
has them in percent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sightword.errors import ScoringError
from sightword.evaluation.structure.inputs import Doubles, Rows, Space, space
from sightword.evaluation.structure.intervals import Resampled, resampled
from sightword.evaluation.structure.moments import moments, own_pairs, require_variety
from sightword.evaluation.structure.overlap import common, nearest
from sightword.statistics.bootstrap import ends

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
    found = space(sentences, pictures, picture_of_sentence)
    return {"mnno": mnno(shares(found, k)), **cosines(found)}


def cosines(found: Space) -> dict[str, float | None]:
    """Return ``rho_vis``, ``c_inter`` and ``c_intra``; ScoringError if Pearson's correlation is undefined."""
    require_variety(found)
    own, counts = own_pairs(found), found.counts.astype(np.float64)
    sums = moments(found, own)
    rho, intra = sums.correlation(), float((counts**2 - counts).sum())
    if np.isnan(rho):
        what = "all pairs of pictures, or of their sentences, have the same cosine: Pearson's correlation is undefined"
        raise ScoringError(what, where="pictures", expected="pairs that differ")
    return {
        "rho_vis": rho,
        "c_inter": sums.x / sums.pairs,
        "c_intra": float((own.x - own.itself).sum()) / intra if intra else None,
    }


def shares(found: Space, k: int, *, numbers: int | None = None) -> Shares:
    """Return the shares of common neighbours, by the number of a sentence within its picture.

    ``numbers`` is the most numbers that are compared. ScoringError if ``k`` is not from 1 to the number of pictures
    minus 1.
    """
    check_neighbours(len(found.counts), k)
    known: dict[int, Rows] = {}
    listed: Shares = []
    for number in range(int(found.counts.max()) if numbers is None else numbers):
        rows, having = found.numbered(number)
        if len(having) <= k:
            break
        if len(having) not in known:  # fewer pictures have a higher number, and always some of those of a lower one
            known = {len(having): nearest(found.pictures[having], k)}
        listed.append((having, common(nearest(found.sentences[rows], k), known[len(having)])))
    return listed


def mnno(listed: Shares) -> float:
    """Return the mean over numbers of the mean share."""
    return float(np.mean([found.mean() for _, found in listed]))


def mnno_curve(found: Space, ks: Sequence[int]) -> dict[int, float]:
    """Return the mNNO by K; values of K that are not below the number of pictures are left out."""
    ks = sorted(k for k in set(ks) if k < len(found.counts))
    if not ks:
        return {}
    check_neighbours(len(found.counts), ks[0])
    curves: dict[int, list[float]] = {k: [] for k in ks}
    known: dict[int, Rows] = {}
    for number in range(int(found.counts.max())):
        rows, having = found.numbered(number)
        most = min(ks[-1], len(having) - 1)
        if most < ks[0]:
            break
        if len(having) not in known:
            known = {len(having): nearest(found.pictures[having], most, ordered=True)}
        near = nearest(found.sentences[rows], most, ordered=True)
        for k in (k for k in ks if k <= most):
            curves[k].append(float(common(near[:, :k], known[len(having)][:, :k]).mean()))
    return {k: float(np.mean(values)) for k, values in curves.items()}


def with_intervals(
    found: Space, k: int, *, resamples: int, seed: int, numbers: int | None = None
) -> tuple[dict[str, Any], Resampled | None]:
    """Return the measures with intervals by resampling pictures, and the measures of each resample.

    The measures are those of :func:`structure`, with ``NAME_ci95`` (None if undefined), ``pictures``, ``captions`` and
    ``k``; without resamples there is no interval. ``numbers`` is that of :func:`shares`. Raises as :func:`structure`.
    """
    listed = shares(found, k, numbers=numbers)
    values: dict[str, Any] = {"mnno": mnno(listed), **cosines(found)}
    drawn = resampled(found, listed, resamples=resamples, seed=seed) if resamples else None
    if drawn is not None:
        values |= {f"{name}_ci95": ends(getattr(drawn, name)) for name in MEASURES}
    return values | {"pictures": len(found.counts), "captions": len(found.sentences), "k": k}, drawn


def check_neighbours(pictures: int, k: int) -> None:
    """Refuse a number K of neighbours that is not from 1 to the number of pictures minus 1, by a ScoringError."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ScoringError(f"k is {k!r}", where="k", expected="a whole number of at least 1")
    if k >= pictures:
        what = f"there are {pictures} pictures with sentences, too few for {k} neighbours"
        raise ScoringError(what, where="pictures", expected=f"at least {k + 1}", todo="Lower k.")
