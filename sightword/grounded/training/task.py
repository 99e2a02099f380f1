"""The training run of a scenario: batches of pictures and of text, losses, and curves."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from sightword.compute.devices import Adam, move
from sightword.grounded.skipthought.task import DECAY, DECAY_STEPS
from sightword.grounded.training.batches import Batch, Described, batch
from sightword.grounded.training.losses import Network, Seen
from sightword.grounded.training.settings import Scenario
from sightword.training.checkpoint import Columns
from sightword.training.engine import Task

log = logging.getLogger(__name__)

Value = TypeVar("Value")

CLIP = 5.0
"""Largest norm of the gradient of all weights."""
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


class GroundingTask(Task[Scenario]):
    """A training run of a scenario in progress.

    The curves are ``loss``, each part of the loss before weighting; ``dev``, the same on dev; and ``norms``, the norm
    of the encoder's gradient by the text and by the grounded side, weighted and unclipped.

    ``extra`` are further losses by name, and ``others`` further modules to train; without ``dev``, nothing is measured.
    """

    points = 20
    advice = "Lower the scenario's rate, or look at the features."

    def __init__(
        self, scenario: Scenario, seed: int, network: Network, training: Described, dev: Described | None,
        device: torch.device, extra: Mapping[str, Extra] | None = None, others: nn.Module | None = None,
    ) -> None:  # fmt: skip
        self.seed, self.network = seed, network.to(device)
        modules = nn.ModuleDict({"network": self.network, **({"others": others.to(device)} if others else {})})
        self.training, self.dev = training.controlled(scenario, seed), dev
        self.extra = dict(extra or {})
        self.trained = list(modules.parameters())
        self.adam = Adam(self.trained, lr=scenario.rate, fused=True)
        super().__init__(
            scenario, steps=scenario.steps, every=scenario.validate_every, modules=modules, optimiser=self.adam,
            device=device,
        )  # fmt: skip
        self.progress.curves = empty()
        self.norms = (0.0, 0.0)
        """The norms of the last point, by the text and by the grounded side."""

    def is_point(self, done: int) -> bool:
        """Return whether the curves of losses have a point after so many batches."""
        return done % self.points == 0 or done == self.steps

    def step(self, number: int) -> dict[str, torch.Tensor]:
        """Train on a batch of pictures and on the batches of the further losses."""
        scenario, encoder = self.settings, self.network.captions
        measure = self.is_point(number + 1)
        pictures = batch(self.training, scenario, self.seed, number)
        self.adam.zero_grad(set_to_none=True)
        found = {name: one.loss(number, pictures) for name, one in self.extra.items() if not one.grounded}
        self._backward({name: (self.extra[name].weight, value) for name, value in found.items()})
        before = _gradients(encoder) if measure else []
        parts = self.network.losses(self.read(self.training, pictures)) if self._sees else {}
        more = {name: one.loss(number, pictures) for name, one in self.extra.items() if one.grounded}
        weighted = {name: (float(getattr(scenario, name)), value) for name, value in parts.items()}
        self._backward(weighted | {name: (self.extra[name].weight, value) for name, value in more.items()})
        if measure:
            self.norms = _norm(before), _norm(_difference(_gradients(encoder), before))
        clip_grad_norm_(self.trained, CLIP)
        for group in self.adam.param_groups:
            group["lr"] = scenario.rate * DECAY ** (number / DECAY_STEPS)
        self.adam.step()
        return _in_order({name: value.detach() for name, value in (found | parts | more).items()})

    def add_point(self) -> None:
        """Add the norms to their curves.

        Raises:
            TrainingError: a gradient is not finite.
        """
        if not math.isfinite(sum(self.norms)):
            raise self.diverged("norm of the gradient", self.progress.steps - 1)
        for name, norm in zip(("text", "grounded"), self.norms, strict=True):
            self.progress.add("norms", name, norm)

    def reason(self, name: str) -> str:
        """Return why a loss is not finite."""
        if name == "perceptual loss":
            pairs = "where all vectors of captions, or all pictures of a batch, are alike"
            return f": Pearson's correlation is undefined {pairs}"
        return ": the training run diverged"

    @property
    def _sees(self) -> bool:
        return bool(self.settings.cluster or self.settings.compares_pictures)

    def _backward(self, parts: Mapping[str, tuple[float, torch.Tensor]]) -> None:
        if parts:
            total = torch.stack([weight * value for weight, value in parts.values()]).sum()
            total.backward()  # type: ignore[no-untyped-call]  # torch gives it no type

    def read(self, split: Described, pictures: Batch) -> Seen:
        """Encode the captions of a batch, and move its pictures to the device."""
        device = self.device
        paired = np.flatnonzero(pictures.second >= 0) if self.settings.cluster else np.empty(0, np.int64)
        rows = np.concatenate([pictures.first, pictures.second[paired]])
        with torch.autocast(device.type, torch.bfloat16, enabled=self.settings.precision == "bf16"):
            vectors = self.network.captions.embed([split.ids[row] for row in rows])
        vectors = vectors.to(torch.float32)
        same, shown = (copy[pictures.pictures] for copy in (split.copy_of, split.shown))
        tables = (same[:, None] == same, shown[:, None] == shown, pictures.draws, split.features[pictures.pictures])
        same_rows, shown_rows, draws, features = (move(torch.from_numpy(table), device) for table in tables)
        first, second = vectors[: len(pictures.first)], vectors[len(pictures.first) :]
        return Seen(first, second, move(torch.from_numpy(paired), device), features, same_rows, shown_rows, draws)

    @torch.no_grad()
    def validate(self) -> None:
        """Measure the losses of dev in whole batches, the same ones each time."""
        if self.dev is None or not self._sees or len(self.dev.features) < 2:
            return
        size = min(self.settings.batch, len(self.dev.features))
        scenario = self.settings.model_copy(update={"batch": size})
        found: dict[str, list[float]] = {}
        self.modules.eval()
        for number in range(min(DEV_BATCHES, len(self.dev.features) // size)):
            seen = self.read(self.dev, batch(self.dev, scenario, 0, number))
            for name, value in self.network.losses(seen).items():
                found.setdefault(name, []).append(float(value))
        for name, values in _in_order(found).items():
            if math.isfinite(mean := math.fsum(values) / len(values)):
                self.progress.add("dev", name, mean)
            else:
                log.warning(
                    "train: the %s loss of dev is undefined at batch %d (vectors or pictures of a batch are all "
                    "alike), and has no point in dev.tsv. Look at rate and margin if that goes on",
                    *(name, self.progress.steps),
                )


def empty() -> dict[str, Columns]:
    """Return the curves of a run before the first batch."""
    return {"loss": {}, "dev": {}, "norms": {"text": [], "grounded": []}}


def _in_order(values: Mapping[str, Value]) -> dict[str, Value]:
    """Return values by loss in the order of the scenario's weights."""
    return {name: values[name] for name in Scenario.model_fields if name in values}


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
