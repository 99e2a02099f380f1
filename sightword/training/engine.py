"""The training loop of all systems: batches, checks, curves, validation on dev, the best weights, and the checkpoint.

A :class:`Task` has what differs between the systems. A run that is killed at any moment goes on to the bit.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from tqdm import tqdm

from sightword.compute.devices import keep_memory
from sightword.errors import TrainingError
from sightword.io.files import write_tsv
from sightword.messages import flat
from sightword.settings import Settings
from sightword.training.checkpoint import Checkpoint, Columns, Progress, part, restore, unique

log = logging.getLogger(__name__)

SECONDS = 60.0
"""Seconds between two checkpoints."""
SHARE = 20
"""Writing checkpoints takes at most 1 / SHARE of the run's time."""

Section = TypeVar("Section", bound=Settings)
Tensors = Mapping[str, torch.Tensor]
Losses = Mapping[str, torch.Tensor | float]
Pending = dict[str, list[torch.Tensor | float]]
"""The losses of the batches since the last point of the curves, by name."""


@dataclass(frozen=True)
class Validation:
    """The result of a validation that can be the best one."""

    score: float
    """The highest score is the best one; of several the first."""
    notes: dict[str, float] = field(default_factory=dict)
    """Numbers that belong to the weights of the best score, such as the threshold."""


