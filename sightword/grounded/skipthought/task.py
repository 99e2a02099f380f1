"""The training run on ordered text: loss, validation on held-out text, and the checkpoint."""

from __future__ import annotations

import dataclasses
import logging
import math
import time
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.utils import clip_grad_norm_
from tqdm import tqdm

from sightword.errors import TrainingError
from sightword.grounded.skipthought.batches import batches, examples
from sightword.grounded.skipthought.network import Neighbours, SkipThought, build
from sightword.grounded.skipthought.settings import SkipthoughtSettings
from sightword.messages import flat
from sightword.text.storage import HELD_OUT, Text
from sightword.training.checkpoint import SECONDS, Checkpoint, part, restore
from sightword.training.checkpoint import Progress as Saved

log = logging.getLogger(__name__)

POINTS = 50
"""Batches whose mean loss is one point of the curve."""
SHARE = 20
"""A checkpoint follows the one before after at least so many times the seconds that it took to write."""
RANGE = 700.0
"""The largest loss of a word whose perplexity is a number."""


@dataclass
class Progress:
    """The progress of a training run."""

    steps: int = 0
    """Number of batches done."""
    loss: list[tuple[int, float]] = field(default_factory=list)
    """(batches done, mean loss of a batch since the point before)."""
    held_out: list[tuple[int, float]] = field(default_factory=list)
    """(batches done, loss on held-out text: nats a predicted word, or a choice of ``infonce``)."""

    @property
    def perplexity(self) -> float | None:
        """The last perplexity on held-out text; None without held-out text."""
        return math.exp(min(self.held_out[-1][1], RANGE)) if self.held_out else None


def train(
    settings: SkipthoughtSettings,
    text: Text,
    *,
    device: torch.device,
    checkpoint: Checkpoint | None = None,
    progress: bool = False,
) -> tuple[SkipThought | Neighbours, Progress]:
    """Train on ordered text; the last weights are kept.

    Args:
        settings: the parameters.
        text: the text.
        device: the device to work on.
        checkpoint: the place to save the state in, and to resume from.
        progress: show a progress bar on a terminal.

    Returns:
        The network, and the curves.

    Raises:
        TrainingError: the text has fewer triples than a batch, or the loss is not finite.
    """
    run = Run(settings, text, device, checkpoint)
    if settings.objective != "none":
        run.resume()
        run.go(bar=progress)
        run.check_learning()
    return run.network, run.progress


