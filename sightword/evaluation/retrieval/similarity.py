"""The similarities of captions and pictures, in float64, and which of two scores are tied.

Float64 rounds too: a sum of products has another last bit when it is added up in another order. A comparison of bare
values would break real ties at random, and a model whose embeddings are all the same would beat chance. Therefore two
scores are tied when they differ by no more than float64 can err (:func:`sightword.model.similarity.tie_width`).
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from sightword.compute.devices import thread_count
from sightword.errors import ScoringError
from sightword.evaluation.retrieval.inputs import Embeddings, Which, rows_at_once
from sightword.evaluation.retrieval.top_k import PRODUCTS, ROUND, SQUARES, Ties
from sightword.model.products import single_product
from sightword.model.similarity import errors, tie_width

log = logging.getLogger(__name__)

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


class Similarity(ABC):
    """One way to compare captions with pictures; a higher score is more similar.

    Args:
        captions: M captions.
        images: N pictures.
        device: the device that computes the scores of blocks.
        unit: the value of a score of 1 for the embeddings as given; a power of two.
    """

    ties: Ties
    """Which scores are equal in lists of the best candidates."""
    doubt: float
    """The most by which scores in float32 are off; 0 where there are none."""

    def __init__(self, captions: Side, images: Side, device: torch.device, unit: float = 1.0) -> None:
        self._captions, self._images, self.device, self.unit = captions, images, device, unit
        self.dimensions, self.tie = images.embeddings.dimensions, tie_width(images.embeddings.dimensions)
        self.counts, self.doubt = (len(captions.factors), len(images.factors)), 0.0

    def captions(self, which: slice) -> torch.Tensor:
        """Return float64 (n, D) captions as :meth:`scores` takes them."""
        return torch.from_numpy(self._captions.rows(which)).to(self.device)

    def images(self, which: slice) -> torch.Tensor:
        """Return float64 (m, D) pictures as :meth:`scores` takes them."""
        return torch.from_numpy(self._images.rows(which)).to(self.device)

    def own(self, owner: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the score (M,) of each caption with its own picture; ``owner`` (M,) holds the pictures' rows."""
        return self.pairs_of(np.arange(len(owner)), owner)

    def pairs_of(self, captions: NDArray[np.int64], images: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the score (n,) of each pair, given the rows (n,) of its caption and of its picture."""
        step = rows_at_once(self.dimensions)
        blocks = [slice(start, start + step) for start in range(0, len(images) or 1, step)]
        return np.concatenate(
            [self.pairs(self._captions.rows(captions[rows]), self._images.rows(images[rows])) for rows in blocks]
        )

    @abstractmethod
    def pairs(self, captions: NDArray[np.float64], images: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the score (n,) of each caption with the picture in the same row."""

    @abstractmethod
    def scores(self, captions: torch.Tensor, images: torch.Tensor, out: torch.Tensor) -> None:
        """Write the scores of all pairs into ``out`` (n, m); all three may be float32 where :attr:`doubt` is not 0."""

    @abstractmethod
    def bar(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the lowest score that is tied with each of these scores."""


class _Products(Similarity):
    """The products of rows of length 1 or less; all ties are as wide as the error for the longest rows."""

    ties = PRODUCTS

    def __init__(self, captions: Side, images: Side, device: torch.device, unit: float = 1.0) -> None:
        super().__init__(captions, images, device, unit)
        share = (self.dimensions + 8) * ROUND  # so often is each product of a sum of at most 1 rounded, in any order
        self.doubt = share / (1 - share) if device.type == "cpu" and share < 1 else 0.0

    def pairs(self, captions: NDArray[np.float64], images: NDArray[np.float64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = np.einsum("nd,nd->n", captions, images)
        return found

    def scores(self, captions: torch.Tensor, images: torch.Tensor, out: torch.Tensor) -> None:
        if out.device.type != "cpu":
            torch.mm(captions, images.T, out=out)
            return
        if out.dtype == torch.float32:
            out.copy_(single_product(captions, images))
            return
        # torch has MKL's product, at half of the speed on an AMD EPYC with AVX-512
        left, right, found = captions.numpy(), images.numpy().T, out.numpy()
        pieces = [slice(start, start + _PIECE) for start in range(0, len(left), _PIECE)]
        with ThreadPoolExecutor(thread_count()) as threads:
            list(threads.map(lambda rows: np.matmul(left[rows], right, out=found[rows]), pieces))

    def bar(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        return score - self.tie


class _Order(Similarity):
    """The order similarity ``-sum_d max(0, c_d - i_d)^2`` (Vendrov et al. 2016, equation 2, no root taken).

    The error of a sum of squares is a share of the sum, so the width of a tie is a share of the score.
    """

    ties = SQUARES

    def pairs(self, captions: NDArray[np.float64], images: NDArray[np.float64]) -> NDArray[np.float64]:
        excess = np.maximum(captions - images, 0.0)
        found: NDArray[np.float64] = -np.einsum("nd,nd->n", excess, excess)
        return found

    def scores(self, captions: torch.Tensor, images: torch.Tensor, out: torch.Tensor) -> None:
        errors(captions, images, out)
        out.neg_()

    def bar(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        return score - self.tie * np.abs(score)


def similarity(name: str, captions: Embeddings, images: Embeddings, device: torch.device) -> Similarity:
    """Return a similarity for these embeddings.

    Args:
        name: ``cosine``, of embeddings of any lengths, where a row of zeros has 0 with everything; or, of embeddings as
            they are, ``dot``, the dot product; ``order``, ``-sum_d max(0, c_d - i_d)^2`` of caption c and picture i; or
            ``reversed_order``, ``-sum_d max(0, i_d - c_d)^2``.
        captions: (M, D).
        images: (N, D).
        device: the device that computes the scores of blocks.

    Raises:
        ScoringError: the name is unknown, or the embeddings are too long for the similarity.
    """
    if name not in NAMES:
        raise ScoringError(f"no such similarity: {name!r}", expected=", ".join(NAMES[:-1]) + f" or {NAMES[-1]}")
    if name == "cosine":
        return _Products(_of_length_1(captions), _of_length_1(images), device)
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
    return (_Products if name == "dot" else _Order)(*sides, device, unit)


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
