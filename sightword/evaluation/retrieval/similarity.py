"""The similarities of captions and pictures, in float64, and which of two scores are tied.

Float64 rounds too: a sum of products has another last bit when it is added up in another order. A comparison of bare
values would break real ties at random, and a model whose embeddings are all the same would beat chance. Therefore two
scores are tied when they differ by no more than float64 can err (:func:`sightword.model.similarity.tie_width`).
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from sightword.compute.devices import thread_count
from sightword.errors import ScoringError
from sightword.model.similarity import errors, tie_width

log = logging.getLogger(__name__)

Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]
Rows = NDArray[np.int64]
Numbers = TypeVar("Numbers", torch.Tensor, Doubles)

GRID = 2.0**32
"""Products of vectors of length 1 or less within 1 / GRID are equal."""
ROUND = 2.0**-24
"""The largest relative rounding error of float32."""
_SPLIT = 2.0**29 + 1


class Ties(Enum):
    """Which scores are tied."""

    PRODUCTS = "products of rows of length 1 or less, rounded to multiples of 2**-32, so to within 1.2e-10"
    SQUARES = "sums of squares, rounded to 24 bits, so to a share of 6e-8 (Veltkamp's splitting)"

    def rounded(self, scores: Numbers) -> Numbers:
        """Round scores so coarsely that tied ones are equal."""
        if self is Ties.PRODUCTS:
            return (scores * GRID).round() / GRID
        larger = scores * _SPLIT
        return larger - (larger - scores)

    def lowered(self, rounded: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        """Lower scores (n, m) by less than two can differ, the more the larger ``place`` (m,), below 2**20."""
        if self is Ties.PRODUCTS:
            return rounded - place * 2.0**-52
        return rounded * (1.0 + place * 2.0**-46) - place * 1e-300  # a share, and where the score is 0, next to nothing


PRODUCTS, SQUARES = Ties.PRODUCTS, Ties.SQUARES

Which = slice | NDArray[np.int64]
"""Rows of a matrix."""

_NUMBERS = 1 << 18
"""Numbers in one block: it fits into a CPU's cache, and an array mapped from a file is never in memory whole."""


@dataclass(frozen=True)
class Embeddings:
    """Rows of finite numbers, as given."""

    matrix: NDArray[np.generic]
    """(n, D)"""
    squares: NDArray[np.float64]
    """(n,) the sum of each row's squares; infinite or 0 where float64 cannot hold the sum."""
    name: str
    """The name in errors."""

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def dimensions(self) -> int:
        """D."""
        return int(self.matrix.shape[1])

    def rows(self, which: Which) -> NDArray[np.float64]:
        """Return some rows as float64; the result may be a view of the matrix."""
        return np.asarray(self.matrix[which]).astype(np.float64, copy=False)


