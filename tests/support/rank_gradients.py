"""One process of several, without a launcher: the gradients of one step, for each objective and kind of batch, and the
snapshots of small trainings, for each kind of average.

Run as ``python -m rank_gradients FOLDER`` with the variables of torch's elastic launch; the first rank writes
``FOLDER/COUNT.safetensors``. Everything is float64.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import safetensors.torch
import torch

from sightword.compute import devices
from sightword.features.tables.pairs import Pairs
from sightword.model.encoders import Encoders
from sightword.training.engine import run
from sightword.training.processes import Processes
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.task import CaptionTask

CPU = torch.device("cpu")
CASES = {
    "hinge": {},
    "summed hinge": {"reduction": "sum"},
    "hardest": {"loss": "hardest", "mask_padding": False},
    "summed hardest": {"loss": "hardest", "reduction": "sum", "pooling": "max"},
    "infonce": {"loss": "infonce", "cell": "lstm", "standardise": "training"},
    "summed infonce": {"loss": "infonce", "reduction": "sum", "pooling": "last", "bidirectional": False},
    "order": {"similarity": "order", "margin": 0.05},
    "reversed order, hardest": {"similarity": "reversed_order", "loss": "hardest", "pooling": "mean"},
    "order, infonce": {"similarity": "order", "loss": "infonce"},
    "ngrams": {"cell": "ngrams", "ngram_buckets": 31, "loss": "infonce"},
    "second captions": {"loss": "infonce", "second_caption": True},
    "typing errors": {"typing_errors": 0.5, "second_caption": True},
    "captions beside": {"loss": "infonce", "beside_batch": 6, "beside_weight": 0.5},
    "clipped sides": {"clip_images": 1e-3, "clip_captions": 1e-2},
    "clipped together": {"clip_scope": "all", "clip_images": 1e-3, "clip_captions": 1e-3},
    "clipped tensors": {"clip_scope": "tensor", "clip_images": 1e-3, "clip_captions": 1e-3},
}
"""Settings by the name of a case."""
SIZES = (2, 5, 8)
"""Pairs of a batch: with four ranks two have nothing, all have something, and all have the same."""
TOKENS = 15


def pairs() -> Pairs:
    """Twenty pictures, two of which are the same, with two captions of one to eight tokens each."""
    random = np.random.default_rng(0)
    features = random.normal(size=(20, 7))
    features[1] = features[0]
    ids = [random.integers(2, TOKENS, random.integers(1, 9)) for _ in range(40)]
    names = [f"{place:02d}" for place in range(20)]
    numbers, owners = np.repeat([0, 1], 20), np.tile(np.arange(20), 2)
    return Pairs(names, features, [""] * 40, ids, numbers, owners)


def gradients(processes: Processes, device: torch.device = CPU) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the loss and the norms of a step, and the gradients that reach the optimiser, by case, size and name."""
    none = {"clip_images": None, "clip_captions": None}
    for case, change in CASES.items():
        for size in SIZES:
            settings = TrainSettings(embedding=5, hidden=6, attention=4, batch=size, epochs=4, **{**none, **change})
            run = CaptionTask(settings, pairs(), TOKENS, device, beside=pairs(), processes=processes)
            run.encoders.double()
            run.objective.double()
            loss = run.learn(np.arange(size), 1e-3, 0)
            norms = run.watch._unread[-1][1]
            named = [*run.encoders.named_parameters(), *run.objective.named_parameters()]
            for name, value in [("loss", loss), ("norms", norms), *((name, one.grad) for name, one in named)]:
                yield f"{case}/{size}/{name}", value.detach().cpu().clone()


def snapshots(processes: Processes) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the weights that the first process of a training keeps, by kind of average, epoch and name."""
    for average in ("none", "ema", "swa"):
        kept: dict[str, torch.Tensor] = {}

        def keep(epoch: int, encoders: Encoders, average: str = average, kept: dict[str, torch.Tensor] = kept) -> None:
            names = [(name, one) for name, one in encoders.named_parameters() if name != "captions.pooling.out.bias"]
            kept |= {f"{average}/{epoch}/{name}": one.detach().clone() for name, one in names}  # its gradient is 0

        settings = TrainSettings(
            embedding=5, hidden=6, attention=4, batch=8, epochs=3, cycle=1, rate_max=1e-2, average=average,
            average_decay=0.9,
        )  # fmt: skip
        dev = pairs() if processes.first else None
        task = CaptionTask(settings, pairs(), TOKENS, CPU, dev=dev, keep=keep, processes=processes)
        for module in (task.encoders, task.objective, *filter(None, [task.averaging.average])):
            module.double()
        run(task, processes=processes)
        yield from kept.items()


def main() -> None:
    from sightword import machine
    from sightword.vse.training.sharing import joined

    device = devices.use(machine.current())
    place = machine.place()
    with joined(place, device) as processes:
        found = dict(gradients(processes, device))
        found |= dict(snapshots(processes)) if device.type == "cpu" else {}
    if processes.first:
        safetensors.torch.save_file(found, Path(sys.argv[1], f"{place.ranks}.safetensors"))


if __name__ == "__main__":
    main()
