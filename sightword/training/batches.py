"""The order in which captions are seen."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from sightword.pairs import Pairs

Rows = npt.NDArray[np.int64]
PerEpoch = Literal["all", "one"]
LastBatch = Literal["keep", "drop"]
Shuffle = Literal["pass", "epoch"]


def batches(
    pairs: Pairs,
    *,
    size: int,
    bucket: int,
    seed: int,
    epoch: int,
    captions: PerEpoch = "all",
    last_batch: LastBatch = "keep",
    shuffle: Shuffle = "pass",
) -> list[Rows]:
    """Rows of captions for each minibatch of an epoch.

    Pass i takes caption i of every picture that has so many (five passes on Flickr8k), so no picture is twice in a
    batch. A pass is cut into batches of nearly equal size, of two captions at least. No caption is left out, except
    one that is alone in its pass, such as the seventh caption of a single picture: it has no mismatch to learn from.
    With ``captions="one"`` there is one pass, over one caption of each picture, drawn anew each epoch
    (order-embeddings).

    Args:
        pairs: the training split.
        size: the most captions in a batch, at least 2; where it is 2 and a pass has an odd number of captions, one
            batch has 3.
        bucket: batches of a pass that are sorted by length together, against padding.
        seed: with the epoch it determines the order, on every machine.
        epoch: counted from 0.
        captions: of each picture, in an epoch.
        last_batch: ``drop``: batches have exactly ``size`` captions, and the rest of a pass is left out.
        shuffle: ``epoch``: the pictures are shuffled once, and all passes take them in that order.

    Returns:
        One int64 array of rows into the captions for each batch.
    """
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch])))
    lengths = np.asarray([len(ids) for ids in pairs.ids])
    shared = random.permutation(len(pairs.image_ids)) if shuffle == "epoch" else None
    found: list[Rows] = []
    for own in _drawn(pairs, random) if captions == "one" else _passes(pairs):
        rows = random.permutation(own) if shared is None else own[np.argsort(shared[pairs.image_of_caption[own]])]
        count = _count(len(rows), size, last_batch)
        if not count:
            continue
        cut = np.array_split(rows[: count * size] if last_batch == "drop" else rows, count)
        if bucket > 1:
            pools = np.array_split(np.arange(count), -(-count // bucket))
            cut = [batch for pool in pools for batch in _sorted([cut[place] for place in pool], lengths)]
            cut = [cut[place] for place in random.permutation(count)]
        found += cut
    return found


def per_epoch(pairs: Pairs, size: int, captions: PerEpoch = "all", last_batch: LastBatch = "keep") -> int:
    """How many batches an epoch has."""
    counts = np.array([len(pairs.image_ids)]) if captions == "one" else np.bincount(_order_of(pairs))
    return sum(_count(int(count), size, last_batch) for count in counts)


def _count(captions: int, size: int, last_batch: LastBatch) -> int:
    """Return the number of batches of a pass: whole ones only, or as few as ``size`` allows, each of two or more."""
    return captions // size if last_batch == "drop" else min(-(-captions // size), captions // 2)


def _sorted(pool: list[Rows], lengths: npt.NDArray[np.int64]) -> list[Rows]:
    """Sort the captions of some batches by length, and cut them into batches of the same sizes."""
    rows = np.concatenate(pool)
    rows = rows[np.argsort(lengths[rows], kind="stable")]
    return np.split(rows, np.cumsum([len(batch) for batch in pool])[:-1])


def _passes(pairs: Pairs) -> list[Rows]:
    """The first caption of every picture, the second of every one that has so many, and so on."""
    order = _order_of(pairs)
    return [np.flatnonzero(order == number) for number in range(int(order.max()) + 1)]


def _drawn(pairs: Pairs, random: np.random.Generator) -> list[Rows]:
    """One caption of every picture, by chance."""
    counts = np.bincount(pairs.image_of_caption)
    wanted = random.integers(counts)  # (N,), each below its count
    return [np.flatnonzero(_order_of(pairs) == wanted[pairs.image_of_caption])]


def _order_of(pairs: Pairs) -> npt.NDArray[np.int64]:
    """Each caption's place among its picture's captions: 0, 1, .. without gaps, whatever their numbers are."""
    order = np.zeros(len(pairs.image_of_caption), np.int64)
    by_picture = np.lexsort((pairs.numbers, pairs.image_of_caption))
    sorted_pictures = pairs.image_of_caption[by_picture]
    starts = np.flatnonzero(np.r_[True, sorted_pictures[1:] != sorted_pictures[:-1]])
    counts = np.diff(np.r_[starts, len(sorted_pictures)])
    order[by_picture] = np.arange(len(sorted_pictures)) - np.repeat(starts, counts)
    return order
