"""The cosine of the angle between two embeddings; a row of zeros has 0 with everything."""

from __future__ import annotations

import logging

import numpy as np
import torch
from numpy.typing import NDArray

from sightword.model.similarity import tie_width
from sightword.retrieval.inputs import Embeddings, Which, rows_at_once
from sightword.retrieval.similarity import ROUND, Similarity, outwards

log = logging.getLogger(__name__)

_GRID = 2.0**32
_SAFE = (1e-200, 1e200)
_CHUNK = 256
"""Dimensions that one rough product adds up: a float32 sum errs the less, the fewer they are."""
_PROBE = 96


class Cosine(Similarity):
    """Embeddings need not be normalised. What a row of zeros may be is told in the log."""

    def __init__(self, images: Embeddings, captions: Embeddings, device: torch.device) -> None:
        super().__init__(images, captions, device)
        self._tie = tie_width(self.dimensions)
        # Rounding the rows, adding up a chunk in any order, adding the chunks; what is too small for float32.
        steps = -(-self.dimensions // _CHUNK)
        self._error = (min(self.dimensions, _CHUNK) + steps + 8) * ROUND + self._tie
        if not self._rough_is_float32():
            log.info("float32 products are set to be coarse here: products are computed in float64, which takes longer")
            self._error = np.inf
        self._image_side, self._caption_side = self.side(images), self.side(captions)

    def side(self, embeddings: Embeddings) -> Side:
        """Rows of length one."""
        return _of_length_one(embeddings)

    def _rough_is_float32(self) -> bool:
        """Whether a product errs no more than float32 may: torch can be told to multiply more coarsely."""
        value = 1 + 2.0**-12  # bfloat16 and TF32 round it to 1
        rows = torch.full((_PROBE, self.dimensions), value, device=self.device)
        found, spare = torch.empty(2, _PROBE, _PROBE, device=self.device)
        self.rough(rows, rows, found, spare)
        expected = value * value * self.dimensions
        return bool(((found.double() - expected).abs() <= self._error * expected).all())

    def _pairs(self, captions: Which, images: NDArray[np.int64]) -> NDArray[np.float64]:
        score: NDArray[np.float64] = np.einsum(
            "nd,nd->n", self._caption_side.tame(captions), self._image_side.tame(images)
        )
        score *= self._caption_side.inverse[captions]
        score *= self._image_side.inverse[images]
        return score

    def exact(self, captions: Which, images: Which) -> torch.Tensor:
        """A product of rows of length one."""
        ours, theirs = (
            torch.from_numpy(side.unit(which)).to(self.device)
            for side, which in ((self._caption_side, captions), (self._image_side, images))
        )
        return ours @ theirs.T

    def rough_captions(self, which: slice) -> torch.Tensor:
        """Rows of length one."""
        return torch.from_numpy(self._caption_side.short_unit(which)).to(self.device)

    def rough_images(self, which: slice) -> torch.Tensor:
        """Rows of length one."""
        return torch.from_numpy(self._image_side.short_unit(which)).to(self.device)

    def rough(self, captions: torch.Tensor, images: torch.Tensor, out: torch.Tensor, spare: torch.Tensor) -> None:
        """Products of some dimensions at a time."""
        target = out
        for start in range(0, self.dimensions, _CHUNK):
            torch.mm(captions[:, start : start + _CHUNK], images[:, start : start + _CHUNK].T, out=target)
            if target is spare:
                out.add_(spare)
            target = spare

    def bar(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        """Lower by the width of a tie."""
        return score - self._tie

    def window(self, bar: NDArray[np.float64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """As far from the bar as a rough score can err."""
        return outwards(bar - self._error, bar + self._error)

    def ceiling(self, rough: NDArray[np.float32]) -> NDArray[np.float64]:
        """Higher by what it can err."""
        return rough.astype(np.float64) + self._error

    def rounded(self, scores: torch.Tensor) -> torch.Tensor:
        """To multiples of 2**-32, so to within 1.2e-10."""
        return torch.round(scores * _GRID) / _GRID

    def lowered(self, rounded: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        """By less than the grid's step."""
        return rounded - place * 2.0**-52


class Side:
    """The pictures, or the captions, and the factors of their rows.

    Args:
        embeddings: (n, D).
        inverse: (n,) the factor of each row; with it no row is longer than 1.
        powers: (n,) the power of two by which each row is multiplied first; None for no such step.
    """

    def __init__(
        self, embeddings: Embeddings, inverse: NDArray[np.float64], powers: NDArray[np.int64] | None = None
    ) -> None:
        self._embeddings, self.inverse, self._powers = embeddings, inverse, powers

    def tame(self, which: Which) -> NDArray[np.float64]:
        """Rows before they are multiplied by ``inverse``."""
        rows = self._embeddings.rows(which)
        return rows if self._powers is None else np.ldexp(rows, self._powers[which][:, None])

    def unit(self, which: Which) -> NDArray[np.float64]:
        """Rows of length one, or at most one where lengths weigh."""
        return self.tame(which) * self.inverse[which][:, None]

    def short_unit(self, which: slice) -> NDArray[np.float32]:
        """:meth:`unit` in float32, rounded once."""
        start, stop, _ = which.indices(len(self._embeddings))
        rows = np.empty((stop - start, self._embeddings.dimensions), np.float32)
        size = rows_at_once(self._embeddings.dimensions)
        for first in range(start, stop, size):
            part = slice(first, min(first + size, stop))
            # Torch rounds with all threads; NumPy's own rounding in the same breath takes twice as long.
            torch.from_numpy(rows[first - start : part.stop - start]).copy_(torch.from_numpy(self.unit(part)))
        return rows


def _of_length_one(embeddings: Embeddings) -> Side:
    squares = embeddings.squares.copy()
    # Squares may overflow or vanish: such rows are brought near 1 first, by a power of two, which rounds nothing.
    extreme = np.flatnonzero(~((squares > _SAFE[0]) & (squares < _SAFE[1])))
    powers = np.zeros(len(embeddings), np.int64) if len(extreme) else None
    zeros = 0
    for start in range(0, len(extreme), rows_at_once(embeddings.dimensions)):
        which = extreme[start : start + rows_at_once(embeddings.dimensions)]
        rows = embeddings.rows(which)
        largest = np.abs(rows).max(axis=1)
        zeros += int((largest == 0).sum())
        assert powers is not None
        powers[which] = -np.frexp(largest)[1]
        rows = np.ldexp(rows, powers[which][:, None])
        squares[which] = np.einsum("nd,nd->n", rows, rows)
    lengths = np.sqrt(squares)
    if zeros:
        log.warning("%s: %d of %d rows are all zero; their cosine counts as 0", embeddings.name, zeros, len(embeddings))
    return Side(embeddings, np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0), powers)
