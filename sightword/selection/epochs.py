"""Recall and sentence similarity of every kept epoch: the numbers behind Figure 4 of Merkx & Frank (2019)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import torch
from tqdm import tqdm

from sightword.encoder.sentence_encoder import LONGEST
from sightword.selection.ensemble import ensemble
from sightword.selection.epochs_settings import EpochsSettings
from sightword.semantics.evaluation import judge
from sightword.training.snapshots import Snapshots
from sightword.training.validation import DIRECTIONS

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Measured:
    """One epoch's encoder alone, without an ensemble."""

    epoch: int
    r10: dict[str, float]
    """Recall@10 on dev for each direction, in percent."""
    pearson: dict[str, float | None]
    """100 times Pearson's r of each task: the mean over its subtasks, or r of its test pairs. None where r is not
    defined, as with an encoder that gives all pairs the same cosine."""


def measure_epochs(
    snapshots: Snapshots, settings: EpochsSettings, *, device: torch.device, progress: bool = False
) -> list[Measured]:
    """Measure the encoder of every kept epoch, or of each N-th, in their order.

    Recall on dev is that of training. Each distinct sentence of all tasks is encoded once an epoch.

    Args:
        snapshots: what training kept.
        settings: the parameters.
        device: where to work.
        progress: show a bar on a terminal.

    Raises:
        EncoderError: a snapshot cannot be loaded.
        SemanticsError: a task cannot be read (with file and line).
    """
    found: list[Measured] = []
    chosen = snapshots.epochs[::-1][:: settings.every][::-1]
    for epoch in tqdm(chosen, desc="epochs", unit="epoch", disable=None if progress else True):
        r10 = {direction: snapshots.recall[epoch][direction]["r10"] for direction in DIRECTIONS}
        found.append(Measured(epoch, r10, _pearson(snapshots, epoch, settings, device, warn=not found)))
    return found


def rows(measured: list[Measured], tasks: list[str]) -> tuple[list[str], list[list[object]]]:
    """The table ``plots/epochs/epochs.tsv``: header and one row an epoch.

    ``semantics`` is the mean over the tasks, so that it is one line in a plot. A value is None where it is not defined,
    or where a task was left out because its files are missing.
    """
    header = ["epoch", *(f"{direction}_r10" for direction in DIRECTIONS), "semantics", *tasks]
    return header, [
        [one.epoch, *one.r10.values(), _mean(one.pearson), *map(one.pearson.get, tasks)] for one in measured
    ]


def _mean(pearson: dict[str, float | None]) -> float | None:
    defined = [value for value in pearson.values() if value is not None]
    return sum(defined) / len(defined) if defined and len(defined) == len(pearson) else None


def _pearson(
    snapshots: Snapshots, epoch: int, settings: EpochsSettings, device: torch.device, *, warn: bool
) -> dict[str, float | None]:
    if not settings.tasks:
        return {}
    encoder = ensemble(snapshots, [epoch], renormalise=False, device=device)

    def encode(sentences: list[str]) -> Any:
        return encoder.encode(sentences, batch_size=settings.batch_size, max_length=LONGEST)

    scores = judge(encode, settings.tasks, settings.data, trained_head=False, missing=settings.missing).metrics
    for task, reason in scores.pop("skipped", {}).items():
        if warn:
            log.warning("%s left out: %s", task, reason)
    return {task: _percent(entry) for task, entry in scores.items()}


def _percent(scores: dict[str, Any]) -> float | None:
    """100 times Pearson's r of a task; an STS task has the mean of its subtasks, the others their cosine."""
    pearson: float | None = (scores.get("mean") or scores["cosine"])["pearson"]
    return None if pearson is None else 100 * pearson
