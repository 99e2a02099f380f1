"""How many rivals each query has: by rough scores where they suffice, by exact ones where they do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from sightword.retrieval.similarity import Similarity

Pairs = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]
"""The exact scores of queries and candidates, told by their rows."""

_WAITING = 1 << 14
"""Pairs in doubt that are judged together."""


class Rivals:
    """The rivals so far of each query.

    Args:
        bar: (Q,) the exact score that makes a candidate a rival.
        along: the dimension of a tile (captions, pictures) along which the candidates lie.
        alike: what compares.
        pairs: scores pairs exactly.
    """

    def __init__(self, bar: NDArray[np.float64], along: int, alike: Similarity, pairs: Pairs) -> None:
        def queries(values: NDArray[np.generic]) -> torch.Tensor:  # (Q, 1) or (1, Q)
            return torch.from_numpy(values).to(alike.device).unsqueeze(along)

        self._bar, self._along, self._pairs = bar, along, pairs
        self._exact = queries(bar)
        self._possible, self._sure = (queries(limit) for limit in alike.window(bar))
        self._count = torch.zeros(len(bar), dtype=torch.int64, device=alike.device)
        self._doubts: list[torch.Tensor] = []
        self._waiting = 0

    def _of(self, values: torch.Tensor, rows: slice) -> torch.Tensor:
        return values.narrow(1 - self._along, rows.start, rows.stop - rows.start)

    def look(self, scores: torch.Tensor, spare: torch.Tensor, rows: slice) -> tuple[torch.Tensor, torch.Tensor]:
        """For each of some queries, how many candidates of a tile surely are rivals, and how many may be.

        Args:
            scores: rough, right answers at minus infinity.
            spare: of the same shape, overwritten.
            rows: the queries.
        """
        sure, possible = (
            torch.ge(scores, self._of(limit, rows), out=spare).sum(self._along)
            for limit in (self._sure, self._possible)
        )
        return sure, possible

    def count(
        self, sure: torch.Tensor, possible: torch.Tensor, scores: torch.Tensor, rows: slice, candidates_from: int
    ) -> None:
        """Take what :meth:`look` found, and remember the pairs in doubt."""
        self._count[rows] += sure.to(torch.int64)
        queries = torch.nonzero(possible > sure).squeeze(1)
        if not len(queries):
            return
        few = scores.index_select(1 - self._along, queries)
        low, high = (
            self._of(limit, rows).index_select(1 - self._along, queries) for limit in (self._possible, self._sure)
        )
        places = torch.nonzero((few >= low) & (few < high))
        self._doubts.append(
            torch.stack(
                [queries[places[:, 1 - self._along]] + rows.start, places[:, self._along] + candidates_from], dim=1
            )
        )
        self._waiting += len(places)
        if self._waiting > _WAITING:
            self._settle()

    def count_exactly(self, scores: torch.Tensor, rows: slice) -> None:
        """Take a tile of exact scores, right answers at minus infinity."""
        self._count[rows] += torch.count_nonzero(scores >= self._of(self._exact, rows), dim=self._along)

    def _settle(self) -> None:
        queries, candidates = torch.cat(self._doubts).T.contiguous().cpu().numpy()
        self._doubts.clear()
        self._waiting = 0
        found = queries[self._pairs(queries, candidates) >= self._bar[queries]]
        self._count += torch.from_numpy(np.bincount(found, minlength=len(self._bar))).to(self._count.device)

    def ranks(self) -> NDArray[np.int64]:
        """(Q,) from 1."""
        if self._doubts:
            self._settle()
        return self._count.cpu().numpy() + 1
