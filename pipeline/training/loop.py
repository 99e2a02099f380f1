"""The training loop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.nn.utils import clip_grad_norm_
from tqdm import tqdm

from pipeline.errors import TrainingError
from pipeline.model.embedding import embed_captions, embed_images
from pipeline.model.encoders import Encoders
from pipeline.model.losses import LOSSES
from pipeline.pairs import Pairs
from pipeline.retrieval.protocols import score
from pipeline.training.batches import batches, per_epoch
from pipeline.training.schedule import cyclic_rate
from pipeline.training.settings import TrainSettings

log = logging.getLogger(__name__)

POINTS = 50
"""Points an epoch in the curves of loss and learning rate."""
GROUP = 33
"""Captions of like length that a processor reads together: a third of 100 was fastest at 256 states."""


@dataclass
class History:
    """What the curves show."""

    loss: list[tuple[int, float]] = field(default_factory=list)
    """(batches done, mean loss of a batch since the point before)."""
    rate: list[tuple[int, float]] = field(default_factory=list)
    """(batches done, learning rate of the last of them)."""
    recall: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    """(epoch, the retrieval score on dev)."""


def train(
    settings: TrainSettings,
    training: Pairs,
    dev: Pairs,
    *,
    tokens: int,
    device: torch.device,
    keep: Callable[[int, Encoders], None],
    progress: bool = False,
) -> tuple[Encoders, History]:
    """Train both encoders (Merkx & Frank 2019, section 3.4).

    Args:
        settings: the parameters.
        training: what is learned from.
        dev: what the curves of recall are measured on.
        tokens: ids in use, padding and unknown included.
        device: where to work.
        keep: called with the epoch (from 1) and the encoders whenever a snapshot is due.
        progress: show bars on a terminal.

    Returns:
        The encoders after the last epoch, and the curves.

    Raises:
        TrainingError: there are too few pictures, or the loss is no number.
    """
    check_sizes(settings, training)
    torch.manual_seed(settings.seed)
    encoders = Encoders(tokens, training.features.shape[1], settings)
    if settings.standardise == "training":
        encoders.images.standardise_by(training.features)
    encoders = encoders.to(device)
    features = torch.from_numpy(training.features).to(device)
    optimiser = torch.optim.Adam(encoders.parameters(), lr=settings.rate_min)
    steps = per_epoch(training, settings.batch)
    history = History()
    for epoch in range(settings.epochs):
        _run_epoch(settings, training, features, encoders, optimiser, history, epoch=epoch, steps=steps, bar=progress)
        _validate(encoders, dev, history, epoch + 1)
        if settings.snapshots == "epoch" or (epoch + 1) % settings.cycle == 0:
            keep(epoch + 1, encoders)
    return encoders, history


def check_sizes(settings: TrainSettings, training: Pairs) -> None:
    """Refuse what cannot be trained, before any costly work.

    Raises:
        TrainingError: fewer pictures than two, or than a batch.
    """
    pictures = len(training.image_ids)
    if pictures < max(2, settings.batch):
        raise TrainingError(
            f"train.batch = {settings.batch} is more than the {pictures} training pictures",
            expected="a batch in which no picture is twice",
            todo="Choose a smaller train.batch.",
        )


def _run_epoch(
    settings: TrainSettings,
    training: Pairs,
    features: torch.Tensor,
    encoders: Encoders,
    optimiser: torch.optim.Optimizer,
    history: History,
    *,
    epoch: int,
    steps: int,
    bar: bool,
) -> None:
    encoders.train()
    device = features.device
    together = GROUP if device.type == "cpu" else settings.batch
    order = batches(training, size=settings.batch, bucket=settings.bucket, seed=settings.seed, epoch=epoch)
    losses: list[torch.Tensor] = []
    rates: list[float] = []
    description = f"epoch {epoch + 1}/{settings.epochs}"
    for rows in tqdm(order, desc=description, unit="batch", leave=False, disable=None if bar else True):
        rate = cyclic_rate(epoch * steps + len(losses), settings.cycle * steps, settings.rate_min, settings.rate_max)
        for group in optimiser.param_groups:
            group["lr"] = rate
        pictures = torch.from_numpy(training.image_of_caption[rows]).to(device)  # (B,)
        with torch.autocast(device.type, torch.bfloat16, enabled=settings.precision == "bf16"):
            captions = encoders.captions.embed([training.ids[row] for row in rows], group=together)  # (B, 2n)
        images = encoders.images(features[pictures])  # (B, 2n)
        same = pictures[:, None] == pictures[None, :]  # (B, B)
        loss = LOSSES[settings.loss](captions @ images.T, same, margin=settings.margin, reduction=settings.reduction)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if settings.clip_images is not None:
            clip_grad_norm_(encoders.images.parameters(), settings.clip_images)
        if settings.clip_captions is not None:
            clip_grad_norm_(encoders.captions.parameters(), settings.clip_captions)
        optimiser.step()
        losses.append(loss.detach())
        rates.append(rate)
    _record(history, torch.stack(losses).cpu().numpy().astype(np.float64), rates, first=epoch * steps, epoch=epoch + 1)


def _record(history: History, losses: np.ndarray[Any, Any], rates: list[float], *, first: int, epoch: int) -> None:
    """Add an epoch's points; the losses were left on the device until now."""
    wrong = np.flatnonzero(~np.isfinite(losses))
    if len(wrong):
        raise TrainingError(
            f"the loss is no number at batch {first + int(wrong[0]) + 1} (epoch {epoch}), "
            f"learning rate {rates[int(wrong[0])]:.3g}",
            todo="Lower train.rate_max, or clip the gradients (train.clip_images, train.clip_captions).",
        )
    for block in np.array_split(np.arange(len(losses)), min(POINTS, len(losses))):
        done = first + int(block[-1]) + 1
        history.loss.append((done, float(losses[block].mean())))
        history.rate.append((done, rates[int(block[-1])]))


def _validate(encoders: Encoders, dev: Pairs, history: History, epoch: int) -> None:
    entry = score(embed_images(encoders, dev.features), embed_captions(encoders, dev.ids), dev.image_of_caption)
    history.recall.append((epoch, entry))
    log.info(
        "epoch %d: loss %.4g, dev recall@10 %.1f (caption to image) %.1f (image to caption)",
        epoch,
        history.loss[-1][1],
        entry["caption_to_image"]["r10"],
        entry["image_to_caption"]["r10"],
    )
