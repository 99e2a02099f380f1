"""Chooses the held-out part of a text: whole passages, books or blocks, by chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sightword.errors import CorpusError

BLOCK = 1000
"""Sentences of a block."""


def blocks(passages: NDArray[np.int64], sentences: int) -> NDArray[np.int64]:
    """Return the first sentence of each block, int64 (n,): every thousandth sentence of a passage, from its first."""
    sizes = np.diff(passages, append=sentences)
    counts = -(-sizes // BLOCK)
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    starts: NDArray[np.int64] = np.repeat(passages, counts) + within * BLOCK
    return starts


def held_out(starts: NDArray[np.int64], sentences: int, share: float, seed: int, *, by: str) -> NDArray[np.bool_]:
    """Return which groups of consecutive sentences are held out, bool (G,).

    The groups are taken in a random order; each one that fits into the share of the sentences is held out, and if none
    fits, the smallest.

    Args:
        starts: (G,) the first sentence of each group, rising from 0.
        sentences: the number of all sentences.
        share: the most that is held out, as a share of the sentences.
        seed: the seed of the order.
        by: the name of a group, for messages.

    Raises:
        CorpusError: there is one group only.
    """
    if len(starts) < 2:
        what = f"the text has one {by} only, which cannot be held out"
        todo = "Set text.held_out_by to block, or mark breaks by empty lines." if by != "block" else "Take more text."
        raise CorpusError(what, expected=f"two {by}s or more", todo=todo)
    sizes = np.diff(starts, append=sentences)
    room, least = int(share * sentences), int(sizes.min())
    order = np.random.default_rng(seed).permutation(len(sizes))
    found = np.zeros(len(sizes), bool)
    for group, size in zip(order.tolist(), sizes[order].tolist(), strict=True):
        if room < least:
            break
        if size <= room:
            found[group] = True
            room -= size
    if not found.any():
        found[int(sizes.argmin())] = True
    return found
