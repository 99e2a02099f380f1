"""What a step trains on: the minibatches of an epoch and their texts, captions without pictures, and controls."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sightword.captions.units import runs
from sightword.captions.vocabulary import Vocabulary
from sightword.features.tables.pairs import Pairs
from sightword.vse.training.settings import TrainSettings

Rows = npt.NDArray[np.int64]
_PICTURES, _CLUSTERS, _AUXILIARY, _SPANS = 1, 2, 4, 8
"""Streams of random numbers of a seed; captions with pictures take 1 to 3 of a batch, captions without pictures
4 to 8, and runs of words 10 and 11."""
SPAN = 4
"""Words of the longest run to which a caption is cut."""


def batches(pairs: Pairs, settings: TrainSettings, epoch: int) -> list[Rows]:
    """Return the rows of captions of each minibatch of an epoch, counted from 0.

    Pass i takes caption i of every picture that has so many, so no picture is in a batch twice. A pass is cut into
    batches of nearly equal size, of two captions at least; where a batch has two at most, an odd pass has one of three.
    A caption that is alone in its pass is left out: it has no mismatch to learn from. Every epoch has the same number
    of batches. Seed and epoch determine the order on every machine.

    Args:
        pairs: the training split.
        settings: ``batch``, ``seed``, ``captions_per_epoch``, ``last_batch``.
        epoch: the epoch.
    """
    random, size, rows_of_batches = _random(settings.seed, epoch), settings.batch, []
    places = places_of(pairs)
    if settings.captions_per_epoch == "one":
        drawn = random.integers(np.bincount(pairs.image_of_caption))  # (N,), each below its picture's count
        passes = [np.flatnonzero(places == drawn[pairs.image_of_caption])]
    else:
        passes = [np.flatnonzero(places == number) for number in range(int(places.max()) + 1)]
    for captions in passes:
        rows = random.permutation(captions)
        whole = settings.last_batch == "drop"
        count = len(rows) // size if whole else min(-(-len(rows) // size), len(rows) // 2)
        if count:
            rows_of_batches += np.array_split(rows[: count * size] if whole else rows, count)
    return rows_of_batches


def places_of(pairs: Pairs) -> Rows:
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
        settings: ``seed``, ``typing_errors`` and ``spans``.
        vocabulary: the tokens of the captions' ids.
        second: with each caption comes another one of its picture, or the same one if there is no other.
        stream: the first of the three streams of random numbers of a batch.
    """

    def __init__(
        self, split: Pairs, settings: TrainSettings, vocabulary: Vocabulary, *, second: bool, stream: int = 1
    ) -> None:
        self._ids, self._seed, self._errors = split.ids, settings.seed, settings.typing_errors
        self._spans, self._unit, self._tokens = settings.spans, vocabulary.unit, vocabulary.names
        self._second, self._stream = second, stream
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

    def _cut(self, rows: Rows, step: int, stream: int) -> list[Rows]:
        texts = [self._ids[row] for row in rows]
        drawn = _random(self._seed, step, _SPANS + stream).random((len(rows), 3)) if self._spans else ()
        for place, (cut, words, run) in zip(np.argsort(rows), drawn, strict=False):
            if cut < self._spans:
                texts[place] = self._span(texts[place], words, run)
        return texts

    def _span(self, ids: Rows, words: float, run: float) -> Rows:
        """Return the ids of a run of words: its number of words is drawn first, among those that have runs."""
        known = [each for each in runs([self._tokens[one] for one in ids], self._unit, SPAN) if each]
        if not known:
            return ids
        of_words = known[int(words * len(known))]
        start, end = of_words[int(run * len(of_words))]
        return ids[start:end]

    def _typed(self, rows: Rows, step: int, stream: int) -> list[Rows]:
        texts = self._cut(rows, step, stream)
        if self._errors:
            random = _random(self._seed, step, stream)
            for place in np.argsort(rows):
                texts[place] = mistyped(texts[place], self._errors, random)
        return texts


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


class Auxiliary:
    """Captions without pictures, in groups of paraphrases; each caption comes with a second caption of its group.

    A run passes through all groups, in another order each time; what is left of a pass is less than a batch, and is
    left out.

    Args:
        split: the captions; a group stands for a picture.
        settings: the parameters; the split has ``beside_batch`` groups at least.
        vocabulary: the tokens of the captions' ids.
    """

    def __init__(self, split: Pairs, settings: TrainSettings, vocabulary: Vocabulary) -> None:
        self._size, self._seed = settings.beside_batch, settings.seed
        self._counts = np.bincount(split.image_of_caption)
        self._order = np.lexsort((places_of(split), split.image_of_caption))  # the captions, group after group
        self._starts = np.cumsum(self._counts) - self._counts
        whole = settings.model_copy(update={"spans": 0.0})
        self._texts = Texts(split, whole, vocabulary, second=True, stream=_AUXILIARY)

    def rows(self, step: int) -> Rows:
        """Return one caption of each of ``beside_batch`` groups, for batch ``step`` of the run."""
        passed, place = divmod(step, len(self._counts) // self._size)
        order = _random(self._seed, passed, _AUXILIARY + 3).permutation(len(self._counts))
        groups = order[place * self._size :][: self._size]
        drawn = _random(self._seed, step, _AUXILIARY + 4).integers(self._counts[groups])
        rows: Rows = self._order[self._starts[groups] + drawn]
        return rows

    def of(self, step: int) -> list[list[Rows]]:
        """Return the token ids of the captions of a batch, and of the other ones of their groups, (B,) each."""
        return self._texts.of(self.rows(step), step)


def _random(*entropy: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))
