"""The best candidates of each query, out of tiles that come one after another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from sightword.retrieval.similarity import Similarity

_SPARE = 6
"""How many more are kept than asked for, since rough scores may order some wrongly."""
_QUERIES = 256
_CANDIDATES = 4096


@dataclass(frozen=True)
class Top:
    """The best candidates of each query, best first; equal scores in the order of the candidates' rows."""

    candidate: NDArray[np.int64]
    """(Q, K) the candidate's row; K is less than asked for where there are fewer candidates."""
    score: NDArray[np.float64]
    """(Q, K) its score: a cosine to within 2.3e-10, a dot product to within that times the longest rows, an order
    similarity to a share of 6e-8."""


class Best:
    """The best candidates so far of each query, by rough scores; exact ones put them in order at the end.

    Args:
        queries: how many.
        candidates: how many there are in all.
        top: how many are wanted of each.
        alike: what compares them.
        pairs: the exact scores of queries and candidates, told by their rows.
        exact: the exact scores of all pairs of some queries and some candidates, float64.
    """

    def __init__(
        self,
        queries: int,
        candidates: int,
        top: int,
        alike: Similarity,
        pairs: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]],
        exact: Callable[[NDArray[np.int64], slice], torch.Tensor],
    ) -> None:
        self._top, self._candidates = min(top, candidates), candidates
        self._alike, self._pairs, self._exact = alike, pairs, exact
        kept = (queries, min(top + _SPARE, candidates))
        self._score = torch.full(kept, -torch.inf, device=alike.device)
        self._candidate = torch.full(kept, -1, dtype=torch.int64, device=alike.device)

    def offer(self, scores: torch.Tensor, *, rows: slice, candidates_from: int) -> None:
        """Merge a tile (queries, candidates) of rough scores, which may be a transposed one."""
        known = self._score[rows]
        better = torch.nonzero(scores.amax(dim=1) > known[:, -1]).squeeze(1)  # soon few have anything new
        if not len(better):
            return
        known = known[better]
        new = scores[better].contiguous()
        found, place = torch.topk(new, min(known.shape[1], new.shape[1]), dim=1, sorted=False)
        both = torch.cat([known, found], dim=1)
        which = torch.cat([self._candidate[rows][better], place + candidates_from], dim=1)
        both, order = torch.topk(both, known.shape[1], dim=1)
        self._score[rows.start + better] = both
        self._candidate[rows.start + better] = which.gather(1, order)

    def done(self) -> Top:
        """The best of each query by exact scores."""
        kept, queries = self._candidate.cpu().numpy(), np.arange(len(self._candidate))
        candidate, score = np.empty((len(queries), self._top), np.int64), np.empty((len(queries), self._top))
        for start in range(0, len(queries), _CANDIDATES):
            part = queries[start : start + _CANDIDATES]
            rounded = self._rounded(self._pairs(part.repeat(kept.shape[1]), kept[part].ravel())).reshape(len(part), -1)
            order = np.lexsort((kept[part], -rounded), axis=1)[:, : self._top]
            candidate[part] = np.take_along_axis(kept[part], order, 1)
            score[part] = np.take_along_axis(rounded, order, 1)
        if kept.shape[1] < self._candidates:
            # Who was not kept is no better than the worst that was.
            limit = self._rounded(self._alike.ceiling(self._score[:, -1].cpu().numpy()))
            for part in _blocks(np.flatnonzero(score[:, -1] <= limit)):
                candidate[part], score[part] = self._among_all(part)
        return Top(candidate, score * self._alike.unit)

    def _rounded(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._alike.rounded(torch.from_numpy(scores)).numpy()

    def _among_all(self, queries: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The best of some queries, all candidates scored exactly."""
        device = self._alike.device
        best = torch.full((len(queries), 0), 0.0, dtype=torch.float64, device=device)
        chosen = torch.full((len(queries), 0), 0, dtype=torch.int64, device=device)
        for start in range(0, self._candidates, _CANDIDATES):
            scores = self._alike.rounded(self._exact(queries, slice(start, start + _CANDIDATES)))
            # The order of equal values is not defined in topk, so no two may be equal: the first of a tie leads.
            place = torch.arange(scores.shape[1], dtype=torch.float64, device=device)
            count = min(self._top, scores.shape[1])
            new = torch.topk(self._alike.lowered(scores, place), count, dim=1).indices
            both = torch.cat([best, scores.gather(1, new)], dim=1)
            order = torch.sort(both, dim=1, descending=True, stable=True).indices[:, : self._top]
            best = both.gather(1, order)
            chosen = torch.cat([chosen, new + start], dim=1).gather(1, order)
        return chosen.cpu().numpy(), best.cpu().numpy()


def _blocks(rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return [rows[start : start + _QUERIES] for start in range(0, len(rows), _QUERIES)]
