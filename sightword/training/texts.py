"""The captions of a batch: second captions of its pictures, and noise in their tokens."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightword.pairs import Pairs
from sightword.training.settings import SecondName

Rows = npt.NDArray[np.int64]


class Texts:
    """The captions of a split, as batches take them.

    Args:
        split: the training split.
        seed: with the number of a batch, it determines all that is drawn for the batch.
        second: ``other``: with each caption comes another one of its picture, or the same one if there is no other;
            ``same``: each caption comes twice.
        noise: share of the tokens of a caption that are left out, or change places with the next one: half of it each.
    """

    def __init__(self, split: Pairs, *, seed: int, second: SecondName, noise: float) -> None:
        self._ids, self._seed, self._second, self._noise = split.ids, seed, second, noise
        order = np.argsort(split.image_of_caption, kind="stable")
        counts = np.bincount(split.image_of_caption)
        starts = np.cumsum(counts) - counts
        self._order, self._count = order, counts[split.image_of_caption]
        self._start = starts[split.image_of_caption]
        self._place = np.empty(len(order), np.int64)
        self._place[order] = np.arange(len(order)) - np.repeat(starts, counts)

    def of(self, rows: Rows, step: int) -> list[list[Rows]]:
        """Return the token ids of the captions of a batch, and of the second captions, if there are any.

        The order of the captions does not change what is drawn for each.

        Args:
            rows: the captions, (B,).
            step: the number of the batch in the run.
        """
        order = np.argsort(rows)
        found, places = self._drawn(rows[order], step), np.argsort(order)
        return [[each[place] for place in places] for each in found]

    def _drawn(self, rows: Rows, step: int) -> list[list[Rows]]:
        random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self._seed, step, 1])))
        chosen = [rows]
        if self._second == "other":
            others = random.integers(1, np.maximum(self._count[rows], 2))  # (B,) how many places further
            chosen.append(self._order[self._start[rows] + (self._place[rows] + others) % self._count[rows]])
        elif self._second == "same":
            chosen.append(rows)
        texts = [[self._ids[row] for row in each] for each in chosen]
        return [[noisy(ids, self._noise, random) for ids in each] for each in texts] if self._noise else texts


def noisy(ids: Rows, share: float, random: np.random.Generator) -> Rows:
    """Return a caption's ids (n,) with about ``share`` of them changed; one is left at least.

    Half of the changed tokens are left out, and half change places with the token after them.
    """
    drawn = random.random(len(ids))
    ids = ids.copy()
    for place in np.flatnonzero(drawn[:-1] > 1 - share / 2):
        ids[[place, place + 1]] = ids[[place + 1, place]]
    kept = ids[drawn >= share / 2]
    return kept if len(kept) else ids[:1]
