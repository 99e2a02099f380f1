"""What a step trains on: the minibatches of an epoch and their texts, captions without pictures, and controls."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from sightword.features.tables.pairs import Pairs
from sightword.vse.training.settings import TrainSettings

Rows = npt.NDArray[np.int64]
LastBatch = Literal["keep", "drop"]
_PICTURES, _CLUSTERS, _BESIDE = 1, 2, 4
"""Streams of random numbers of a seed; captions with pictures take those from 1 to 3 of a batch."""


def batches(
    pairs: Pairs,
    *,
    size: int,
    bucket: int,
    seed: int,
    epoch: int,
    captions: Literal["all", "one"] = "all",
    last_batch: LastBatch = "keep",
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

    Returns:
        For each batch an int64 array of rows into the captions; every epoch has the same number of batches.
    """
    random = _random(seed, epoch)
    lengths = np.asarray([len(ids) for ids in pairs.ids])
    places = places_of(pairs)
    if captions == "one":
        drawn = random.integers(np.bincount(pairs.image_of_caption))  # (N,), each below its picture's count
        passes = [np.flatnonzero(places == drawn[pairs.image_of_caption])]
    else:
        passes = [np.flatnonzero(places == number) for number in range(int(places.max()) + 1)]
    found: list[Rows] = []
    for own in passes:
        rows = random.permutation(own)
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
            random = _random(self._seed, step, self._stream)
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
        random = _random(self._seed, step, stream)
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
        self._texts = Texts(split, seed=settings.seed, second=True, typing_errors=errors, stream=_BESIDE)

    def rows(self, step: int) -> Rows:
        """Return one caption of each of ``beside_batch`` groups, for batch ``step`` of the run."""
        passed, place = divmod(step, len(self._counts) // self._size)
        groups = _random(self._seed, passed, _BESIDE + 3).permutation(len(self._counts))[place * self._size :][
            : self._size
        ]
        drawn = _random(self._seed, step, _BESIDE + 4).integers(self._counts[groups])
        rows: Rows = self._order[self._starts[groups] + drawn]
        return rows

    def of(self, rows: Rows, step: int) -> list[list[Rows]]:
        """Return the token ids of these captions, and of the other ones of their groups, (B,) each."""
        return self._texts.of(rows, step)


def _random(*entropy: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))
