"""The captions of a batch, and second captions of its pictures."""

from __future__ import annotations

import numpy as np

from sightword.features.tables.pairs import Pairs
from sightword.vse.training.batches import Rows, places_of


class Texts:
    """The captions of a split, as batches take them.

    Args:
        split: the training split.
        seed: with the number of a batch, it determines what is drawn for the batch.
        second: with each caption comes another one of its picture, or the same one if there is no other.
    """

    def __init__(self, split: Pairs, *, seed: int, second: bool) -> None:
        self._ids, self._seed, self._second = split.ids, seed, second
        owner = split.image_of_caption
        counts = np.bincount(owner)
        self._place, self._count, self._start = places_of(split), counts[owner], (np.cumsum(counts) - counts)[owner]
        self._order = np.argsort(self._start + self._place)  # the captions, picture after picture

    def of(self, rows: Rows, step: int) -> list[list[Rows]]:
        """Return the token ids of the captions of a batch, and of the second captions, if there are any.

        The order of the captions does not change what is drawn for each.

        Args:
            rows: the captions, (B,).
            step: the number of the batch in the run.
        """
        chosen = [rows]
        if self._second:
            random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self._seed, step, 1])))
            further = np.empty(len(rows), np.int64)
            further[np.argsort(rows)] = random.integers(1 << 62, size=len(rows))
            count = self._count[rows]
            places = self._place[rows] + 1 + further % np.maximum(count - 1, 1)
            chosen.append(self._order[self._start[rows] + places % count])
        return [[self._ids[row] for row in each] for each in chosen]
