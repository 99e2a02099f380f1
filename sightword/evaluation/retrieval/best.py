"""Collects the best candidates of each query from tiles of scores that come one after another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from sightword.evaluation.retrieval.similarity import Similarity

_QUERIES = 1 << 14
"""Lists that are merged at a time."""


@dataclass(frozen=True)
class Top:
    """The best candidates of each query, best first; equal scores in the order of the candidates' rows."""

    candidate: NDArray[np.int64]
    """(Q, K) the candidates' rows; K is smaller than requested if there are fewer candidates."""
    score: NDArray[np.float64]
    """(Q, K) the scores: cosines to within 2.3e-10, dot products to within 2.3e-10 times the longest rows, order
    similarities to within a share of 6e-8."""

    @classmethod
    def none(cls, queries: int, width: int) -> Top:
        """Return lists of ``width`` places that no candidate has taken."""
        return cls(np.full((queries, width), -1), np.full((queries, width), -np.inf))

    def merge(self, other: Top) -> None:
        """Take over what is better in the lists of other candidates, whose rows may come before or after."""
        width = self.score.shape[1]
        for start in range(0, len(self.score), _QUERIES):
            block = slice(start, start + _QUERIES)
            better = start + np.flatnonzero(other.score[block, 0] >= self.score[block, -1])
            score, candidate = (
                np.concatenate([own[better], new[better]], axis=1)
                for own, new in ((self.score, other.score), (self.candidate, other.candidate))
            )
            order = np.lexsort((candidate, -score))[:, :width]
            self.score[better] = np.take_along_axis(score, order, axis=1)
            self.candidate[better] = np.take_along_axis(candidate, order, axis=1)

    def times(self, unit: float) -> Top:
        """Return the lists with scores in another unit."""
        return Top(self.candidate, self.score * unit)


class Best:
    """The ``top`` best candidates so far of each query; tied scores are rounded to equal ones, and the first leads.

    ``least`` (queries,) are scores below which candidates may be left out, and mostly are.
    """

    def __init__(
        self, queries: int, candidates: int, top: int, alike: Similarity, least: NDArray[np.float64] | None = None
    ) -> None:
        kept = (queries, min(top, candidates))
        self._alike = alike
        self._score = torch.full(kept, -torch.inf, dtype=torch.float64, device=alike.device)
        if least is not None:  # places that no candidate has taken stand right below
            self._score[:] = torch.from_numpy(np.nextafter(least, -np.inf)[:, None]).to(alike.device)
        self._candidate = torch.full(kept, -1, dtype=torch.int64, device=alike.device)

    def offer(self, scores: torch.Tensor, *, rows: slice, candidates_from: int) -> None:
        """Merge a tile (queries, candidates); the tiles of a query come in the order of the candidates."""
        known = self._score[rows]
        better = torch.nonzero(self._alike.rounded(scores.amax(dim=1)) > known[:, -1]).squeeze(1)
        if not len(better):  # after some tiles, few queries have a new candidate
            return
        known, new = known[better], self._alike.rounded(scores[better])
        # The order of equal values is not defined in topk, so no two may be equal.
        place = torch.arange(new.shape[1], dtype=torch.float64, device=new.device)
        found = torch.topk(self._alike.lowered(new, place), min(known.shape[1], new.shape[1]), dim=1).indices
        both = torch.cat([known, new.gather(1, found)], dim=1)
        which = torch.cat([self._candidate[rows][better], found + candidates_from], dim=1)
        order = torch.sort(both, dim=1, descending=True, stable=True).indices[:, : known.shape[1]]
        self._score[rows.start + better] = both.gather(1, order)
        self._candidate[rows.start + better] = which.gather(1, order)

    def done(self) -> Top:
        """Return the best of each query, with scores in the unit of the similarity; a place left empty has -1."""
        self._score[self._candidate < 0] = -torch.inf
        return Top(self._candidate.cpu().numpy(), self._score.cpu().numpy())
