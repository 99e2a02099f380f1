"""Embeddings that can be scored, or an error that says what is wrong with them."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.errors import ScoringError

log = logging.getLogger(__name__)

_ROWS = 4096
"""Rows looked at together: arrays mapped from a file are never in memory whole."""


def embeddings(values: ArrayLike, name: str) -> NDArray[np.generic]:
    """Check that the values are a matrix of finite numbers; ``name`` is what the error calls it."""
    matrix = np.asarray(values)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ScoringError(f"has shape {matrix.shape}", where=name, expected="rows of embeddings, (count, dimensions)")
    if matrix.dtype.kind not in "fiu":
        raise ScoringError(f"holds {matrix.dtype}", where=name, expected="real numbers")
    bad, count = -1, 0
    for start in range(0, len(matrix), _ROWS):
        wrong = np.flatnonzero(~np.isfinite(matrix[start : start + _ROWS]).all(axis=1))
        if len(wrong) and not count:
            bad = start + int(wrong[0])
        count += len(wrong)
    if count:
        raise ScoringError(
            f"{count} of {len(matrix)} rows have values that are not finite, the first is row {bad}",
            where=name,
            todo="The encoder gave NaN or infinity: look at its training.",
        )
    return matrix


def owners(values: ArrayLike, images: NDArray[np.generic], captions: NDArray[np.generic]) -> NDArray[np.int64]:
    """Check that each caption has a picture, each picture a caption, and both the same dimensions."""
    if images.shape[1] != captions.shape[1]:
        raise ScoringError(
            f"pictures have {images.shape[1]} dimensions, captions {captions.shape[1]}", expected="one space for both"
        )
    owner = np.asarray(values)
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


def tell_zeros(matrix: NDArray[np.generic], name: str) -> None:
    """Log how many rows are all zero, if there are any: they have no direction."""
    count = sum(int((~matrix[start : start + _ROWS].any(axis=1)).sum()) for start in range(0, len(matrix), _ROWS))
    if count:
        log.warning("%s: %d of %d rows are all zero; their cosine counts as 0", name, count, len(matrix))
