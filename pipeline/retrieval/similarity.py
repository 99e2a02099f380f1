"""How alike a caption and a picture are, and how far two such scores must differ not to be tied.

Scores are float64, and err: a matrix product gives the same pair of rows another last
bit when the tile lies elsewhere. A comparison of bare values would break real ties at
random, and a model whose embeddings are all the same would beat chance. Therefore two
scores count as tied when they differ by no more than the calculation can err.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from numpy.typing import NDArray

from pipeline.errors import ScoringError
from pipeline.retrieval.order import compiled, errors

NAMES = ("cosine", "order")

_GRID = 2.0**32
_SAFE = (1e-200, 1e200)
_LARGEST = 1e140
_SPLIT = 2.0**29 + 1


class Similarity(ABC):
    """One way to compare."""

    @abstractmethod
    def rows(self, block: NDArray[np.generic]) -> NDArray[np.float64]:
        """(n, D) embeddings as they enter a comparison. Equal rows give equal rows."""

    @abstractmethod
    def own(self, captions: NDArray[np.float64], images: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n,) the score of each row of one with the same row of the other, both from :meth:`rows`."""

    @abstractmethod
    def scores(self, captions: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        """(n, m) the score of each caption with each picture; more is more alike."""

    @abstractmethod
    def bar(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        """What a rival of that score must reach at least to be tied with it or better."""

    @abstractmethod
    def rounded(self, scores: torch.Tensor) -> torch.Tensor:
        """The scores so coarse that tied ones are equal: for lists of the best, which people look at."""

    @abstractmethod
    def lowered(self, rounded: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        """Rounded scores, each lowered by less than they can differ, and the more, the larger its ``place``
        (whole numbers below 2**20): no two of a row are equal any more.
        """


class Cosine(Similarity):
    """The cosine of the angle between two embeddings; a row of zeros has 0 with everything."""

    def __init__(self, dimensions: int) -> None:
        self._width = tie_width(dimensions)

    def rows(self, block: NDArray[np.generic]) -> NDArray[np.float64]:
        """Rows of length one; rows of zeros stay so."""
        rows = block.astype(np.float64)
        square = np.einsum("nd,nd->n", rows, rows)
        extreme = ~((square > _SAFE[0]) & (square < _SAFE[1]))
        if extreme.any():  # squares may overflow or vanish: bring the largest number to 1 first
            part = rows[extreme]
            largest = np.abs(part).max(axis=1, keepdims=True)
            part /= np.where(largest > 0, largest, 1.0)
            rows[extreme], square[extreme] = part, np.einsum("nd,nd->n", part, part)
        length = np.sqrt(square)[:, None]
        rows /= np.where(length > 0, length, 1.0)
        return rows

    def own(self, captions: NDArray[np.float64], images: NDArray[np.float64]) -> NDArray[np.float64]:
        """Row by row, float64 (n,)."""
        score: NDArray[np.float64] = np.einsum("nd,nd->n", captions, images)
        return score

    def scores(self, captions: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        """All pairs, float64 (n, m)."""
        return captions @ images.T

    def bar(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        """Lower by the width of a tie."""
        return score - self._width

    def rounded(self, scores: torch.Tensor) -> torch.Tensor:
        """To multiples of 2**-32, so to within 1.2e-10."""
        return torch.round(scores * _GRID) / _GRID

    def lowered(self, rounded: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        """By less than the grid's step."""
        return rounded - place * 2.0**-52


class Order(Similarity):
    """``-sum_d max(0, c_d - i_d)^2`` of caption c and picture i (Vendrov et al. 2016), no root taken.

    Embeddings are taken as they are. A sum of squares errs by a share of itself, so ties are as wide as a share of
    the score, and a score of 0 ties with 0 only.

    Args:
        dimensions: D.
        pairs: how many will be compared: it decides whether a kernel is compiled for them.
        device: where.
    """

    def __init__(self, dimensions: int, pairs: float, device: torch.device) -> None:
        self._share = tie_width(dimensions)
        self._fused = compiled(pairs * dimensions, device)

    def rows(self, block: NDArray[np.generic]) -> NDArray[np.float64]:
        """As they are, in float64."""
        rows = block.astype(np.float64)
        if max(rows.max(), -rows.min()) > _LARGEST:
            raise ScoringError("values are too large for the order similarity", expected=f"at most {_LARGEST:g}")
        return rows

    def own(self, captions: NDArray[np.float64], images: NDArray[np.float64]) -> NDArray[np.float64]:
        """Row by row, float64 (n,)."""
        excess = np.maximum(captions - images, 0.0)
        score: NDArray[np.float64] = -np.einsum("nd,nd->n", excess, excess)
        return score

    def scores(self, captions: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        """All pairs, float64 (n, m)."""
        return errors(captions, images, self._fused).neg_()

    def bar(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        """Lower by the width of a tie."""
        return score - self._share * np.abs(score)

    def rounded(self, scores: torch.Tensor) -> torch.Tensor:
        """To 24 bits, so to a share of 6e-8 (Veltkamp's splitting)."""
        larger = scores * _SPLIT
        return larger - (larger - scores)

    def lowered(self, rounded: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        """By a share of the score, since scores have any size, and where it is 0, by next to nothing."""
        return rounded * (1.0 + place * 2.0**-46) - place * 1e-300


def similarity(name: str, *, dimensions: int, pairs: float, device: torch.device) -> Similarity:
    """The similarity of that name.

    Raises:
        ScoringError: there is none.
    """
    if name == "cosine":
        return Cosine(dimensions)
    if name == "order":
        return Order(dimensions, pairs, device)
    raise ScoringError(f"no such similarity: {name!r}", expected=" or ".join(NAMES))


def tie_width(dimensions: int) -> float:
    """The difference below which two cosines, or two order errors relative to themselves, are tied.

    A float64 sum of D products of unit vectors errs by at most about D times 2**-53,
    in whatever order it is done; two scores and the normalisation of their rows
    make it four times as much, with some room for small D. A sum of D squares errs by
    no more than that as a share of itself.
    """
    return (dimensions + 16) * 2.0**-50