class Run:
    """A training run in progress: everything that changes during the run."""

    def __init__(
        self, settings: SkipthoughtSettings, text: Text, device: torch.device, checkpoint: Checkpoint | None
    ) -> None:
        self.settings, self.text, self.device, self.checkpoint = settings, text, device, checkpoint
        torch.manual_seed(settings.seed)
        self.network = build(settings, len(text.vocabulary)).to(device)
        self.weights = list(self.network.parameters())
        self.optimiser = torch.optim.Adam(self.weights, lr=settings.rate, fused=True)
        self.progress = Progress()
        self.losses: list[torch.Tensor] = []  # of the batches since the last point of the curve
        held_out = examples(text, settings, HELD_OUT)
        spread = np.linspace(0, len(held_out), min(settings.validation, len(held_out)), endpoint=False)
        self.held_out = held_out[spread.astype(np.int64)]
        if not len(held_out):
            log.warning("skipthought: the held-out text has no triples, so there is no validation")

    def go(self, *, bar: bool) -> None:
        """Train on the remaining batches."""
        settings, now = self.settings, self.progress
        order = batches(self.text, settings, seed=settings.seed, start=now.steps)
        self.network.train()
        saved, pause = time.monotonic(), SECONDS
        steps = tqdm(
            range(now.steps, settings.steps), desc="skipthought", unit="batch", initial=now.steps,
            total=settings.steps, leave=False, disable=None if bar else True,
        )  # fmt: skip
        for _ in steps:
            self.losses.append(self.step(next(order)))
            now.steps += 1
            validate = now.steps % settings.validate_every == 0 or now.steps == settings.steps
            save = self.checkpoint is not None and time.monotonic() - saved >= pause
            if validate or save or now.steps % POINTS == 0:
                self.check_losses()
            if validate or now.steps % POINTS == 0:
                self.add_point()
            if validate and len(self.held_out):
                self.validate()
                steps.set_postfix(held_out=f"{now.held_out[-1][1]:.3f}")
            if save:
                begun = time.monotonic()
                self.save()
                saved = time.monotonic()
                pause = max(SECONDS, SHARE * (saved - begun)) if SECONDS else 0.0

    def step(self, numbers: NDArray[np.int64]) -> torch.Tensor:
        """Train on one batch, and return its loss, a scalar on the device."""
        settings = self.settings
        self.optimiser.param_groups[0]["lr"] = settings.rate * settings.decay ** (
            self.progress.steps / settings.decay_steps
        )
        loss = self.network.loss(self.text, numbers)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no type
        if settings.clip is not None:
            clip_grad_norm_(self.weights, settings.clip)
        self.optimiser.step()
        return loss.detach()

    def check_losses(self) -> None:
        """Check the losses since the last point of the curve, before anything is made of the weights.

        Raises:
            TrainingError: a loss is not finite.
        """
        if self.losses and not bool(torch.stack(self.losses).isfinite().all()):
            raise TrainingError(
                f"the loss is not a finite number between batch {self.progress.steps - len(self.losses)} "
                f"and {self.progress.steps}",
                todo="Lower skipthought.rate, or look at skipthought.clip.",
            )

    def add_point(self) -> None:
        """Add the mean loss since the last point to the curve."""
        if self.losses:
            self.progress.loss.append((self.progress.steps, float(torch.stack(self.losses).double().mean())))
            self.losses = []

    def validate(self) -> None:
        """Add the loss on held-out text to its curve.

        Raises:
            TrainingError: the loss is not finite.
        """
        now, size = self.progress, self.settings.batch
        self.network.eval()
        with torch.no_grad():
            found = [
                self.network.total(self.text, self.held_out[start : start + size])
                for start in range(0, len(self.held_out), size)
            ]
        self.network.train()
        mean = sum(float(loss) for loss, _ in found) / sum(count for _, count in found)
        if not math.isfinite(mean):
            raise TrainingError(
                f"the loss on held-out text is not a finite number at batch {now.steps}",
                todo="Lower skipthought.rate.",
            )
        now.held_out.append((now.steps, mean))
        log.info("skipthought: batch %d, held-out loss %.4f", now.steps, mean)

    def check_learning(self) -> None:
        """Warn where the last loss on held-out text is not below that of a guess, to which all choices are equal."""
        choices = self.settings.batch if isinstance(self.network, Neighbours) else len(self.text.vocabulary)
        held_out = self.progress.held_out
        if held_out and held_out[-1][1] >= math.log(choices):
            log.warning(
                "skipthought: the held-out loss is %.4g and that of a guess %.4g: the encoder learned nothing. "
                "Look at skipthought.rate and skipthought.steps",
                *(held_out[-1][1], math.log(choices)),
            )

    def save(self) -> None:
        """Write a checkpoint of the whole state, to resume to the bit."""
        assert self.checkpoint is not None
        state = {
            "network": self.network.state_dict(),
            "optimiser": self.optimiser.state_dict()["state"],
            "losses": dict(enumerate(self.losses)),
        }
        now = self.progress
        self.checkpoint.save(Saved(0, now.steps, {"progress": [dataclasses.asdict(now)]}), flat(state))

    def resume(self) -> None:
        """Continue where an earlier process was killed."""
        found = self.checkpoint.load() if self.checkpoint else None
        if found is None:
            return
        saved, tensors = found

        self.progress = now = Progress(**saved.history["progress"][0])
        for curve in (now.loss, now.held_out):
            curve[:] = [(int(done), value) for done, value in curve]
        self.network.load_state_dict(part(tensors, "network."))
        restore(self.optimiser, part(tensors, "optimiser."))
        losses = part(tensors, "losses.")
        self.losses = [losses[str(number)].to(self.device) for number in range(len(losses))]
        log.info("skipthought: goes on after batch %d of an earlier run", now.steps)
