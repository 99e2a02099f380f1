"""Recall and sentence similarity of every kept epoch, as in Figure 4 of Merkx & Frank (2019)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from sightword.encoder.arguments import LONGEST
from sightword.evaluation.semantics.datasets import missing_file
from sightword.evaluation.semantics.evaluation import evaluate
from sightword.vse.selection.choice import ensemble
from sightword.vse.selection.settings import EpochsSettings
from sightword.vse.training.snapshots import DIRECTIONS, Snapshots

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Measured:
    """The scores of the encoder of one epoch."""

    epoch: int
    r10: dict[str, float | None]
    """Recall@10 on dev for each direction, in percent; None without a side of pictures."""
    pearson: dict[str, float | None]
    """100 times Pearson's r of each task: the mean over its subtasks, or r of its test pairs. None if r is not defined:
    all pairs have the same cosine."""


def measure_epochs(
    snapshots: Snapshots, settings: EpochsSettings, *, device: torch.device, progress: bool = False
) -> list[Measured]:
    """Measure the encoder of every kept epoch, or of each N-th, in their order; recall on dev is that of training.

    Raises:
        EncoderError: a snapshot cannot be loaded.
        SemanticsError: a task cannot be read (with file and line).
    """
    found: list[Measured] = []
    tasks = _present(settings)
    chosen = snapshots.epochs[::-1][:: settings.every][::-1]
    for epoch in tqdm(chosen, desc="epochs", unit="epoch", disable=None if progress else True):
        r10 = {direction: snapshots.recall[epoch].get(direction, {}).get("r10") for direction in DIRECTIONS}
        found.append(Measured(epoch, r10, _pearson(snapshots, epoch, tasks, settings, device)))
    return found


def rows(measured: list[Measured], tasks: list[str]) -> tuple[list[str], list[list[object]]]:
    """Return the header and the rows, one for each epoch, of the table ``plots/epochs/epochs.tsv``.

    ``semantics`` is the mean over the tasks. A value is None if it is not defined or the files of a task are missing.
    """
    header = ["epoch", *(f"{direction}_r10" for direction in DIRECTIONS), "semantics", *tasks]
    return header, [
        [one.epoch, *one.r10.values(), _mean(one.pearson), *map(one.pearson.get, tasks)] for one in measured
    ]


def _mean(pearson: dict[str, float | None]) -> float | None:
    defined = [value for value in pearson.values() if value is not None]
    return sum(defined) / len(defined) if defined and len(defined) == len(pearson) else None


def _present(settings: EpochsSettings) -> list[str]:
    """Return the tasks to measure; tasks that are left out are logged."""
    found = []
    for task in settings.tasks:
        gone = missing_file(task, Path(settings.data)) if settings.missing == "skip" else None
        if gone is None:
            found.append(task)
        else:
            log.warning("%s left out: %s does not exist", task, gone)
    return found


def _pearson(
    snapshots: Snapshots, epoch: int, tasks: list[str], settings: EpochsSettings, device: torch.device
) -> dict[str, float | None]:
    if not tasks:
        return {}
    encoder = ensemble(snapshots, [epoch], renormalise=False, device=device)

    def encode(sentences: list[str]) -> Any:
        return encoder.encode(
            sentences, batch_size=settings.batch_size, max_length=LONGEST, precision=settings.precision
        )

    scores = evaluate(encode, tasks, settings.data, trained_head=False).metrics
    # An STS task has the mean of its subtasks, the others their cosine.
    found = {task: (entry.get("mean") or entry["cosine"])["pearson"] for task, entry in scores.items()}
    return {task: None if pearson is None else 100 * pearson for task, pearson in found.items()}
