"""What every kept epoch reaches: the numbers behind Figure 4 of Merkx & Frank (2019)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import torch
from tqdm import tqdm

from sightword.encoder.sentence_encoder import LONGEST, SentenceEncoder
from sightword.pairs import Pairs
from sightword.retrieval.protocols import DIRECTIONS
from sightword.selection.choice import ensemble, measure
from sightword.selection.epochs_settings import EpochsSettings
from sightword.semantics.evaluation import judge
from sightword.training.snapshots import Snapshots

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Measured:
    """One epoch's encoder alone, without an ensemble."""

    epoch: int
    r10: dict[str, float]
    """Recall@10 on dev for each direction, in percent."""
    pearson: dict[str, float | None]
    """100 times Pearson's r of each task that was judged: the mean over its subtasks, or that of its test pairs. None
    where it is not defined, as with an encoder that gives all pairs the same cosine."""


def measure_epochs(
    snapshots: Snapshots, dev: Pairs, settings: EpochsSettings, *, device: torch.device, progress: bool = False
) -> list[Measured]:
    """Measure the encoder of every kept epoch, or of each N-th, in their order.

    Each distinct sentence of all tasks is encoded once an epoch, and so is each distinct caption.

    Args:
        snapshots: what training kept.
        dev: the pictures and captions of the dev split.
        settings: what is measured.
        device: where to work.
        progress: show a bar on a terminal.

    Raises:
        EncoderError: a snapshot cannot be loaded, or the features have another width than those it was trained on.
        SemanticsError: a task cannot be read (with file and line).
    """
    found: list[Measured] = []
    chosen = snapshots.epochs[::-1][:: settings.every][::-1]
    for epoch in tqdm(chosen, desc="epochs", unit="epoch", disable=None if progress else True):
        encoder = ensemble(snapshots, [epoch], renormalise=False, device=device)
        pearson = _pearson(encoder, settings, say=not found)
        score = measure(encoder, dev)
        found.append(Measured(epoch, {direction: score[direction]["r10"] for direction in DIRECTIONS}, pearson))
    return found


def rows(measured: list[Measured], tasks: list[str]) -> tuple[list[str], list[list[object]]]:
    """The table ``plots/epochs/epochs.tsv``: header and one row an epoch.

    ``semantics`` is the mean over the tasks, so that it is one line in a plot. What is not defined, or was left out
    because its files are not there, is None.
    """
    header = ["epoch", *(f"{direction}_r10" for direction in DIRECTIONS), "semantics", *tasks]
    return header, [
        [one.epoch, *one.r10.values(), _mean(one.pearson), *map(one.pearson.get, tasks)] for one in measured
    ]


def _mean(pearson: dict[str, float | None]) -> float | None:
    defined = [value for value in pearson.values() if value is not None]
    return sum(defined) / len(defined) if defined and len(defined) == len(pearson) else None


def _pearson(encoder: SentenceEncoder, settings: EpochsSettings, *, say: bool) -> dict[str, float | None]:
    if not settings.tasks:
        return {}

    def encode(sentences: list[str]) -> Any:
        return encoder.encode(sentences, batch_size=settings.batch_size, max_length=LONGEST)

    scores = judge(encode, settings.tasks, settings.data, trained_head=False, missing=settings.missing).metrics
    for task, reason in scores.pop("skipped", {}).items():
        if say:
            log.warning("%s left out: %s", task, reason)
    return {task: _percent(entry) for task, entry in scores.items()}


def _percent(scores: dict[str, Any]) -> float | None:
    """100 times Pearson's r of a task; an STS task has the mean of its subtasks, the others their cosine."""
    pearson: float | None = (scores.get("mean") or scores["cosine"])["pearson"]
    return None if pearson is None else 100 * pearson
