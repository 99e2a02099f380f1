"""The similarities of captions and pictures, in float64, and which of two scores are tied.

Float64 rounds too: a sum of products has another last bit when it is added up in another order. A comparison of bare
values would break real ties at random, and a model whose embeddings are all the same would beat chance. Therefore two
scores are tied when they differ by no more than float64 can err (:func:`sightword.model.similarity.tie_width`).
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod

import numpy as np
import torch
from numpy.typing import NDArray

from sightword.errors import ScoringError
from sightword.model.penalty import compiled, errors
from sightword.model.similarity import tie_width
from sightword.retrieval.inputs import Embeddings, Which, rows_at_once

log = logging.getLogger(__name__)

NAMES = ("cosine", "dot", "order", "reversed_order")
LONGEST = 1e140
"""Rows of this length can be squared, and the square multiplied, in float64."""

_GRID = 2.0**32
_SAFE = (1e-200, 1e200)
_SPLIT = 2.0**29 + 1


class Similarity(ABC):
    """One way to compare captions with pictures; a higher score is more similar.

    Args:
        images: (N, D).
        captions: (M, D).
        device: where scores of blocks are computed.
    """

    def __init__(self, images: Embeddings, captions: Embeddings, device: torch.device) -> None:
        self.device, self.dimensions, self.tie = device, images.dimensions, tie_width(images.dimensions)
        self.counts = len(captions), len(images)
        self.unit = 1.0
        """What a score of 1 amounts to for the embeddings as given; a power of two."""

    def captions(self, which: slice) -> torch.Tensor:
        """Return float64 (n, D) captions as :meth:`scores` takes them."""
        return torch.from_numpy(self.caption_rows(which)).to(self.device)

    def images(self, which: slice) -> torch.Tensor:
        """Return float64 (m, D) pictures as :meth:`scores` takes them."""
        return torch.from_numpy(self.image_rows(which)).to(self.device)

    def own(self, owner: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the score (M,) of each caption with its own picture; ``owner`` (M,) holds the pictures' rows."""
        blocks = [
            slice(start, start + rows_at_once(self.dimensions))
            for start in range(0, len(owner), rows_at_once(self.dimensions))
        ]
        return np.concatenate([self.pairs(self.caption_rows(rows), self.image_rows(owner[rows])) for rows in blocks])

    @abstractmethod
    def caption_rows(self, which: Which) -> NDArray[np.float64]:
        """Return some captions, prepared."""

    @abstractmethod
    def image_rows(self, which: Which) -> NDArray[np.float64]:
        """Return some pictures, prepared."""

    @abstractmethod
    def pairs(self, captions: NDArray[np.float64], images: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the score (n,) of each caption with the picture in the same row."""

    @abstractmethod
    def scores(self, captions: torch.Tensor, images: torch.Tensor, out: torch.Tensor) -> None:
        """Write the scores of all pairs into ``out`` (n, m)."""

    @abstractmethod
    def bar(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the lowest score that is tied with each of these scores."""

    @abstractmethod
    def rounded(self, scores: torch.Tensor) -> torch.Tensor:
        """Round scores so coarsely that tied ones are equal, for lists of the best candidates."""

    @abstractmethod
    def lowered(self, rounded: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        """Lower rounded scores by less than two of them can differ, and by more, the larger ``place`` is.

        Args:
            rounded: (n, m), from :meth:`rounded`.
            place: (m,) whole numbers below 2**20; no two scores of a row are equal afterwards.
        """


class Cosine(Similarity):
    """The cosine of the angle between two embeddings of any lengths; a row of zeros has 0 with everything."""

    def __init__(self, images: Embeddings, captions: Embeddings, device: torch.device) -> None:
        super().__init__(images, captions, device)
        self._images, self._captions = images, captions
        self._image_side, self._caption_side = self.side(images), self.side(captions)

    def side(self, embeddings: Embeddings) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
        """Return for each row a factor, and a power of two to multiply it by before; None for no such step.

        Squares may overflow or vanish. Such rows are brought near 1 first, which rounds nothing.
        """
        squares = embeddings.squares.copy()
        extreme = np.flatnonzero(~((squares > _SAFE[0]) & (squares < _SAFE[1])))
        powers = np.zeros(len(embeddings), np.int64)
        zeros = 0
        for start in range(0, len(extreme), rows_at_once(embeddings.dimensions)):
            which = extreme[start : start + rows_at_once(embeddings.dimensions)]
            rows = embeddings.rows(which)
            largest = np.abs(rows).max(axis=1)
            zeros += int((largest == 0).sum())
            powers[which] = -np.frexp(largest)[1]
            rows = np.ldexp(rows, powers[which][:, None])
            squares[which] = np.einsum("nd,nd->n", rows, rows)
        lengths = np.sqrt(squares)
        if zeros:
            log.warning(
                "%s: %d of %d rows are all zero; their cosine counts as 0", embeddings.name, zeros, len(embeddings)
            )
        inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        return inverse, powers if len(extreme) else None

    def caption_rows(self, which: Which) -> NDArray[np.float64]:
        """Return rows of length 1, or at most 1 where lengths weigh."""
        return _scaled(self._captions, which, *self._caption_side)

    def image_rows(self, which: Which) -> NDArray[np.float64]:
        """Return rows of length 1, or at most 1 where lengths weigh."""
        return _scaled(self._images, which, *self._image_side)

    def pairs(self, captions: NDArray[np.float64], images: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the products of rows."""
        found: NDArray[np.float64] = np.einsum("nd,nd->n", captions, images)
        return found

    def scores(self, captions: torch.Tensor, images: torch.Tensor, out: torch.Tensor) -> None:
        """Multiply matrices."""
        torch.mm(captions, images.T, out=out)

    def bar(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        """Lower by the width of a tie."""
        return score - self.tie

    def rounded(self, scores: torch.Tensor) -> torch.Tensor:
        """Round to multiples of 2**-32, so to within 1.2e-10."""
        return torch.round(scores * _GRID) / _GRID

    def lowered(self, rounded: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        """Lower by less than the grid's step."""
        return rounded - place * 2.0**-52


class Dot(Cosine):
    """The dot product of embeddings as they are: lengths weigh.

    Each side is divided by a power of two that brings its longest row to a length below 1, which rounds nothing. The
    width of a tie is the same for all pairs: the largest error of float64 for the longest rows.

    Raises:
        ScoringError: rows too long to be multiplied.
    """

    def side(self, embeddings: Embeddings) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
        """Return one power of two as the factor of all rows."""
        longest = float(np.sqrt(embeddings.squares.max()))
        if longest > LONGEST:
            raise ScoringError(
                "embeddings are too long for the dot product",
                where=embeddings.name,
                expected=f"a length of at most {LONGEST:g}",
            )
        power = int(np.frexp(longest)[1])
        self.unit *= 2.0**power
        return np.full(len(embeddings), 2.0**-power), None


class Order(Similarity):
    """The order similarity of embeddings as they are (Vendrov et al. 2016, section 3, no root taken).

    ``-sum_d max(0, c_d - i_d)^2`` of caption c and picture i, or the reverse, ``-sum_d max(0, i_d - c_d)^2``. The error
    of a sum of squares is a share of the sum: a tie is as wide as a share of the score, and 0 ties with 0 only.

    Args:
        images: (N, D).
        captions: (M, D).
        device: where scores of blocks are computed.
        reverse: penalise what a picture exceeds its caption by.

    Raises:
        ScoringError: rows too long to be squared twice.
    """

    def __init__(
        self, images: Embeddings, captions: Embeddings, device: torch.device, *, reverse: bool = False
    ) -> None:
        super().__init__(images, captions, device)
        self._images, self._captions = images, captions
        self._sign = -1.0 if reverse else 1.0  # max(0, i - c) is max(0, (-c) - (-i))
        if np.sqrt(max(float(side.squares.max()) for side in (images, captions))) > LONGEST:
            raise ScoringError(
                "embeddings are too long for the order similarity", expected=f"a length of at most {LONGEST:g}"
            )
        self._fused = compiled(float(len(images)) * len(captions) * self.dimensions, device)

    def caption_rows(self, which: Which) -> NDArray[np.float64]:
        """Return the rows, or their negatives for the reverse."""
        return self._captions.rows(which) * self._sign

    def image_rows(self, which: Which) -> NDArray[np.float64]:
        """Return the rows, or their negatives for the reverse."""
        return self._images.rows(which) * self._sign

    def pairs(self, captions: NDArray[np.float64], images: NDArray[np.float64]) -> NDArray[np.float64]:
        """Add up squares."""
        excess = np.maximum(captions - images, 0.0)
        found: NDArray[np.float64] = -np.einsum("nd,nd->n", excess, excess)
        return found

    def scores(self, captions: torch.Tensor, images: torch.Tensor, out: torch.Tensor) -> None:
        """Add up squares, dimension by dimension."""
        errors(captions, images, out, self._fused)
        out.neg_()

    def bar(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        """Lower by the width of a tie, a share of the score."""
        return score - self.tie * np.abs(score)

    def rounded(self, scores: torch.Tensor) -> torch.Tensor:
        """Round to 24 bits, so to a share of 6e-8 (Veltkamp's splitting)."""
        larger = scores * _SPLIT
        return larger - (larger - scores)

    def lowered(self, rounded: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        """Lower by a share of the score, since scores have any size, and where it is 0, by next to nothing."""
        return rounded * (1.0 + place * 2.0**-46) - place * 1e-300


def similarity(name: str, images: Embeddings, captions: Embeddings, device: torch.device) -> Similarity:
    """Return the similarity of that name, for these embeddings.

    Raises:
        ScoringError: there is none, or the embeddings are too long for it.
    """
    if name not in NAMES:
        raise ScoringError(f"no such similarity: {name!r}", expected=", ".join(NAMES[:-1]) + f" or {NAMES[-1]}")
    if name in ("cosine", "dot"):
        return (Cosine if name == "cosine" else Dot)(images, captions, device)
    return Order(images, captions, device, reverse=name == "reversed_order")


def _scaled(
    embeddings: Embeddings, which: Which, factor: NDArray[np.float64], powers: NDArray[np.int64] | None
) -> NDArray[np.float64]:
    rows = embeddings.rows(which)
    if powers is not None:
        rows = np.ldexp(rows, powers[which][:, None])
    return rows * factor[which][:, None]
