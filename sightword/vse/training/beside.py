"""Captions without pictures, in groups, as the batches of a training run take them."""

from __future__ import annotations

import numpy as np

from sightword.features.tables.pairs import Pairs
from sightword.vse.training.batches import Rows, places_of
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.texts import Texts

_STREAM = 4
"""The first stream of random numbers of a batch that the captions with pictures leave free."""


class Beside:
    """Groups of captions that say the same, such as those of one picture; each caption comes with another of its group.

    A run passes through all groups, in another order each time; what is left of a pass is less than a batch, and is
    left out.

    Args:
        split: the captions; a group stands for a picture.
        settings: the parameters; the split has ``beside_batch`` groups at least.
    """

    def __init__(self, split: Pairs, settings: TrainSettings) -> None:
        self._size, self._seed = settings.beside_batch, settings.seed
        self._counts = np.bincount(split.image_of_caption)
        self._order = np.lexsort((places_of(split), split.image_of_caption))  # the captions, group after group
        self._starts = np.cumsum(self._counts) - self._counts
        errors = settings.typing_errors
        self._texts = Texts(split, seed=settings.seed, second=True, typing_errors=errors, stream=_STREAM)

    def rows(self, step: int) -> Rows:
        """Return one caption of each of ``beside_batch`` groups, for batch ``step`` of the run."""
        passed, place = divmod(step, len(self._counts) // self._size)
        groups = self._random(passed, 0).permutation(len(self._counts))[place * self._size :][: self._size]
        drawn = self._random(step, 1).integers(self._counts[groups])
        rows: Rows = self._order[self._starts[groups] + drawn]
        return rows

    def of(self, rows: Rows, step: int) -> list[list[Rows]]:
        """Return the token ids of these captions, and of the other ones of their groups, (B,) each."""
        return self._texts.of(rows, step)

    def _random(self, number: int, stream: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([self._seed, number, _STREAM + 3 + stream])))
