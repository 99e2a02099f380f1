"""The training run on ordered text: loss, and validation on held-out text."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from sightword.compute.optimisers import Adam
from sightword.errors import TrainingError
from sightword.grounded.skipthought.batches import batches, examples
from sightword.grounded.skipthought.network import Neighbours, build
from sightword.grounded.skipthought.settings import SkipthoughtSettings
from sightword.text.storage import HELD_OUT, Text
from sightword.training.checkpoint import Checkpoint
from sightword.training.engine import Task, run

log = logging.getLogger(__name__)

RANGE = 700.0
"""The largest loss of a word; exp() of larger ones overflows."""


def train(
    settings: SkipthoughtSettings,
    text: Text,
    *,
    device: torch.device,
    checkpoint: Checkpoint | None = None,
    progress: bool = False,
) -> TextTask:
    """Train on ordered text; the last weights are kept.

    Args:
        settings: the parameters.
        text: the text.
        device: the device to work on.
        checkpoint: the place to save the state in, and to resume from.
        progress: show a progress bar on a terminal.

    Returns:
        The finished run: network and curves.

    Raises:
        TrainingError: the text has fewer triples than a batch, or the loss is not finite.
    """
    task = TextTask(settings, text, device)
    if settings.objective != "none":
        run(task, checkpoint, bar=progress)
        task.check_learning()
    return task


class TextTask(Task[SkipthoughtSettings]):
    """A training run on text in progress."""

    section = "skipthought"
    points = 50
    advice = "Lower skipthought.rate, or look at skipthought.clip."

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
        self.order: Iterator[NDArray[np.int64]] | None = None
        held_out = examples(text, settings, HELD_OUT)
        spread = np.linspace(0, len(held_out), min(settings.validation, len(held_out)), endpoint=False)
        self.held_out = held_out[spread.astype(np.int64)]
        if not len(held_out):
            log.warning("skipthought: the held-out text has no triples, so there is no validation")

    @property
    def held_out_loss(self) -> float | None:
        """The last loss on held-out text, nats a predicted word or a choice of ``infonce``; None without such text."""
        return self.progress.last("held_out", "loss") if self.progress.curves["held_out"]["loss"] else None

    @property
    def perplexity(self) -> float | None:
        """The last perplexity on held-out text; None without held-out text."""
        return None if self.held_out_loss is None else math.exp(min(self.held_out_loss, RANGE))

    def step(self, number: int) -> dict[str, torch.Tensor]:
        """Train on batch ``number``; numbers rise by 1 from call to call."""
        if self.order is None:
            self.order = batches(self.text, self.settings, seed=self.settings.seed, start=number)
        return {"loss": self.learn(next(self.order), number)}

    def learn(self, examples: NDArray[np.int64], number: int) -> torch.Tensor:
        """Train on the examples of batch ``number``, and return the loss, a scalar on the device."""
        settings = self.settings
        self.adam.param_groups[0]["lr"] = settings.rate * settings.decay ** (number / settings.decay_steps)
        return self.descend(self.network.loss(self.text, examples), settings.clip)

    def validate(self) -> None:
        """Add the loss on held-out text to its curve.

        Raises:
            TrainingError: the loss is not finite.
        """
        if not len(self.held_out):
            return
        size, done = self.settings.batch, self.progress.steps
        self.network.eval()
        with torch.no_grad():
            found = [
                self.network.total(self.text, self.held_out[start : start + size])
                for start in range(0, len(self.held_out), size)
            ]
        mean = sum(float(loss) for loss, _ in found) / sum(count for _, count in found)
        if not math.isfinite(mean):
            what = f"the loss on held-out text is not a finite number at batch {done}"
            raise TrainingError(what, todo="Lower skipthought.rate.")
        self.progress.add("held_out", "loss", mean)
        log.info("skipthought: batch %d, held-out loss %.4f", done, mean)

    def check_learning(self) -> None:
        """Warn where the last loss on held-out text is not below that of a guess, to which all choices are equal."""
        choices = self.settings.batch if isinstance(self.network, Neighbours) else len(self.text.vocabulary)
        if self.held_out_loss is not None and self.held_out_loss >= math.log(choices):
            log.warning(
                "skipthought: the held-out loss is %.4g and that of a guess %.4g: the encoder learned nothing. "
                "Look at skipthought.rate and skipthought.steps",
                *(self.held_out_loss, math.log(choices)),
            )
