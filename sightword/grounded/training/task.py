"""The training run of a scenario: batches of pictures and of text, losses, curves, and the checkpoint."""

from __future__ import annotations

import dataclasses
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from tqdm import tqdm

from sightword.compute.devices import move
from sightword.errors import TrainingError
from sightword.grounded.training.batches import Batch, Described, batch
from sightword.grounded.training.network import Network, Seen
from sightword.grounded.training.settings import Scenario
from sightword.messages import flat
from sightword.training.checkpoint import SECONDS, Checkpoint, part, restore
from sightword.training.checkpoint import Progress as Saved

log = logging.getLogger(__name__)

POINTS = 20
"""Batches whose mean loss is one point of the curves."""
DEV_BATCHES = 32
"""The most batches of dev that a measurement reads."""


@dataclass(frozen=True)
class Extra:
    """A loss besides those of pictures and captions, such as the text's."""

    weight: float
    loss: Callable[[int, Batch], torch.Tensor]
    """Maps the number of a batch, and the pictures' batch, to a scalar before weighting."""
    grounded: bool = False
    """Whether the loss is of the grounded side."""


@dataclass
class Progress:
    """The progress of a training run."""

    steps: int = 0
    """Number of batches done."""
    loss: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """For each part of the loss (batches done, mean loss of a batch since the point before), before weighting."""
    dev: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """For each part (batches done, mean loss of dev's batches)."""
    norms: list[tuple[int, float, float]] = field(default_factory=list)
    """(batches done, norm of the encoder's gradient by the text, norm by the grounded side), weighted, unclipped."""


