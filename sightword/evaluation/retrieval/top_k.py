"""The best candidates of each query, by one rule of ties.

Scores are rounded so that tied ones are equal; of equal scores the candidate in the lower row leads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]
Rows = NDArray[np.int64]
Numbers = TypeVar("Numbers", torch.Tensor, Doubles)

GRID = 2.0**32
"""Products of vectors of length 1 or less within 1 / GRID are equal."""
ROUND = 2.0**-24
"""The largest relative rounding error of float32."""
_SPLIT = 2.0**29 + 1


class Ties(ABC):
    """Which scores are tied."""

    @abstractmethod
    def rounded(self, scores: Numbers) -> Numbers:
        """Round scores so coarsely that tied ones are equal."""

    @abstractmethod
    def lowered(self, rounded: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        """Lower rounded scores by less than two of them can differ, and by more, the larger ``place`` is.

        Args:
            rounded: (n, m), from :meth:`rounded`.
            place: (m,) whole numbers below 2**20; no two scores of a row are equal afterwards.
        """


class _Absolute(Ties):
    """Products of rows of length 1 or less, rounded to multiples of 2**-32, so to within 1.2e-10."""

    def rounded(self, scores: Numbers) -> Numbers:
        return (scores * GRID).round() / GRID

    def lowered(self, rounded: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        return rounded - place * 2.0**-52


class _Relative(Ties):
    """Sums of squares, rounded to 24 bits, so to a share of 6e-8 (Veltkamp's splitting)."""

    def rounded(self, scores: Numbers) -> Numbers:
        larger = scores * _SPLIT
        return larger - (larger - scores)

    def lowered(self, rounded: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        """Lower by a share of the score, since scores have any size, and where it is 0, by next to nothing."""
        return rounded * (1.0 + place * 2.0**-46) - place * 1e-300


PRODUCTS, SQUARES = _Absolute(), _Relative()


@dataclass(frozen=True)
class Top:
    """The best candidates of each query, best first; equal scores in the order of the candidates' rows."""

    candidate: Rows
    """(Q, K) the candidates' rows; K is smaller than requested if there are fewer candidates."""
    score: Doubles
    """(Q, K) the scores: cosines to within 2.3e-10, dot products to within 2.3e-10 times the longest rows, order
    similarities to within a share of 6e-8."""


class Best:
    """Collects the ``top`` best candidates of each query from tiles of exact scores that come one after another."""

    def __init__(self, queries: int, candidates: int, top: int, ties: Ties, device: torch.device) -> None:
        kept = (queries, min(top, candidates))
        self._ties = ties
        self._score = torch.full(kept, -torch.inf, dtype=torch.float64, device=device)
        self._candidate = torch.full(kept, -1, dtype=torch.int64, device=device)

    def offer(self, scores: torch.Tensor, *, rows: slice, candidates_from: int) -> None:
        """Merge a tile (queries, candidates); the tiles of a query come in the order of the candidates."""
        known = self._score[rows]
        better = torch.nonzero(self._ties.rounded(scores.amax(dim=1)) > known[:, -1]).squeeze(1)
        if not len(better):  # after some tiles, few queries have a new candidate
            return
        known, new = known[better], self._ties.rounded(scores[better])
        # The order of equal values is not defined in topk, so no two may be equal.
        place = torch.arange(new.shape[1], dtype=torch.float64, device=new.device)
        found = torch.topk(self._ties.lowered(new, place), min(known.shape[1], new.shape[1]), dim=1).indices
        both = torch.cat([known, new.gather(1, found)], dim=1)
        which = torch.cat([self._candidate[rows][better], found + candidates_from], dim=1)
        order = torch.sort(both, dim=1, descending=True, stable=True).indices[:, : known.shape[1]]
        self._score[rows.start + better] = both.gather(1, order)
        self._candidate[rows.start + better] = which.gather(1, order)

    def done(self, unit: float) -> Top:
        """Return the best of each query; scores are multiplied by the unit of the similarity."""
        return Top(self._candidate.cpu().numpy(), self._score.cpu().numpy() * unit)
