"""The optimiser, and the state of a training run as tensors by name."""

from __future__ import annotations

from typing import NamedTuple

import torch

from sightword.model.encoders import Encoders
from sightword.text import flat
from sightword.training.averaging import Averaging
from sightword.training.divergence import Watch
from sightword.training.objective import Objective
from sightword.training.settings import TrainSettings

Tensors = dict[str, torch.Tensor]


def build_optimiser(encoders: Encoders, objective: Objective, settings: TrainSettings) -> torch.optim.Optimizer:
    """Return Adam; with weight decay AdamW, which spares biases and the objective's own parameters."""
    if not settings.weight_decay:
        return torch.optim.Adam([*encoders.parameters(), *objective.parameters()], lr=settings.rate_min, fused=True)
    weights = list(encoders.parameters())
    groups = [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [*(w for w in weights if w.ndim < 2), *objective.parameters()], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.rate_min, fused=True)


class State(NamedTuple):
    """Everything that a training run changes."""

    encoders: Encoders
    objective: Objective
    optimiser: torch.optim.Optimizer
    averaging: Averaging
    watch: Watch

    def tensors(self) -> Tensors:
        """Return the whole state, the random generators included, to resume to the bit."""
        parts = {
            "encoders": self.encoders.state_dict(),
            "objective": self.objective.state_dict(),
            "optimiser": self.optimiser.state_dict()["state"],
            "average": self.averaging.state(),
            "watch": self.watch.state(),
            "random": torch.get_rng_state(),
        }
        if self.encoders.device.type == "cuda":
            parts["random.cuda"] = torch.cuda.get_rng_state(self.encoders.device)
        return flat(parts)

    def restore(self, tensors: Tensors) -> None:
        """Restore the state that :meth:`tensors` returned.

        Raises:
            RuntimeError: the state belongs to another network.
        """

        def part(name: str) -> Tensors:
            return {key.removeprefix(name): value for key, value in tensors.items() if key.startswith(name)}

        self.encoders.load_state_dict(part("encoders."))
        self.objective.load_state_dict(part("objective."))
        self.averaging.restore(part("average."))
        self.watch.restore(part("watch."))
        numbers = {int(name.partition(".")[0]) for name in part("optimiser.")}
        state = {number: part(f"optimiser.{number}.") for number in numbers}
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": state})
        torch.set_rng_state(tensors["random"])
        if "random.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random.cuda"], self.encoders.device)
