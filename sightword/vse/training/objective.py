"""The objective that the parameters name, and its learned scale."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sightword.model.losses import hardest, hinge, infonce
from sightword.model.similarity import scores
from sightword.vse.training.settings import TrainSettings

LARGEST_SCALE = 100.0
"""Largest factor of the scores (CLIP, Radford et al. 2021, section 2.5)."""
NEAR = 0.01
"""Largest relative difference between a flat loss and the loss of equal scores."""


class Objective(nn.Module):
    """The loss of a minibatch. Epochs are counted from 0."""

    def __init__(self, settings: TrainSettings) -> None:
        super().__init__()
        self.settings = settings
        self.log_scale: nn.Parameter | None = None
        if settings.loss == "infonce":
            self.log_scale = nn.Parameter(torch.tensor(-math.log(settings.temperature)))
            self.limit()

    def forward(self, scores: torch.Tensor, same: torch.Tensor, *, epoch: int) -> torch.Tensor:
        """Return the loss, a scalar.

        Args:
            scores: similarity of caption i and picture j, float (B, B).
            same: bool (B, B), true where caption i describes picture j as well.
            epoch: below ``warm_up``, ``hinge`` stands for ``hardest``.
        """
        settings = self.settings
        if self.log_scale is not None:
            return infonce(scores, same, temperature=1 / self.log_scale.exp(), reduction=settings.reduction)
        loss = hardest if self._is_hardest(epoch) else hinge
        return loss(scores, same, margin=settings.margin, reduction=settings.reduction)

    @torch.no_grad()
    def limit(self) -> None:
        """Limit a learned scale to :data:`LARGEST_SCALE`; call this after each step of the optimiser.

        A limit within the loss would give a scale above it no gradient: the scale would never come down.
        """
        if self.log_scale is not None:
            self.log_scale.clamp_(max=math.log(LARGEST_SCALE))

    def both(
        self, captions: Sequence[torch.Tensor], images: torch.Tensor, same: torch.Tensor, *, epoch: int
    ) -> torch.Tensor:
        """Return the loss of B pictures with one or two captions of each, a scalar.

        The loss is the mean over the captions of their loss with the pictures. With two of each, the loss of
        one with the other is added; without pictures it is all, and the pictures have gradients of zero.

        Args:
            captions: one or two times float (B, D).
            images: float (B, D).
            same: bool (B, B), true where pictures are copies of each other.
            epoch: the epoch.
        """
        similarity = self.settings.similarity
        losses: list[torch.Tensor] = [self(scores(each, images, similarity), same, epoch=epoch) for each in captions]
        if len(losses) == 1:
            return losses[0]
        beside: torch.Tensor = self(scores(captions[0], captions[1], similarity), same, epoch=epoch)
        if self.settings.pictures == "none":
            return beside + 0 * images.sum()
        return torch.stack(losses).mean() + beside

    def beside(self, first: torch.Tensor, second: torch.Tensor, *, epoch: int) -> torch.Tensor:
        """Return the loss of captions without pictures, (B, D), with others of their groups, (B, D)."""
        same = torch.eye(len(first), dtype=torch.bool, device=first.device)
        loss: torch.Tensor = self(scores(first, second, self.settings.similarity), same, epoch=epoch)
        return loss

    def alike(self, pairs: int, *, epoch: int) -> float:
        """Return the loss of a batch of ``pairs`` by a model that gives all pairs one score, and so knows nothing.

        All pairs count as mismatches; the loss is a little smaller where pairs share a picture.
        """
        settings = self.settings
        objectives = 2 if settings.second_caption and settings.pictures != "none" else 1
        beside = settings.beside_batch
        return objectives * self._alike(pairs, epoch) + (self._alike(beside, epoch) if beside else 0)

    def _alike(self, pairs: int, epoch: int) -> float:
        settings = self.settings
        each = pairs if settings.reduction == "sum" else 1
        if settings.loss == "infonce":
            return math.log(pairs) * each
        if self._is_hardest(epoch):
            return 2 * settings.margin * each
        mismatches = pairs * (pairs - 1)
        return 2 * settings.margin * mismatches * each / (pairs if settings.reduction == "sum" else pairs**2)

    def flat(self, losses: npt.NDArray[np.float64], pairs: npt.NDArray[np.int64], *, epoch: int) -> bool:
        """Return whether an epoch has the hardest mismatch, and all its losses are near the loss of equal scores.

        Args:
            losses: the loss of each batch.
            pairs: the number of pairs of each batch.
            epoch: the epoch of these batches.
        """
        if not self._is_hardest(epoch):
            return False
        collapsed = np.array([self.alike(int(number), epoch=epoch) for number in pairs])
        return bool((np.abs(losses - collapsed) <= NEAR * collapsed).all())

    def _is_hardest(self, epoch: int) -> bool:
        return self.settings.loss == "hardest" and epoch >= self.settings.warm_up
