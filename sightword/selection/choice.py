"""Which snapshots are best on dev."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from tqdm import tqdm

from sightword.encoder.sentence_encoder import LONGEST, SentenceEncoder
from sightword.errors import TrainingError
from sightword.pairs import Pairs
from sightword.retrieval import protocols
from sightword.selection.settings import SelectSettings
from sightword.training.snapshots import Snapshots

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choice:
    """The chosen ensemble and what was measured."""

    encoder: SentenceEncoder
    epochs: list[int]
    """Epochs of the chosen snapshots, the best first."""
    recall: dict[int, float]
    """Mean recall@10 of both directions on dev, in percent, for each snapshot's epoch."""
    score: dict[int, float]
    """What they were chosen by, for each snapshot's epoch: see :data:`CRITERIA`."""
    ensemble: dict[str, Any]
    """The ensemble's own retrieval score on dev."""


def mean_r10(entry: dict[str, Any]) -> float:
    """Mean recall@10 of both directions, in percent."""
    return float(entry["caption_to_image"]["r10"] + entry["image_to_caption"]["r10"]) / 2


CRITERIA: dict[str, Callable[[dict[str, Any]], float]] = {
    "mean_r10": mean_r10,
    "caption_to_image_rsum": lambda entry: float(entry["caption_to_image"]["rsum"]),
    "rsum": lambda entry: float(entry["rsum"]),
}
"""What ``select.criterion`` names: of a retrieval score one number, in percent, more being better."""


def choose(
    snapshots: Snapshots, dev: Pairs, settings: SelectSettings, *, device: torch.device, progress: bool = False
) -> Choice:
    """Measure each snapshot on dev and make the ensemble of the best (Merkx & Frank 2019, section 3.4).

    ``select.criterion`` says what makes one better; of two that are equally good the later one is taken.

    Raises:
        TrainingError: there are fewer snapshots than members.
    """
    cycle = snapshots.training["cycle"] if settings.candidates == "cycle" else 1
    epochs = [epoch for epoch in snapshots.epochs if epoch % cycle == 0]
    if len(epochs) < settings.members:
        raise TrainingError(
            f"select.members = {settings.members} snapshots are wanted, there are {len(epochs)} to choose from",
            todo="Train for more cycles (train.epochs, train.cycle), "
            "or keep and compare every epoch (train.snapshots: epoch, select.candidates: all).",
        )
    recall: dict[int, float] = {}
    score: dict[int, float] = {}
    for epoch in tqdm(epochs, desc="select", unit="snapshot", disable=None if progress else True):
        entry = measure(ensemble(snapshots, [epoch], settings.renormalise, device), dev)
        recall[epoch], score[epoch] = mean_r10(entry), CRITERIA[settings.criterion](entry)
        log.info(
            "snapshot of epoch %d: mean recall@10 %.1f on %s%s",
            epoch,
            recall[epoch],
            settings.split,
            "" if settings.criterion == "mean_r10" else f", {settings.criterion} {score[epoch]:.1f}",
        )
    chosen = sorted(score, key=lambda epoch: (-score[epoch], -epoch))[: settings.members]
    encoder = ensemble(snapshots, chosen, settings.renormalise, device)
    return Choice(encoder=encoder, epochs=chosen, recall=recall, score=score, ensemble=measure(encoder, dev))


def ensemble(snapshots: Snapshots, epochs: list[int], renormalise: bool, device: torch.device) -> SentenceEncoder:
    """The encoder made of the snapshots of some epochs, the first one first."""
    return SentenceEncoder(
        members=[snapshots.load(epoch).to(device) for epoch in epochs],
        vocabulary=snapshots.vocabulary,
        model=snapshots.model,
        renormalise=renormalise,
        notes={"epochs": epochs, "training": snapshots.training, "features": snapshots.features},
    )


def measure(encoder: SentenceEncoder, pairs: Pairs) -> dict[str, Any]:
    """The full protocol's retrieval score of all captions and pictures of a split."""
    images, captions = encoder.encode_images(pairs.features), encoder.encode(pairs.texts, max_length=LONGEST)
    return protocols.score(images, captions, pairs.image_of_caption, encoder.similarity_name)
