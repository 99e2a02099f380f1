"""Reconstruction of the closure: the hypernyms of a concept are ranked among all concepts (Nickel & Kiela 2017)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightword.hypernyms.training.concepts import Concepts

Array = NDArray[Any]
LEADING = 12
"""Dimensions by which concepts are ruled out."""


def reconstruct(concepts: Concepts, hyponyms: Array, hypernyms: Array, *, number: int, threads: int) -> dict[str, Any]:
    """Return the mean average precision and the mean rank of the hypernyms of some concepts.

    A rank counts the concepts that are no hypernyms and have at most the energy: ties count against the embedding. The
    concept itself is left out. The counts do not depend on the number of threads.

    Args:
        concepts: the embedding.
        hyponyms: (N,) of all pairs of the closure, in ascending order.
        hypernyms: (N,) likewise.
        number: the concepts whose hypernyms are ranked, drawn with a fixed seed; all, if there are not so many.
        threads: how many concepts are ranked at a time.
    """
    chosen, first = np.unique(hyponyms, return_index=True)
    ends = np.append(first[1:], len(hyponyms))
    places = np.arange(len(chosen))
    if number < len(chosen):
        places = np.sort(np.random.default_rng(0).choice(len(chosen), number, replace=False))

    # Order energies only grow with each dimension, so most concepts are ruled out by the first few.
    leading = np.ascontiguousarray(concepts.vectors.T[:LEADING]) if concepts.settings["energy"] == "order" else None

    def one(place: int) -> tuple[float, int, int]:
        return _ranks(concepts, leading, int(chosen[place]), hypernyms[first[place] : ends[place]])

    with ThreadPoolExecutor(threads) as workers:
        found = list(workers.map(one, places, chunksize=1))
    precision, ranks, pairs = (np.array(column, np.float64) for column in zip(*found, strict=True))
    return {
        "map": round(float(precision.mean()), 6),
        "mean_rank": round(float(ranks.sum() / pairs.sum()), 4),
        "concepts": len(places),
        "pairs": int(pairs.sum()),
    }


def _ranks(concepts: Concepts, leading: Array | None, own: int, above: Array) -> tuple[float, int, int]:
    """Return the average precision, the sum of the ranks and the number of one concept's hypernyms."""
    true = np.sort(concepts.scores(np.array([own]), above))
    near: Array | slice = slice(None)
    other = np.ones(len(concepts.names), bool)
    other[above] = other[own] = False
    if leading is not None:
        least, gap = np.zeros((2, len(other)), leading.dtype)
        for column in leading:
            np.subtract(column, column[own], out=gap)
            np.maximum(gap, 0, out=gap)
            least += np.square(gap, out=gap)
        near = np.flatnonzero(least <= true[-1] * (1 + 1e-5))
    energies = concepts.scores(np.array([own]), near)[other[near]]
    before = np.searchsorted(np.sort(energies[energies <= true[-1]]), true, side="right")
    hits = np.searchsorted(true, true, side="right")  # equal energies are taken together
    return float((hits / (hits + before)).mean()), int((1 + before).sum()), len(true)
