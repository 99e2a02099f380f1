"""Corrupted pairs: one of the two concepts of a true pair is replaced by another concept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sightword.hypernyms.data.taxonomy import Ids

Bools = NDArray[np.bool_]
ROUNDS = 60
"""Draws before the rest of the pairs is corrupted by enumeration."""
_BITS = 27


class PairSet:
    """A set of pairs that answers quickly whether it has given pairs.

    Args:
        hyponyms: (N,) ids; pairs may repeat.
        hypernyms: (N,) ids.
        concepts: the number of concepts.
    """

    def __init__(self, hyponyms: Ids, hypernyms: Ids, concepts: int) -> None:
        self.concepts = concepts
        codes = np.sort(self._code(hyponyms, hypernyms))  # np.unique hashes, which takes fifty times as long
        self.codes = codes[np.diff(codes, prepend=-1) > 0]
        self._table = np.zeros(1 << (_BITS - 3), np.uint8)
        place = self._hash(self.codes)
        np.bitwise_or.at(self._table, place >> 3, np.left_shift(1, place & 7).astype(np.uint8))

    def has(self, hyponyms: Ids, hypernyms: Ids) -> Bools:
        """Return which of (N,) pairs are in the set, by a hash first and by bisection where the hash is set."""
        codes = self._code(hyponyms, hypernyms)
        place = self._hash(codes)
        found: Bools = (self._table[place >> 3] >> (place & 7).astype(np.uint8)) & 1 != 0
        maybe = np.flatnonzero(found)
        at = np.searchsorted(self.codes, codes[maybe])
        found[maybe] = self.codes[np.minimum(at, len(self.codes) - 1)] == codes[maybe]
        return found

    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the number of hypernyms and of hyponyms of each concept."""
        low, high = np.divmod(self.codes, self.concepts)
        return np.bincount(low, minlength=self.concepts), np.bincount(high, minlength=self.concepts)

    def _code(self, hyponyms: Ids, hypernyms: Ids) -> NDArray[np.int64]:
        return hyponyms.astype(np.int64) * self.concepts + hypernyms

    @staticmethod
    def _hash(codes: NDArray[np.int64]) -> NDArray[np.int64]:
        mixed = codes.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return (mixed >> np.uint64(64 - _BITS)).astype(np.int64)


def corruptible(hyponyms: Ids, hypernyms: Ids, known: PairSet) -> Bools:
    """Return which of (N,) true pairs have a replacement of either side that is not known and no pair with itself."""
    above, below = known.counts()
    others = known.concepts - 1
    found: Bools = (below[hypernyms] < others) | (above[hyponyms] < others)
    return found


def corrupt(
    hyponyms: Ids, hypernyms: Ids, known: PairSet | None, concepts: int, random: np.random.Generator
) -> tuple[Ids, Ids, Bools]:
    """Replace the hyponym or the hypernym of each pair by a random concept.

    The side and the concept are drawn uniformly. If the result is in ``known`` or a pair of a concept with itself, both
    are drawn anew; without ``known`` the first draw is kept, as in the released code of Vendrov et al.

    Args:
        hyponyms: (N,) ids of the true pairs, each :func:`corruptible`.
        hypernyms: (N,) ids likewise.
        known: the pairs that count as true.
        concepts: the number of concepts.
        random: the source of all draws.

    Returns:
        Hyponyms and hypernyms of the corrupted pairs, and where the hyponym was replaced; each (N,).

    Raises:
        ValueError: a pair is not corruptible.
    """
    low, high = hyponyms.copy(), hypernyms.copy()
    replaced = np.zeros(len(low), bool)
    left = np.arange(len(low))
    for _ in range(ROUNDS):
        side = random.integers(0, 2, len(left), dtype=np.uint8) == 0
        concept = random.integers(0, concepts, len(left), dtype=np.int32)
        low[left] = np.where(side, concept, hyponyms[left])
        high[left] = np.where(side, hypernyms[left], concept)
        replaced[left] = side
        if known is None:
            return low, high, replaced
        left = left[known.has(low[left], high[left]) | (low[left] == high[left])]
        if not len(left):
            return low, high, replaced
    every = np.arange(concepts, dtype=np.int32)
    for row in left:
        assert known is not None
        first = ~known.has(every, np.full(concepts, hypernyms[row])) & (every != hypernyms[row])
        second = ~known.has(np.full(concepts, hyponyms[row]), every) & (every != hyponyms[row])
        choice = random.choice(np.flatnonzero(np.append(first, second)))  # ValueError if there is none
        replaced[row] = choice < concepts
        low[row], high[row] = (choice, hypernyms[row]) if choice < concepts else (hyponyms[row], choice - concepts)
    return low, high, replaced
