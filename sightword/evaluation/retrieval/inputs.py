"""Checks embeddings before scoring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightword.errors import ScoringError

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
    """Check that the values are a matrix of finite numbers; ``name`` names them in an error.

    Raises:
        ScoringError: the values are not a matrix with rows and columns of finite numbers.
    """
    matrix = _array(values, name)
    if matrix.ndim != 2 or 0 in matrix.shape or matrix.dtype.kind not in "fiu":
        what = f"has shape {matrix.shape} and holds {matrix.dtype}"
        raise ScoringError(what, where=name, expected="rows of real numbers, (count, dimensions)")
    found = Embeddings(matrix, np.empty(len(matrix)), name)
    bad: list[int] = []
    size = rows_at_once(matrix.shape[1])
    for start in range(0, len(matrix), size):
        rows = found.rows(slice(start, start + size))
        squares = found.squares[start : start + size]
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
    return found


def _array(values: ArrayLike, name: str) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError as error:  # lists of different lengths
        raise ScoringError(f"is no array of numbers ({error})", where=name) from None


def owners(values: ArrayLike, captions: Embeddings, images: Embeddings) -> NDArray[np.int64]:
    """Return the (M,) rows of the captions' pictures as whole numbers.

    Raises:
        ScoringError: the sides have different dimensions, a caption has no picture, or a picture has no caption.
    """
    if images.dimensions != captions.dimensions:
        what = f"captions have {captions.dimensions} dimensions, pictures {images.dimensions}"
        raise ScoringError(what, expected="the same number of dimensions")
    owner = _array(values, "image_of_caption")
    if owner.shape != (len(captions),) or owner.dtype.kind not in "iu":
        what = f"has shape {owner.shape} and holds {owner.dtype}"
        expected = f"one whole number for each caption, shape ({len(captions)},)"
        raise ScoringError(what, where="image_of_caption", expected=expected)
    outside = np.flatnonzero((owner < 0) | (owner >= len(images)))
    if len(outside):
        more = f", and {len(outside) - 1} more are out of range" if len(outside) > 1 else ""
        what = f"caption {outside[0]} belongs to picture row {owner[outside[0]]}{more}"
        raise ScoringError(what, where="image_of_caption", expected=f"rows 0 to {len(images) - 1}")
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