class Task(ABC, Generic[Section]):
    """A training run of one system, from its initial weights.

    Args:
        settings: the parameters.
        steps: the number of batches in all.
        every: the number of batches from one validation to the next; the last batch is followed by one too.
        modules: the modules whose weights are kept in the checkpoint.
        optimiser: the optimiser of their weights.
        device: the device of the modules.
    """

    section = "train"
    """The section of the parameters, which begins the messages."""
    points = 0
    """Batches whose mean loss is one point of the curves; 0: only validations have points."""
    advice = "Lower the learning rate."
    """The remedy where a loss is not finite."""
    saves = False
    """Whether a checkpoint follows each validation."""

    def __init__(
        self,
        settings: Section,
        *,
        steps: int,
        every: int,
        modules: nn.Module | None = None,
        optimiser: torch.optim.Optimizer | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.settings, self.steps, self.every = settings, steps, every
        self.modules, self.optimiser = modules or nn.Module(), optimiser
        self.device = device or torch.device("cpu")
        self.progress = Progress()
        self.best: dict[str, torch.Tensor] = {}
        """The weights of the best score."""

    @abstractmethod
    def step(self, number: int) -> Losses:
        """Train on batch ``number``, counted from 0, and return the losses by name: nothing waits for the device."""

    @abstractmethod
    def validate(self) -> Validation | None:
        """Measure on dev, and add to the curves; return None where no score chooses weights.

        The engine calls this before the first batch too, and leaves the score out of the choice. Random numbers of the
        training may not be drawn here, so that the weights are the same with and without a validation.
        """

    def descend(self, loss: torch.Tensor, clip: float | None) -> torch.Tensor:
        """Step the optimiser, with gradients of a norm up to ``clip``; return the loss without its gradient."""
        assert self.optimiser is not None
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no type
        loss = loss.detach()
        if clip is not None:  # an infinite norm clips the gradient to nothing: its loss becomes NaN
            loss = loss + 0 * clip_grad_norm_(self.modules.parameters(), clip)
        self.optimiser.step()
        return loss

    def begin(self) -> None:
        """Prepare a run that does not go on from a checkpoint."""

    def weights(self) -> Tensors:
        """Return the weights to keep at the best score; the engine copies them."""
        return {}

    def state(self) -> dict[str, Any]:
        """Return the state besides modules, optimiser and curves: tensors, in nested mappings."""
        return {}

    def restore(self, state: Tensors) -> None:
        """Restore the state that :meth:`state` returned; names of nested mappings are joined by dots."""

    def is_point(self, done: int) -> bool:
        """Return whether the curves of losses have a point after so many batches."""
        return bool(self.points and done % self.points == 0) or self.is_validation(done)

    def is_validation(self, done: int) -> bool:
        """Return whether a validation follows so many batches."""
        return done % self.every == 0 or done == self.steps

    def add_point(self) -> None:
        """Add further curves at a point of the losses."""

    def is_due(self) -> bool:
        """Return whether :meth:`judge` is to be called now."""
        return False

    def judge(self) -> None:
        """Raise the TrainingError of a run that diverges; called before a point, a validation and a checkpoint too."""

    def reason(self, name: str) -> str:
        """Return why a loss is not finite, as the end of a sentence, where that is known."""
        del name
        return ""

    def diverged(self, name: str, first: int) -> TrainingError:
        """Return the error of a number that is not finite since batch ``first``."""
        what = f"the {name} is not a finite number between batch {first} and {self.progress.steps}"
        return TrainingError(what + self.reason(name), todo=self.advice)


def run(
    task: Task[Any],
    checkpoint: Checkpoint | None = None,
    *,
    bar: bool = False,
    show: Callable[[Progress], None] = lambda _: None,
) -> None:
    """Do all batches that are left; then :attr:`Task.progress` has the curves, and :attr:`Task.best` the best weights.

    The curves of dev begin with the untrained model, epoch 0 in Figure 4 of Merkx & Frank (2019), which is never kept.

    Args:
        task: the task.
        checkpoint: the place to save the state in, once a minute and at the end, and to resume from.
        bar: show a progress bar on a terminal.
        show: called with the curves so far after each validation, and when a run with a validation resumes.

    Raises:
        TrainingError: a loss is not finite, or the run diverges.
    """
    keep_memory()
    losses: Pending = {}
    _resume(task, losses, checkpoint)
    now = task.progress
    if not now.steps:
        task.validate()
    if now.curves:
        show(now)
    saved, pause = time.monotonic(), SECONDS
    task.modules.train()
    with tqdm(
        total=task.steps, initial=now.steps, desc=task.section, unit="batch", leave=False,
        disable=None if bar else True,
    ) as shown:  # fmt: skip
        while now.steps < task.steps:
            for name, value in task.step(now.steps).items():
                now.curve("loss", name)  # the order of the columns is that of the first batch
                losses.setdefault(name, []).append(value)
            now.steps += 1
            shown.update()
            point, validation = task.is_point(now.steps), task.is_validation(now.steps)
            save = checkpoint is not None and time.monotonic() - saved >= pause
            if point or validation or save or task.is_due():
                _check(task, losses)
                task.judge()
            if point:
                _add_point(task, losses)
            if validation:
                _validate(task)
            save |= validation and (task.saves or now.steps == task.steps)
            if save and checkpoint is not None:
                begun = time.monotonic()
                checkpoint.save(now, _state(task, losses))
                saved = time.monotonic()
                pause = max(SECONDS, SHARE * (saved - begun)) if SECONDS else 0.0
            if validation:
                show(now)
    task.modules.eval()


def _check(task: Task[Any], losses: Pending) -> None:
    """Raise the error of losses that are not finite; the loss with most of them spoils the others."""
    finite = {name: int(_stacked(values).isfinite().sum()) for name, values in losses.items()}
    if any(finite[name] < len(values) for name, values in losses.items()):
        worst = min(finite, key=finite.__getitem__)
        raise task.diverged("loss" if worst == "loss" else f"{worst} loss", task.progress.steps - len(losses[worst]))


def _add_point(task: Task[Any], losses: Pending) -> None:
    """Add the mean losses since the last point to the curves."""
    for name, values in losses.items():
        task.progress.add("loss", name, float(_stacked(values).double().mean()))
    losses.clear()
    task.add_point()


def _validate(task: Task[Any]) -> None:
    """Validate, and keep the best weights."""
    now, found = task.progress, task.validate()
    task.modules.train()
    if found is not None and found.score > now.best:
        now.best, now.best_step, now.notes = found.score, now.steps, {**now.notes, **found.notes}
        task.best = {name: value.detach().clone() for name, value in task.weights().items()}


def _state(task: Task[Any], losses: Pending) -> dict[str, torch.Tensor]:
    """Return the whole state, random numbers included, to resume to the bit."""
    state: dict[str, Any] = {
        "modules": unique(task.modules.state_dict()),
        "optimiser": task.optimiser.state_dict()["state"] if task.optimiser else {},
        "losses": {name: _stacked(values) for name, values in losses.items()},
        "best": task.best,
        "task": task.state(),
        "random": torch.get_rng_state(),
    }
    if task.device.type == "cuda":
        state["random_cuda"] = torch.cuda.get_rng_state(task.device)
    return flat(state)


def _resume(task: Task[Any], losses: Pending, checkpoint: Checkpoint | None) -> None:
    """Continue where an earlier process was killed."""
    found = checkpoint.load() if checkpoint else None
    if found is None:
        task.begin()
        return
    task.progress, tensors = found
    task.modules.load_state_dict(part(tensors, "modules."), strict=False)  # a tensor that modules share is kept once
    if task.optimiser is not None:
        restore(task.optimiser, part(tensors, "optimiser."))
    losses |= {name: list(values.to(task.device)) for name, values in part(tensors, "losses.").items()}
    task.best = {name: value.to(task.device) for name, value in part(tensors, "best.").items()}
    task.restore(part(tensors, "task."))
    torch.set_rng_state(tensors["random"])
    if "random_cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random_cuda"], task.device)
    log.info("%s: goes on after batch %d of an earlier run", task.section, task.progress.steps)


def _stacked(values: list[torch.Tensor | float]) -> torch.Tensor:
    """Return the losses (N,); numbers of Python in float64."""
    return torch.stack(
        [one if isinstance(one, torch.Tensor) else torch.tensor(one, dtype=torch.float64) for one in values]
    )


def write_curves(folder: Path, progress: Progress) -> None:
    """Write a table for each of :attr:`Progress.curves` into a folder; the column ``batch`` has the batches done."""
    for name, columns in progress.curves.items():
        write_table(folder / f"{name}.tsv", "batch", columns)


def write_table(path: Path, step: str, columns: Columns) -> None:
    """Write curves side by side: a row for each place where one has a point; the others are empty there."""
    values = [dict(curve) for curve in columns.values()]
    places = sorted({place for curve in values for place in curve})
    write_tsv(path, (step, *columns), [(place, *(curve.get(place, "") for curve in values)) for place in places])
