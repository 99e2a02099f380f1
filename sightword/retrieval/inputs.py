"""Embeddings that can be scored, or an error that says what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightword.errors import ScoringError

Which = slice | NDArray[np.int64]
"""Rows of a matrix."""

_NUMBERS = 1 << 18
"""Numbers looked at together: few enough for a processor's cache, and arrays mapped from a file are never in
memory whole."""


@dataclass(frozen=True)
class Embeddings:
    """Rows of finite numbers, as they were given."""

    matrix: NDArray[np.generic]
    """(n, D)"""
    squares: NDArray[np.float64]
    """(n,) the sum of each row's squares: infinite, or 0 although the row is not, where float64 cannot hold it."""
    name: str
    """What an error calls them."""

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def dimensions(self) -> int:
        """D."""
        return int(self.matrix.shape[1])

    def rows(self, which: Which) -> NDArray[np.float64]:
        """Some rows as float64; what is given may be the matrix itself."""
        return np.asarray(self.matrix[which]).astype(np.float64, copy=False)


def rows_at_once(dimensions: int) -> int:
    """How many rows are worked on together."""
    return max(1, _NUMBERS // dimensions)


def embeddings(values: ArrayLike, name: str) -> Embeddings:
    """Check that the values are a matrix of finite numbers; ``name`` is what the error calls it.

    Raises:
        ScoringError: no matrix, an empty one, no numbers, or numbers that are not finite.
    """
    matrix = _array(values, name)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ScoringError(f"has shape {matrix.shape}", where=name, expected="rows of embeddings, (count, dimensions)")
    if matrix.dtype.kind not in "fiu":
        raise ScoringError(f"holds {matrix.dtype}", where=name, expected="real numbers")
    found = Embeddings(matrix, np.empty(len(matrix)), name)
    bad, count, size = -1, 0, rows_at_once(matrix.shape[1])
    for start in range(0, len(matrix), size):
        rows = found.rows(slice(start, start + size))
        squares = found.squares[start : start + size]
        with np.errstate(over="ignore", invalid="ignore"):
            np.einsum("nd,nd->n", rows, rows, out=squares)
        if np.isfinite(squares).all():  # then so is every number
            continue
        wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if len(wrong) and not count:
            bad = start + int(wrong[0])
        count += len(wrong)
    if count:
        raise ScoringError(
            f"{count} of {len(matrix)} rows have values that are not finite, the first is row {bad}",
            where=name,
            todo="The encoder gave NaN or infinity: look at its training.",
        )
    return found


def _array(values: ArrayLike, name: str) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError as error:  # lists of different lengths
        raise ScoringError(f"is no array of numbers ({error})", where=name) from None


def owners(values: ArrayLike, images: Embeddings, captions: Embeddings) -> NDArray[np.int64]:
    """Check that each caption has a picture, each picture a caption, and both the same dimensions.

    Raises:
        ScoringError: they do not fit together.
    """
    if images.dimensions != captions.dimensions:
        raise ScoringError(
            f"pictures have {images.dimensions} dimensions, captions {captions.dimensions}",
            expected="one space for both",
        )
    owner = _array(values, "image_of_caption")
    if owner.ndim != 1 or owner.dtype.kind not in "iu":
        raise ScoringError(
            f"has shape {owner.shape} and holds {owner.dtype}",
            where="image_of_caption",
            expected="one whole number for each caption",
        )
    if len(owner) != len(captions):
        raise ScoringError(f"has {len(owner)} entries for {len(captions)} captions", where="image_of_caption")
    outside = np.flatnonzero((owner < 0) | (owner >= len(images)))
    if len(outside):
        raise ScoringError(
            f"caption {outside[0]} belongs to picture row {owner[outside[0]]}"
            + (f", and {len(outside) - 1} more are out of range" if len(outside) > 1 else ""),
            where="image_of_caption",
            expected=f"rows 0 to {len(images) - 1}",
        )
    owner = owner.astype(np.int64)
    without = np.flatnonzero(np.bincount(owner, minlength=len(images)) == 0)
    if len(without):
        raise ScoringError(
            f"{len(without)} of {len(images)} pictures have no caption, the first is row {without[0]}",
            where="image_of_caption",
            expected="at least one caption for each picture",
            todo="Leave those pictures out.",
        )
    return owner
