"""The training run on ordered text: the order of its batches, loss, and validation on held-out text."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sightword.compute.devices import Adam
from sightword.errors import TrainingError
from sightword.grounded.skipthought.network import Neighbours, build
from sightword.grounded.skipthought.settings import SkipthoughtSettings
from sightword.text.storage import HELD_OUT, TRAINING, Text
from sightword.training.checkpoint import Checkpoint
from sightword.training.engine import Task, run

log = logging.getLogger(__name__)

Numbers = NDArray[np.int64]
DECAY, DECAY_STEPS = 0.5, 400_000
"""The rate at step t is ``rate * DECAY ** (t / DECAY_STEPS)``."""
CLIP = 5.0
"""Largest norm of the gradient of all weights."""
RANGE = 700.0
"""The largest loss of a word; exp() of larger ones overflows."""


def examples(text: Text, settings: SkipthoughtSettings, split: int = TRAINING) -> Numbers:
    """Return the middle sentences of all triples of a split, or the first sentences of all pairs for ``infonce``;
    TrainingError if the training split has fewer than a batch.
    """
    pairs = settings.objective == "infonce"
    starts = text.pairs(split) if pairs else text.triples(split)
    if split == TRAINING and len(starts) < settings.batch:
        kind = "pairs" if pairs else "triples"
        raise TrainingError(
            f"the text has {len(starts)} {kind} of successive sentences, fewer than one batch",
            expected=f"at least {settings.batch}, as skipthought.batch says",
            todo="Take more text, a larger text.max_tokens, or a smaller skipthought.batch.",
        )
    return starts


def batches(text: Text, settings: SkipthoughtSettings, *, seed: int, start: int = 0) -> Iterator[Numbers]:
    """Yield batches without end, epoch after epoch: the (batch,) numbers that :meth:`loss` of the network takes.

    The seed determines the order on every machine; ``start`` batches of it are passed over.
    """
    rows, size = examples(text, settings), settings.batch
    pool = settings.bucket * size
    each = len(rows) // size  # batches in an epoch
    epoch, first = divmod(start, each)
    while True:
        order = rows[_random(seed, epoch).permutation(len(rows))[: each * size]]
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


def train(
    settings: SkipthoughtSettings, text: Text, *, device: torch.device, checkpoint: Checkpoint | None = None,
    progress: bool = False,
) -> TextTask:  # fmt: skip
    """Train on ordered text, and return the finished run: network and curves; the last weights are kept.

    Raises:
        TrainingError: the text has fewer triples than a batch, or the loss is not finite.
    """
    task = TextTask(settings, text, device)
    run(task, checkpoint, bar=progress)
    task.check_learning()
    return task


class TextTask(Task[SkipthoughtSettings]):
    """A training run on text in progress."""

    section = "skipthought"
    points = 50
    advice = "Lower skipthought.rate."

    def __init__(self, settings: SkipthoughtSettings, text: Text, device: torch.device) -> None:
        self.text = text
        torch.manual_seed(settings.seed)
        self.network = build(settings, len(text.vocabulary)).to(device)
        self.adam = Adam(self.network.parameters(), lr=settings.rate, fused=True)
        super().__init__(
            settings, steps=settings.steps, every=settings.validate_every, modules=self.network, optimiser=self.adam,
            device=device,
        )  # fmt: skip
        self.progress.curves = {"loss": {"loss": []}, "held_out": {"loss": []}}
        self.order: Iterator[Numbers] | None = None
        held_out = examples(text, settings, HELD_OUT)
        spread = np.linspace(0, len(held_out), min(settings.validation, len(held_out)), endpoint=False)
        self.held_out = held_out[spread.astype(np.int64)]
        if not len(held_out):
            log.warning("skipthought: the held-out text has no triples, so there is no validation")

    @property
    def held_out_loss(self) -> float | None:
        """The last loss on held-out text in nats a predicted word or choice of ``infonce``; None without such text."""
        return self.progress.last("held_out", "loss") if self.progress.curves["held_out"]["loss"] else None

    @property
    def perplexity(self) -> float | None:
        """The last perplexity on held-out text; None without held-out text."""
        return None if self.held_out_loss is None else math.exp(min(self.held_out_loss, RANGE))

    def numbers(self, examples: int) -> dict[str, Any]:
        """Return the numbers of the finished run on so many triples or pairs, for ``metrics/grounded``."""
        now, loss = self.progress, self.held_out_loss
        return {
            "tokens": len(self.text.vocabulary),
            "parameters": sum(weights.numel() for weights in self.network.parameters()),
            "steps": now.steps,
            "epochs": round(now.steps * self.settings.batch / examples, 4),
            "loss": round(now.last("loss", "loss"), 6),
            "held_out_loss": None if loss is None else round(loss, 6),
            "held_out_perplexity": None if self.perplexity is None else round(self.perplexity, 4),
        }

    def step(self, number: int) -> dict[str, torch.Tensor]:
        """Train on batch ``number``; numbers rise by 1 from call to call."""
        if self.order is None:
            self.order = batches(self.text, self.settings, seed=self.settings.seed, start=number)
        return {"loss": self.learn(next(self.order), number)}

    def learn(self, examples: Numbers, number: int) -> torch.Tensor:
        """Train on the examples of batch ``number``, and return the loss, a scalar on the device."""
        settings = self.settings
        self.adam.param_groups[0]["lr"] = settings.rate * DECAY ** (number / DECAY_STEPS)
        return self.descend(self.network.loss(self.text, examples), CLIP)

    def validate(self) -> None:
        """Add the loss on held-out text to its curve; TrainingError if it is not finite."""
        if not len(self.held_out):
            return
        size, done = self.settings.batch, self.progress.steps
        self.network.eval()
        with torch.no_grad():
            losses = [
                self.network.total(self.text, self.held_out[start : start + size])
                for start in range(0, len(self.held_out), size)
            ]
        mean = sum(float(loss) for loss, _ in losses) / sum(count for _, count in losses)
        if not math.isfinite(mean):
            raise TrainingError(f"the loss on held-out text is not a finite number at batch {done}", todo=self.advice)
        self.progress.add("held_out", "loss", mean)
        log.info("skipthought: batch %d, held-out loss %.4f", done, mean)

    def check_learning(self) -> None:
        """Warn if the last held-out loss is not below the loss of uniform guessing."""
        size, held_out = self.settings.batch, len(self.held_out)
        last = held_out % size or size  # of a batch of neighbours the other sentences are the choices
        guess = ((held_out - last) * math.log(size) + last * math.log(last)) / max(1, held_out)
        if not isinstance(self.network, Neighbours):
            guess = math.log(len(self.text.vocabulary))
        if self.held_out_loss is not None and self.held_out_loss >= guess:
            log.warning(
                "skipthought: the held-out loss is %.4g and that of a guess %.4g: the encoder learned nothing. "
                "Look at skipthought.rate and skipthought.steps",
                *(self.held_out_loss, guess),
            )
