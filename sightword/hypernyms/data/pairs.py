"""Labelled pairs of concepts: sets of pairs, corrupted pairs, and the baselines that need no training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightword.hypernyms.data.taxonomy import Ids

Array = NDArray[Any]
Bools = NDArray[np.bool_]
REPLACED = ("", "hyponym", "hypernym")
ROUNDS = 60
"""Random draws of false pairs before the remaining pairs are enumerated or left out."""
_BITS = 27


@dataclass(frozen=True)
class ConceptPairs:
    """Labelled pairs of one split."""

    hyponyms: Ids
    hypernyms: Ids
    labels: Bools
    direct: Bools
    """Whether the pair is an edge of the taxonomy."""
    replaced: NDArray[np.int8]
    """The replaced side of a false pair, as a place in :data:`REPLACED`; 0 for true pairs and where unknown."""

    def where(self, rows: Array) -> ConceptPairs:
        """Return some rows."""
        return ConceptPairs(*(getattr(self, name)[rows] for name in ConceptPairs.__dataclass_fields__))


class PairSet:
    """A set of pairs with a quick test of membership: a hash first, bisection where the hash is set.

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
        """Return which of (N,) pairs are in the set."""
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
    """Return which of (N,) true pairs become a false pair of two concepts by some replacement of one side."""
    above, below = known.counts()
    others = known.concepts - 1
    found: Bools = (below[hypernyms] < others) | (above[hyponyms] < others)
    return found


def corrupt(
    hyponyms: Ids, hypernyms: Ids, known: PairSet | None, concepts: int, random: np.random.Generator
) -> tuple[Ids, Ids, Bools]:
    """Replace the hyponym or the hypernym of each :func:`corruptible` pair by a random concept.

    The side and the concept are drawn uniformly. If the result is in ``known`` or a pair of a concept with itself, both
    are drawn anew; without ``known`` the first draw is kept, as in the released code of Vendrov et al.

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


def above_known(known: Sequence[ConceptPairs], concepts: int) -> list[list[int]]:
    """Return the direct hypernyms of each concept in the true pairs of some splits."""
    low = np.concatenate([pairs.hyponyms[pairs.labels] for pairs in known])
    high = np.concatenate([pairs.hypernyms[pairs.labels] for pairs in known])
    order = np.argsort(low, kind="stable")
    ends = np.cumsum(np.bincount(low, minlength=concepts))[:-1]
    return [part.tolist() for part in np.split(high[order], ends)]


def reachable(above: Sequence[Sequence[int]], concept: int) -> set[int]:
    """Return all hypernyms of a concept by the direct hypernyms of each concept."""
    found: set[int] = set()
    waiting = [concept]
    while waiting:
        new = set(above[waiting.pop()]) - found
        found |= new
        waiting += new
    return found


def inferable(pairs: ConceptPairs, above: list[list[int]]) -> Bools:
    """Return which (N,) pairs are in the transitive closure of the pairs of :func:`above_known`."""
    reached = {low: reachable(above, low) for low in set(pairs.hyponyms.tolist())}
    sides = zip(pairs.hyponyms.tolist(), pairs.hypernyms.tolist(), strict=True)
    return np.fromiter((high in reached[low] for low, high in sides), bool, len(pairs.labels))


def frequency(pairs: ConceptPairs, training: ConceptPairs, concepts: int) -> Array:
    """Return minus the number of training pairs with the same hypernym, (N,): the more frequent, the likelier."""
    count = np.bincount(training.hypernyms[training.labels], minlength=concepts)
    return -count[pairs.hypernyms].astype(np.float64)
