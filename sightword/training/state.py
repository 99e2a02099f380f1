"""The optimiser, and all that a training needs to go on to the bit, as tensors by name."""

from __future__ import annotations

import torch

from sightword.model.encoders import Encoders
from sightword.training.averaging import Averaging
from sightword.training.divergence import Watch
from sightword.training.objective import Objective
from sightword.training.settings import TrainSettings


def build_optimiser(encoders: Encoders, objective: Objective, settings: TrainSettings) -> torch.optim.Optimizer:
    """Adam; with weight decay AdamW, which spares biases and the objective's own parameters."""
    if not settings.weight_decay:
        return torch.optim.Adam([*encoders.parameters(), *objective.parameters()], lr=settings.rate_min, fused=True)
    weights = list(encoders.parameters())
    groups = [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [*(w for w in weights if w.ndim < 2), *objective.parameters()], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.rate_min, fused=True)


def state_of(
    encoders: Encoders, objective: Objective, optimiser: torch.optim.Optimizer, averaging: Averaging, watch: Watch
) -> dict[str, torch.Tensor]:
    """All that a training needs to go on to the bit, as tensors by name."""
    state = {f"encoders.{name}": value for name, value in encoders.state_dict().items()}
    state |= {f"objective.{name}": value for name, value in objective.state_dict().items()}
    for number, values in optimiser.state_dict()["state"].items():
        state |= {f"optimiser.{number}.{name}": value for name, value in values.items()}
    state |= {f"average.{name}": value for name, value in averaging.state().items()}
    state |= {f"watch.{name}": value for name, value in watch.state().items()}
    state["random"] = torch.get_rng_state()
    if encoders.device.type == "cuda":
        state["random.cuda"] = torch.cuda.get_rng_state(encoders.device)
    return state


def restore(
    tensors: dict[str, torch.Tensor],
    encoders: Encoders,
    objective: Objective,
    optimiser: torch.optim.Optimizer,
    averaging: Averaging,
    watch: Watch,
) -> None:
    """Put back what :func:`state_of` gave.

    Raises:
        RuntimeError: it is another network's.
    """
    parts: dict[str, dict[str, torch.Tensor]] = {}
    for name, value in tensors.items():
        part, _, rest = name.partition(".")
        parts.setdefault(part, {})[rest] = value
    encoders.load_state_dict(parts["encoders"])
    objective.load_state_dict(parts.get("objective", {}))
    averaging.restore(parts.get("average", {}))
    watch.restore(parts["watch"])
    found: dict[int, dict[str, torch.Tensor]] = {}
    for name, value in parts.get("optimiser", {}).items():
        number, _, rest = name.partition(".")
        found.setdefault(int(number), {})[rest] = value
    optimiser.load_state_dict({**optimiser.state_dict(), "state": found})
    torch.set_rng_state(parts["random"][""])
    if "cuda" in parts["random"]:
        torch.cuda.set_rng_state(parts["random"]["cuda"], encoders.device)
