"""The minibatches of an epoch, and control conditions: training with shuffled pictures or shuffled captions."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from sightword.features.tables.pairs import Pairs
from sightword.vse.training.settings import TrainSettings

Rows = npt.NDArray[np.int64]
LastBatch = Literal["keep", "drop"]
_PICTURES, _CLUSTERS = 1, 2
"""Streams of random numbers of a seed."""


def batches(
    pairs: Pairs,
    *,
    size: int,
    bucket: int,
    seed: int,
    epoch: int,
    captions: Literal["all", "one"] = "all",
    last_batch: LastBatch = "keep",
    shuffle: Literal["pass", "epoch"] = "pass",
) -> list[Rows]:
    """Return the rows of captions of each minibatch of an epoch.

    Pass i takes caption i of every picture that has so many, so no picture is in a batch twice. A pass is cut into
    batches of nearly equal size, of two captions at least. A caption that is alone in its pass is left out: it has no
    mismatch to learn from.

    Args:
        pairs: the training split.
        size: largest number of captions in a batch, at least 2; with 2 and an odd pass, one batch has 3.
        bucket: number of batches of a pass that are sorted by length together, to save padding.
        seed: with the epoch, counted from 0, it determines the order on every machine.
        epoch: the epoch.
        captions: ``all``, or ``one``: one pass, over a random caption of each picture (order-embeddings).
        last_batch: ``drop``: batches have exactly ``size`` captions, and the rest of a pass is left out.
        shuffle: ``epoch``: the pictures are shuffled once, and all passes take them in that order.

    Returns:
        For each batch an int64 array of rows into the captions; every epoch has the same number of batches.
    """
    random = _random(seed, epoch)
    lengths = np.asarray([len(ids) for ids in pairs.ids])
    shared = random.permutation(len(pairs.image_ids)) if shuffle == "epoch" else None
    places = places_of(pairs)
    if captions == "one":
        drawn = random.integers(np.bincount(pairs.image_of_caption))  # (N,), each below its picture's count
        passes = [np.flatnonzero(places == drawn[pairs.image_of_caption])]
    else:
        passes = [np.flatnonzero(places == number) for number in range(int(places.max()) + 1)]
    found: list[Rows] = []
    for own in passes:
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


def _count(captions: int, size: int, last_batch: LastBatch) -> int:
    """Return the number of batches of a pass: whole ones only, or as few as ``size`` allows, each of two or more."""
    return captions // size if last_batch == "drop" else min(-(-captions // size), captions // 2)


def _sorted(pool: list[Rows], lengths: npt.NDArray[np.int64]) -> list[Rows]:
    """Sort the captions of some batches by length, and cut them into batches of the same sizes."""
    rows = np.concatenate(pool)
    rows = rows[np.argsort(lengths[rows], kind="stable")]
    return np.split(rows, np.cumsum([len(batch) for batch in pool])[:-1])


def places_of(pairs: Pairs) -> npt.NDArray[np.int64]:
    """Return each caption's place among its picture's captions, by number: 0, 1, .. without gaps."""
    order = np.lexsort((pairs.numbers, pairs.image_of_caption))
    counts = np.bincount(pairs.image_of_caption)
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    return places


def controlled(training: Pairs, settings: TrainSettings) -> Pairs:
    """Return the training split with shuffled pictures or clusters, where the settings have these controls.

    The seed of the settings determines both orders. Each picture keeps its number of captions.
    """
    features, owners = training.features, training.image_of_caption
    if settings.pictures == "shuffled":
        features = features[_random(settings.seed, 0, 0, _PICTURES).permutation(len(features))]
    if settings.clusters == "shuffled":
        owners = _random(settings.seed, 0, 0, _CLUSTERS).permutation(owners)
    return replace(training, features=features, image_of_caption=owners)


def _random(*entropy: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))
