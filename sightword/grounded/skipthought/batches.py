"""The order of the triples or pairs of a training run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sightword.errors import TrainingError
from sightword.grounded.skipthought.settings import SkipthoughtSettings
from sightword.text.storage import TRAINING, Text

Numbers = NDArray[np.int64]


def examples(text: Text, settings: SkipthoughtSettings, split: int = TRAINING) -> Numbers:
    """Return the middle sentences of all triples of a split, or the first sentences of all pairs for ``infonce``.

    Raises:
        TrainingError: the training split has fewer than a batch.
    """
    pairs = settings.objective == "infonce"
    found = text.pairs(split) if pairs else text.triples(split)
    if split == TRAINING and len(found) < settings.batch:
        kind = "pairs" if pairs else "triples"
        raise TrainingError(
            f"the text has {len(found)} {kind} of successive sentences, fewer than one batch",
            expected=f"at least {settings.batch}, as skipthought.batch says",
            todo="Take more text, a larger text.max_tokens, or a smaller skipthought.batch.",
        )
    return found


def batches(text: Text, settings: SkipthoughtSettings, *, seed: int, start: int = 0) -> Iterator[Numbers]:
    """Yield batches without end, epoch after epoch: the numbers that :meth:`loss` of the network takes, (batch,).

    Args:
        text: the text.
        settings: objective, batch and bucket.
        seed: determines the order on every machine.
        start: batches of the order to pass over.

    Raises:
        TrainingError: the text has fewer examples than a batch.
    """
    found, size = examples(text, settings), settings.batch
    pool = settings.bucket * size
    each = len(found) // size  # batches in an epoch
    epoch, first = divmod(start, each)
    while True:
        order = found[_random(seed, epoch).permutation(len(found))[: each * size]]
        for place in range(first // settings.bucket, -(-each // settings.bucket)):
            numbers = order[place * pool : (place + 1) * pool]
            if settings.bucket > 1:
                numbers = numbers[np.argsort(_length(text, numbers, settings), kind="stable")]
            count = len(numbers) // size
            turns = _random(seed, epoch, place).permutation(count) if settings.bucket > 1 else np.arange(count)
            for turn in turns[max(first - place * settings.bucket, 0) :]:
                yield numbers[turn * size : (turn + 1) * size]
        epoch, first = epoch + 1, 0


def _length(text: Text, numbers: Numbers, settings: SkipthoughtSettings) -> Numbers:
    """Return the number of words of each triple or pair: its sentences are successive."""
    before = 0 if settings.objective == "infonce" else 1
    return np.asarray(text.offsets[numbers + 2] - text.offsets[numbers - before])


def _random(*seeds: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seeds)))