def rows_at_once(dimensions: int) -> int:
    """Return the number of rows in one block."""
    return max(1, _NUMBERS // dimensions)


def embeddings(values: ArrayLike, name: str) -> Embeddings:
    """Check that the values are a matrix of finite numbers, or raise ScoringError; ``name`` names them there."""
    matrix = _array(values, name)
    if matrix.ndim != 2 or 0 in matrix.shape or matrix.dtype.kind not in "fiu":
        what = f"has shape {matrix.shape} and holds {matrix.dtype}"
        raise ScoringError(what, where=name, expected="rows of real numbers, (count, dimensions)")
    made = Embeddings(matrix, np.empty(len(matrix)), name)
    bad: list[int] = []
    size = rows_at_once(matrix.shape[1])
    for start in range(0, len(matrix), size):
        rows = made.rows(slice(start, start + size))
        squares = made.squares[start : start + size]
        with np.errstate(over="ignore", invalid="ignore"):
            np.einsum("nd,nd->n", rows, rows, out=squares)
        if not np.isfinite(squares).all():  # finite squares have finite numbers
            bad += (start + np.flatnonzero(~np.isfinite(rows).all(axis=1))).tolist()
    if bad:
        raise ScoringError(
            f"{len(bad)} of {len(matrix)} rows have values that are not finite, the first is row {bad[0]}",
            where=name,
            todo="The encoder gave NaN or infinity: look at its training.",
        )
    return made


def _array(values: ArrayLike, name: str) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError as error:  # lists of different lengths
        raise ScoringError(f"is no array of numbers ({error})", where=name) from None


def picture_rows(values: ArrayLike, count: int, pictures: int, item: str, *, where: str) -> NDArray[np.int64]:
    """Return the (count,) rows of the items' pictures, from 0 to below ``pictures``; ScoringError for other values."""
    owner = _array(values, where)
    if owner.shape != (count,) or owner.dtype.kind not in "iu":
        what = f"has shape {owner.shape} and holds {owner.dtype}"
        raise ScoringError(what, where=where, expected=f"one whole number for each {item}, shape ({count},)")
    outside = np.flatnonzero((owner < 0) | (owner >= pictures))
    if len(outside):
        more = f", and {len(outside) - 1} more are out of range" if len(outside) > 1 else ""
        what = f"{item} {outside[0]} belongs to picture row {owner[outside[0]]}{more}"
        raise ScoringError(what, where=where, expected=f"rows 0 to {pictures - 1}")
    return owner.astype(np.int64)


def owners(values: ArrayLike, captions: Embeddings, images: Embeddings) -> NDArray[np.int64]:
    """Return the (M,) rows of the captions' pictures; ScoringError where both sides and the rows do not fit."""
    if images.dimensions != captions.dimensions:
        what = f"captions have {captions.dimensions} dimensions, pictures {images.dimensions}"
        raise ScoringError(what, expected="the same number of dimensions")
    owner = picture_rows(values, len(captions), len(images), "caption", where="image_of_caption")
    without = np.flatnonzero(np.bincount(owner, minlength=len(images)) == 0)
    if len(without):
        raise ScoringError(
            f"{len(without)} of {len(images)} pictures have no caption, the first is row {without[0]}",
            where="image_of_caption",
            expected="at least one caption for each picture",
            todo="Leave those pictures out.",
        )
    return owner


NAMES = ("cosine", "dot", "order", "reversed_order")
LONGEST = 1e140
"""Rows of this length can be squared, and the square multiplied, in float64."""

_SAFE = (1e-200, 1e200)
_PIECE = 128
"""Captions of a product, which one thread computes."""


@dataclass(frozen=True)
class Side:
    """The rows of one side, to be multiplied by factors before they are compared."""

    embeddings: Embeddings
    factors: NDArray[np.float64]
    """(n,)"""
    powers: NDArray[np.int64] | None = None
    """(n,) a power of two to multiply a row by before, so that no square overflows or vanishes; None for none."""

    def rows(self, which: Which) -> NDArray[np.float64]:
        """Return some rows as they are compared."""
        rows = self.embeddings.rows(which)
        if self.powers is not None:
            rows = np.ldexp(rows, self.powers[which][:, None])
        return rows * self.factors[which][:, None]


class Similarity:
    """One way to compare captions with pictures, in blocks on a device; a higher score is more similar.

    Products of rows of length 1 or less (``PRODUCTS``) have ties as wide as the error for the longest rows. The error
    of a sum of squares (``SQUARES``) is a share of the sum, and so is the width of its ties. ``unit`` is the value of a
    score of 1 for the embeddings as given: a power of two.
    """

    def __init__(self, captions: Side, images: Side, device: torch.device, ties: Ties, unit: float = 1.0) -> None:
        self._captions, self._images, self.device, self.ties, self.unit = captions, images, device, ties, unit
        self.dimensions, self.tie = images.embeddings.dimensions, tie_width(images.embeddings.dimensions)
        self.counts = len(captions.factors), len(images.factors)

    def captions(self, which: slice) -> torch.Tensor:
        """Return float64 (n, D) captions as :meth:`scores` takes them."""
        return torch.from_numpy(self._captions.rows(which)).to(self.device)

    def images(self, which: slice) -> torch.Tensor:
        """Return float64 (m, D) pictures as :meth:`scores` takes them."""
        return torch.from_numpy(self._images.rows(which)).to(self.device)

    def pairs(self, captions: NDArray[np.int64], images: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the score (n,) of each pair, given the rows (n,) of its caption and of its picture."""
        scores, step = np.empty(len(images)), rows_at_once(self.dimensions)
        for start in range(0, len(images), step):
            rows = slice(start, start + step)
            left, right = self._captions.rows(captions[rows]), self._images.rows(images[rows])
            if self.ties is PRODUCTS:
                scores[rows] = np.einsum("nd,nd->n", left, right)
            else:
                excess = np.maximum(left - right, 0.0)
                scores[rows] = -np.einsum("nd,nd->n", excess, excess)
        return scores

    def scores(self, captions: torch.Tensor, images: torch.Tensor, out: torch.Tensor) -> None:
        """Write the scores of all pairs into ``out`` (n, m)."""
        if self.ties is SQUARES:
            errors(captions, images, out)
            out.neg_()
        elif out.device.type != "cpu":
            torch.mm(captions, images.T, out=out)
        else:  # torch has MKL's product, at half of the speed on an AMD EPYC with AVX-512
            left, right, scores = captions.numpy(), images.numpy().T, out.numpy()
            pieces = [slice(start, start + _PIECE) for start in range(0, len(left), _PIECE)]
            with ThreadPoolExecutor(thread_count()) as threads:
                list(threads.map(lambda rows: np.matmul(left[rows], right, out=scores[rows]), pieces))

    def bar(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the lowest score that is tied with each of these scores."""
        return score - self.tie * (1.0 if self.ties is PRODUCTS else np.abs(score))


def similarity(name: str, captions: Embeddings, images: Embeddings, device: torch.device) -> Similarity:
    """Return a similarity of captions (M, D) with pictures (N, D).

    ``cosine`` is of embeddings of any lengths, and 0 for a row of zeros. Of embeddings as they are: ``dot``, the dot
    product; ``order``, ``-sum_d max(0, c_d - i_d)^2`` of caption c and picture i; ``reversed_order``, ``-sum_d max(0,
    i_d - c_d)^2``. ScoringError for another name, or embeddings that are too long for the similarity.
    """
    if name not in NAMES:
        raise ScoringError(f"no such similarity: {name!r}", expected=", ".join(NAMES[:-1]) + f" or {NAMES[-1]}")
    if name == "cosine":
        return Similarity(_of_length_1(captions), _of_length_1(images), device, PRODUCTS)
    longest = [float(np.sqrt(side.squares.max())) for side in (captions, images)]
    for side, length in zip((captions, images), longest, strict=True):
        if length > LONGEST:
            raise ScoringError(
                f"embeddings are too long for the {'dot product' if name == 'dot' else 'order similarity'}",
                where=side.name,
                expected=f"a length of at most {LONGEST:g}",
            )
    if name == "dot":  # divided by a power of two that brings the longest row below 1, which rounds nothing
        powers = [int(np.frexp(length)[1]) for length in longest]
        factors, unit = [2.0**-power for power in powers], 2.0 ** powers[0] * 2.0 ** powers[1]
    else:  # max(0, i - c) is max(0, (-c) - (-i))
        factors, unit = [-1.0 if name == "reversed_order" else 1.0] * 2, 1.0
    sides = Side(captions, np.full(len(captions), factors[0])), Side(images, np.full(len(images), factors[1]))
    return Similarity(*sides, device, PRODUCTS if name == "dot" else SQUARES, unit)


def _of_length_1(embeddings: Embeddings) -> Side:
    """Return rows of length 1; rows whose squares overflow or vanish are first brought near 1, which rounds nothing."""
    squares = embeddings.squares.copy()
    extreme = np.flatnonzero(~((squares > _SAFE[0]) & (squares < _SAFE[1])))
    powers = np.zeros(len(embeddings), np.int64)
    step = rows_at_once(embeddings.dimensions)
    for start in range(0, len(extreme), step):
        which = extreme[start : start + step]
        rows = embeddings.rows(which)
        powers[which] = -np.frexp(np.abs(rows).max(axis=1))[1]
        rows = np.ldexp(rows, powers[which][:, None])
        squares[which] = np.einsum("nd,nd->n", rows, rows)
    lengths = np.sqrt(squares)
    if zeros := int((lengths == 0).sum()):
        log.warning("%s: %d of %d rows are all zero; their cosine counts as 0", embeddings.name, zeros, len(embeddings))
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return Side(embeddings, inverse, powers if len(extreme) else None)
