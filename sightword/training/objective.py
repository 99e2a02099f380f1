"""The objective that the parameters name, and its learned scale."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sightword.model.losses import hardest, hinge, infonce
from sightword.training.settings import TrainSettings
from sightword.training.stuck import NEAR

LARGEST_SCALE = 100.0
"""Scores are multiplied by no more than this (CLIP, section 2.5)."""


class Objective(nn.Module):
    """The loss of a minibatch.

    Args:
        settings: the parameters.
    """

    def __init__(self, settings: TrainSettings) -> None:
        super().__init__()
        self.settings = settings
        self.log_scale: nn.Parameter | None = None
        if settings.loss == "infonce":
            self.log_scale = nn.Parameter(torch.tensor(-math.log(settings.temperature)))
            self.limit()

    def forward(self, scores: torch.Tensor, same: torch.Tensor, *, epoch: int) -> torch.Tensor:
        """The loss, a scalar.

        Args:
            scores: similarity of caption i and picture j, float (B, B).
            same: bool (B, B), true where caption i describes picture j as well.
            epoch: counted from 0; while it is below ``warm_up``, the hardest mismatch is not yet looked for.
        """
        settings = self.settings
        if self.log_scale is not None:
            return infonce(scores, same, temperature=1 / self.log_scale.exp(), reduction=settings.reduction)
        loss = hardest if settings.loss == "hardest" and epoch >= settings.warm_up else hinge
        return loss(scores, same, margin=settings.margin, reduction=settings.reduction)

    @torch.no_grad()
    def limit(self) -> None:
        """Bring a learned scale back to :data:`LARGEST_SCALE`; call this after each step of the optimiser.

        A limit within the loss would give a scale above it no gradient: the scale would never come down.
        """
        if self.log_scale is not None:
            self.log_scale.clamp_(max=math.log(LARGEST_SCALE))

    def alike(self, pairs: int, *, epoch: int) -> float:
        """The loss of a batch by a model that gives all its pairs one score, and so knows nothing.

        Pairs that share a picture are counted as mismatches here: with them it is a little less.

        Args:
            pairs: how many the batch has.
            epoch: counted from 0.
        """
        settings = self.settings
        each = pairs if settings.reduction == "sum" else 1
        if settings.loss == "infonce":
            return math.log(pairs) * each
        if settings.loss == "hardest" and epoch >= settings.warm_up:
            return 2 * settings.margin * each
        mismatches = pairs * (pairs - 1)
        return 2 * settings.margin * (mismatches if settings.reduction == "sum" else mismatches / pairs**2)

    def flat(self, losses: npt.NDArray[np.float64], pairs: npt.NDArray[np.int64], *, epoch: int) -> bool:
        """Whether an epoch has the hardest mismatch, and each of its losses is near that of equal scores.

        Args:
            losses: one for each batch.
            pairs: how many each batch had.
            epoch: counted from 0.
        """
        if self.settings.loss != "hardest" or epoch < self.settings.warm_up:
            return False
        collapsed = np.array([self.alike(int(number), epoch=epoch) for number in pairs])
        return bool((np.abs(losses - collapsed) <= NEAR * collapsed).all())
