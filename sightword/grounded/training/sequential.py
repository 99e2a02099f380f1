"""SEQ, the sequential baseline (Bordes et al. 2019, section 4.2): regression on pictures, concatenation, PCA.

A linear regression maps a sentence's vector t to the vector of its picture, ``W t + b``. ``[t ; W t + b]`` is projected
on as many principal axes as t has numbers. All of it together is one affine map of t.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
_BLOCK = 4096


class Affine(NamedTuple):
    """The map ``x -> matrix x + bias``."""

    matrix: Doubles  # (outputs, inputs)
    bias: Doubles  # (outputs,)

    def __call__(self, vectors: npt.NDArray[np.floating]) -> Doubles:
        """Map (N, inputs) to (N, outputs)."""
        found: Doubles = vectors @ self.matrix.T + self.bias
        return found


class Sequential(NamedTuple):
    """Both maps of a sentence's vector."""

    picture: Affine  # to the predicted picture
    sentence: Affine  # to the principal axes of the concatenation


def sequential(
    vectors: npt.NDArray[np.floating],
    pictures: npt.NDArray[np.floating],
    picture_of: npt.NDArray[np.int64],
) -> Sequential:
    """Fit SEQ in float64.

    Args:
        vectors: (M, D) vectors of the training captions.
        pictures: (N, F) features of the pictures.
        picture_of: (M,) the picture of each caption.
    """
    mean = vectors.mean(axis=0, dtype=np.float64)
    counts = np.bincount(picture_of, minlength=len(pictures))
    picture_mean = np.zeros(pictures.shape[1])
    own, both = np.zeros((len(mean), len(mean))), np.zeros((len(mean), pictures.shape[1]))
    for start in range(0, len(pictures), _BLOCK):
        block = pictures[start : start + _BLOCK].astype(np.float64)
        picture_mean += counts[start : start + _BLOCK] @ block / len(vectors)
    for start in range(0, len(vectors), _BLOCK):
        rows = slice(start, start + _BLOCK)
        block = vectors[rows] - mean
        own += block.T @ block
        both += block.T @ (pictures[picture_of[rows]] - picture_mean)
    spread, axes = np.linalg.eigh(own)  # rising
    kept = spread > spread[-1] * len(mean) * np.finfo(np.float64).eps
    inverse = np.divide(1.0, spread, out=np.zeros_like(spread), where=kept)
    weights = ((axes * inverse) @ axes.T @ both).T  # (F, D), of least norm where captions do not decide
    together = np.vstack([np.eye(len(mean)), weights])  # (D + F, D), the linear part of the concatenation
    principal, _, _ = np.linalg.svd(together @ (axes * np.sqrt(np.maximum(spread, 0.0))), full_matrices=False)
    largest = np.abs(principal).argmax(axis=0)
    principal *= np.where(principal[largest, np.arange(len(mean))] < 0, -1.0, 1.0)  # an axis has no sign of its own
    matrix = principal.T @ together
    return Sequential(Affine(weights, picture_mean - weights @ mean), Affine(matrix, -matrix @ mean))