class Run:
    """A training run in progress.

    Args:
        scenario: the parameters.
        seed: the seed of batches and controls.
        network: the modules to train.
        training: captions and pictures to learn from.
        dev: captions and pictures whose losses are measured; None for none.
        device: the device to work on.
        extra: further losses by name.
        others: further modules to train.
        checkpoint: the place to save the state in once a minute, and to resume from.
    """

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        network: Network,
        training: Described,
        dev: Described | None,
        device: torch.device,
        *,
        extra: Mapping[str, Extra] | None = None,
        others: nn.Module | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.scenario, self.seed, self.device, self.checkpoint = scenario, seed, device, checkpoint
        self.network = network.to(device)
        self.modules = nn.ModuleDict({"network": self.network, **({"others": others.to(device)} if others else {})})
        self.training, self.dev = training.controlled(scenario, seed), dev
        self.extra = dict(extra or {})
        self.weights = list(self.modules.parameters())
        self.optimiser = torch.optim.Adam(self.weights, lr=scenario.rate, fused=True)
        self.progress = Progress()
        self.losses: dict[str, list[torch.Tensor]] = {}  # of the batches since the last point of the curves

    def train(self, *, bar: bool = False) -> Progress:
        """Do all batches that are left.

        Raises:
            TrainingError: a loss is not finite.
        """
        self.resume()
        now, steps, saved = self.progress, self.scenario.steps, time.monotonic()
        self.modules.train()
        for number in tqdm(
            range(now.steps, steps), desc="train", unit="batch", initial=now.steps, total=steps, leave=False,
            disable=None if bar else True,
        ):  # fmt: skip
            now.steps += 1
            last = now.steps == steps
            self.step(number, measure=now.steps % POINTS == 0 or last)
            if now.steps % self.scenario.validate_every == 0 or last:
                self.validate()
            if self.checkpoint is not None and time.monotonic() - saved >= SECONDS:
                self.save()
                saved = time.monotonic()
        self.modules.eval()
        now.loss, now.dev = (_in_order(curves) for curves in (now.loss, now.dev))
        return now

    def step(self, number: int, *, measure: bool) -> None:
        """Train on a batch of pictures and on the batches of the further losses.

        Args:
            number: the number of the batch, from 0.
            measure: add a point to the curves.
        """
        scenario, encoder = self.scenario, self.network.captions
        pictures = batch(self.training, scenario, self.seed, number)
        self.optimiser.zero_grad(set_to_none=True)
        found = {name: one.loss(number, pictures) for name, one in self.extra.items() if not one.grounded}
        self._backward({name: (self.extra[name].weight, value) for name, value in found.items()})
        before = _gradients(encoder) if measure else []
        parts = self.network.losses(self.read(self.training, pictures)) if self._sees else {}
        more = {name: one.loss(number, pictures) for name, one in self.extra.items() if one.grounded}
        weighted = {name: (float(getattr(scenario, name)), value) for name, value in parts.items()}
        self._backward(weighted | {name: (self.extra[name].weight, value) for name, value in more.items()})
        for name, value in (found | parts | more).items():
            self.losses.setdefault(name, []).append(value.detach())
        if measure:
            self.read_losses(before, _gradients(encoder))
        if scenario.clip is not None:
            clip_grad_norm_(self.weights, scenario.clip)
        for group in self.optimiser.param_groups:
            group["lr"] = scenario.rate * scenario.decay ** (number / scenario.decay_steps)
        self.optimiser.step()

    @property
    def _sees(self) -> bool:
        return bool(self.scenario.cluster or self.scenario.compares_pictures)

    def _backward(self, parts: Mapping[str, tuple[float, torch.Tensor]]) -> None:
        if parts:
            total = torch.stack([weight * value for weight, value in parts.values()]).sum()
            total.backward()  # type: ignore[no-untyped-call]  # torch gives it no type

    def read(self, split: Described, pictures: Batch) -> Seen:
        """Encode the captions of a batch, and move its pictures to the device."""
        device = self.device
        paired = np.flatnonzero(pictures.second >= 0) if self.scenario.cluster else np.empty(0, np.int64)
        rows = np.concatenate([pictures.first, pictures.second[paired]])
        with torch.autocast(device.type, torch.bfloat16, enabled=self.scenario.precision == "bf16"):
            vectors = self.network.captions.embed([split.ids[row] for row in rows])
        vectors = vectors.to(torch.float32)
        same, shown = (copy[pictures.pictures] for copy in (split.copy_of, split.shown))
        tables = (same[:, None] == same, shown[:, None] == shown, pictures.draws, split.features[pictures.pictures])
        same_rows, shown_rows, draws, features = (move(torch.from_numpy(table), device) for table in tables)
        first, second = vectors[: len(pictures.first)], vectors[len(pictures.first) :]
        return Seen(first, second, move(torch.from_numpy(paired), device), features, same_rows, shown_rows, draws)

    def read_losses(self, before: list[torch.Tensor], after: list[torch.Tensor]) -> None:
        """Add a point to the curves of losses and norms.

        Raises:
            TrainingError: a loss or a gradient is not finite.
        """
        now = self.progress
        finite = {name: int(torch.stack(values).isfinite().sum()) for name, values in self.losses.items()}
        for name, values in self.losses.items():
            mean = float(torch.stack(values).double().mean())
            if not math.isfinite(mean):  # the first part that is not finite spoils the others
                first = min(finite, key=finite.__getitem__)
                raise _diverged(f"{first} loss", self.scenario, now.steps - len(values), now.steps)
            now.loss.setdefault(name, []).append((now.steps, mean))
        self.losses = {}
        text, grounded = _norm(before), _norm(_difference(after, before))
        if not math.isfinite(text + grounded):
            raise _diverged("norm of the gradient", self.scenario, now.steps - 1, now.steps)
        now.norms.append((now.steps, text, grounded))

    @torch.no_grad()
    def validate(self) -> None:
        """Measure the losses of dev in whole batches, the same ones each time."""
        if self.dev is None or not self._sees or len(self.dev.features) < 2:
            return
        size = min(self.scenario.batch, len(self.dev.features))
        scenario = self.scenario.model_copy(update={"batch": size})
        found: dict[str, list[float]] = {}
        self.modules.eval()
        for number in range(min(DEV_BATCHES, len(self.dev.features) // size)):
            seen = self.read(self.dev, batch(self.dev, scenario, 0, number))
            for name, value in self.network.losses(seen).items():
                found.setdefault(name, []).append(float(value))
        self.modules.train()
        for name, values in found.items():
            if math.isfinite(mean := math.fsum(values) / len(values)):
                self.progress.dev.setdefault(name, []).append((self.progress.steps, mean))
            else:
                log.warning(
                    "train: the %s loss of dev is undefined at batch %d (vectors or pictures of a batch are all "
                    "alike), and has no point in dev.tsv. Look at rate and margin if that goes on",
                    *(name, self.progress.steps),
                )

    def save(self) -> None:
        """Write a checkpoint of the whole state, to resume to the bit."""
        assert self.checkpoint is not None
        state = {
            "modules": self._state(),
            "optimiser": self.optimiser.state_dict()["state"],
            "losses": {name: dict(enumerate(values)) for name, values in self.losses.items()},
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
        for curves in (now.loss, now.dev):
            for name, curve in curves.items():
                curves[name] = [(int(done), value) for done, value in curve]
        now.norms = [(int(done), text, grounded) for done, text, grounded in now.norms]
        # The encoder that modules share is kept once.
        self.modules.load_state_dict(part(tensors, "modules."), strict=False)
        restore(self.optimiser, part(tensors, "optimiser."))
        losses = part(tensors, "losses.")
        for name in dict.fromkeys(key.rpartition(".")[0] for key in losses):
            count = sum(key.rpartition(".")[0] == name for key in losses)
            self.losses[name] = [losses[f"{name}.{number}"].to(self.device) for number in range(count)]
        log.info("train: goes on after batch %d of an earlier run", now.steps)

    def _state(self) -> dict[str, torch.Tensor]:
        """Return the tensors of all modules, each once."""
        found, seen = {}, set()
        for name, value in self.modules.state_dict().items():
            if value.data_ptr() not in seen or not value.numel():
                found[name] = value
                seen.add(value.data_ptr())
        return found


def _in_order(curves: dict[str, list[tuple[int, float]]]) -> dict[str, list[tuple[int, float]]]:
    """Return the curves in the order of the scenario's weights: a checkpoint sorts them by name."""
    return {name: curves[name] for name in Scenario.model_fields if name in curves}


def _gradients(module: nn.Module) -> list[torch.Tensor]:
    """Return copies of the gradients of a module; zeros where there is none."""
    return [
        torch.zeros_like(weight) if weight.grad is None else weight.grad.detach().clone()
        for weight in module.parameters()
    ]


def _norm(gradients: list[torch.Tensor]) -> float:
    return math.hypot(*(float(torch.linalg.vector_norm(one)) for one in gradients))


def _difference(after: list[torch.Tensor], before: list[torch.Tensor]) -> list[torch.Tensor]:
    return [one - other for one, other in zip(after, before, strict=True)]


def _diverged(name: str, scenario: Scenario, first: int, last: int) -> TrainingError:
    """Return the error of a loss, or of the norm of the gradient, that is not finite, with its likely reason."""
    if name == "perceptual loss" and scenario.similarity == "pearson":
        reason = (
            "Pearson's correlation is undefined where all vectors of captions, or all pictures of a batch, are alike"
        )
    else:
        reason = "the training run diverged"
    return TrainingError(
        f"the {name} is not a finite number between batch {first} and {last}: {reason}",
        todo="Lower the scenario's rate, or look at clip, margin and the features.",
    )
