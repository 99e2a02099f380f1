"""Baselines that need no training: the closure of the known pairs, and the frequency of the hypernym."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightword.hypernyms.data.pairs import ConceptPairs

Array = NDArray[Any]


def above_known(known: Sequence[ConceptPairs], concepts: int) -> list[list[int]]:
    """Return the direct hypernyms of each concept in the true pairs of some splits."""
    low = np.concatenate([pairs.hyponyms[pairs.labels] for pairs in known])
    high = np.concatenate([pairs.hypernyms[pairs.labels] for pairs in known])
    order = np.argsort(low, kind="stable")
    ends = np.cumsum(np.bincount(low, minlength=concepts))[:-1]
    return [part.tolist() for part in np.split(high[order], ends)]


def inferable(pairs: ConceptPairs, above: list[list[int]]) -> Array:
    """Return which (N,) pairs are in the transitive closure of known pairs.

    Args:
        pairs: the pairs.
        above: from :func:`above_known`.
    """
    reached: dict[int, set[int]] = {}
    found = np.zeros(len(pairs.labels), bool)
    for row, (low, high) in enumerate(zip(pairs.hyponyms.tolist(), pairs.hypernyms.tolist(), strict=True)):
        if low not in reached:
            seen: set[int] = set()
            waiting = [low]
            while waiting:
                new = set(above[waiting.pop()]) - seen
                seen |= new
                waiting += new
            reached[low] = seen
        found[row] = high in reached[low]
    return found


def frequency(pairs: ConceptPairs, training: ConceptPairs, concepts: int) -> Array:
    """Return minus the number of training pairs with the same hypernym, (N,): the more frequent, the likelier."""
    count = np.bincount(training.hypernyms[training.labels], minlength=concepts)
    return -count[pairs.hypernyms].astype(np.float64)
