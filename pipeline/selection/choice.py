"""Which snapshots are best on dev."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import torch
from tqdm import tqdm

from pipeline.errors import TrainingError
from pipeline.model.sentence_encoder import SentenceEncoder
from pipeline.pairs import Pairs
from pipeline.retrieval.protocols import score
from pipeline.selection.settings import SelectSettings
from pipeline.training.snapshots import Snapshots

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choice:
    """The chosen ensemble and what was measured."""

    encoder: SentenceEncoder
    epochs: list[int]
    """Epochs of the chosen snapshots, the best first."""
    recall: dict[int, float]
    """Mean recall@10 of both directions on dev, in percent, for each snapshot's epoch."""
    ensemble: dict[str, Any]
    """The ensemble's own retrieval score on dev."""


def mean_r10(entry: dict[str, Any]) -> float:
    """Mean recall@10 of both directions, in percent."""
    return float(entry["caption_to_image"]["r10"] + entry["image_to_caption"]["r10"]) / 2


def choose(
    snapshots: Snapshots, dev: Pairs, settings: SelectSettings, *, device: torch.device, progress: bool = False
) -> Choice:
    """Measure each snapshot on dev and make the ensemble of the best (Merkx & Frank 2019, section 3.4).

    Of two that are equally good the later one is taken.

    Raises:
        TrainingError: there are fewer snapshots than members.
    """
    if len(snapshots.epochs) < settings.members:
        raise TrainingError(
            f"select.members = {settings.members} snapshots are wanted, training kept {len(snapshots.epochs)}",
            todo="Train for more cycles (train.epochs, train.cycle), or keep one every epoch (train.snapshots: epoch).",
        )
    recall: dict[int, float] = {}
    for epoch in tqdm(snapshots.epochs, desc="select", unit="snapshot", disable=None if progress else True):
        recall[epoch] = mean_r10(_measure(_ensemble(snapshots, [epoch], settings, device), dev))
        log.info("snapshot of epoch %d: mean recall@10 %.1f on %s", epoch, recall[epoch], settings.split)
    chosen = sorted(recall, key=lambda epoch: (-recall[epoch], -epoch))[: settings.members]
    encoder = _ensemble(snapshots, chosen, settings, device)
    return Choice(encoder=encoder, epochs=chosen, recall=recall, ensemble=_measure(encoder, dev))


def _ensemble(
    snapshots: Snapshots, epochs: list[int], settings: SelectSettings, device: torch.device
) -> SentenceEncoder:
    return SentenceEncoder(
        members=[snapshots.load(epoch).to(device) for epoch in epochs],
        vocabulary=snapshots.vocabulary,
        model=snapshots.model,
        renormalise=settings.renormalise,
        notes={"epochs": epochs, "training": snapshots.training, "features": snapshots.features},
    )


def _measure(encoder: SentenceEncoder, pairs: Pairs) -> dict[str, Any]:
    return score(encoder.encode_images(pairs.features), encoder.encode(pairs.texts), pairs.image_of_caption)
