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
        typing_errors: share of the tokens at which a caption has a typing error (:func:`mistyped`).
        stream: the first of the three streams of random numbers of a batch.
    """

    def __init__(self, split: Pairs, *, seed: int, second: bool, typing_errors: float = 0.0, stream: int = 1) -> None:
        self._ids, self._seed, self._second, self._errors = split.ids, seed, second, typing_errors
        self._stream = stream
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
            random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self._seed, step, self._stream])))
            further = np.empty(len(rows), np.int64)
            further[np.argsort(rows)] = random.integers(1 << 62, size=len(rows))
            count = self._count[rows]
            places = self._place[rows] + 1 + further % np.maximum(count - 1, 1)
            chosen.append(self._order[self._start[rows] + places % count])
        return [self._typed(each, step, stream) for stream, each in enumerate(chosen, self._stream + 1)]

    def _typed(self, rows: Rows, step: int, stream: int) -> list[Rows]:
        found = [self._ids[row] for row in rows]
        if not self._errors:
            return found
        random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self._seed, step, stream])))
        order = np.argsort(rows)
        for place in order:
            found[place] = mistyped(found[place], self._errors, random)
        return found


def mistyped(ids: Rows, share: float, random: np.random.Generator) -> Rows:
    """Return the tokens of a caption with typing errors: a token is left out, or changes places with the next one.

    Args:
        ids: the tokens, (T,); the first and the last keep their places.
        share: share of the tokens at which an error is made; both kinds are equally frequent.
        random: draws the errors.
    """
    inner = len(ids) - 2
    if inner < 2:
        return ids
    drawn = random.random(inner - 1)
    typed = ids.copy()
    for place in np.flatnonzero(drawn < share / 2) + 1:
        typed[[place, place + 1]] = typed[[place + 1, place]]
    kept = np.ones(len(ids), bool)
    kept[1:-2] = drawn < 1 - share / 2
    return typed[kept]
