"""The trained modules of a scenario, and the losses of captions and pictures (Bordes et al. 2019, section 3.2).

Rows are pictures of a batch. ``same`` is bool (B, B), true where two rows have the same picture or copies of it, the
diagonal included: such rows are not mismatches of each other.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from sightword.encoder.parts import head
from sightword.grounded.training.settings import Scenario
from sightword.model.encoders import CaptionEncoder
from sightword.model.losses import infonce
from sightword.model.similarity import unit

MARGIN, TEMPERATURE = 0.5, 0.05
"""Gamma of equation 2, as in the released code, and the divisor of the cosines in InfoNCE."""


def cosines(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return the cosine (B, N) of each row of (B, D) with each row of (N, D), in float32 or float64."""
    return unit(left, "cosine") @ unit(right, "cosine").T


def ranked(scores: torch.Tensor, same: torch.Tensor, draws: torch.Tensor | None) -> torch.Tensor:
    """Return the max-margin loss of right pairs on the diagonal against mismatches (equation 2, and the CM baseline).

    With ``draws``, the mean over rows of ``[margin - s_ii + s_ij]+`` for one mismatch j of row i, drawn evenly.
    Without, the mean over rows of the sum over all mismatches j, half of ``[margin - s_ii + s_ij]+`` and half of
    ``[margin - s_ii + s_ji]+``. Rows without a mismatch do not count; without any counted row the loss is 0.

    Args:
        scores: float (B, B), similarity of the left side of row i and the right side of row j.
        same: bool (B, B), see above.
        draws: float (B, B), random and not negative: the largest of a row's mismatches is taken.
    """
    weights = ~same
    if draws is not None:
        chosen = draws.masked_fill(same, -1.0).argmax(dim=1, keepdim=True)
        weights = weights & (torch.arange(len(same), device=same.device) == chosen)
    weights = weights.to(torch.float32).to(scores.dtype)
    right = scores.diagonal()[:, None]
    cost = (MARGIN - right + scores).clamp(min=0)
    if draws is None:
        cost = (cost + (MARGIN - right + scores.T).clamp(min=0)) / 2
    counted = (weights.sum(dim=1) > 0).sum()
    return (cost * weights).sum() / counted.clamp(min=1)


def cluster(
    left: torch.Tensor, right: torch.Tensor, same: torch.Tensor, draws: torch.Tensor, *, contrast: bool = False
) -> torch.Tensor:
    """Return the cluster loss of two captions (B, D) of each picture in the grounded space.

    It is :func:`ranked` for one mismatch (equation 2), or with ``contrast`` InfoNCE over the batch.
    """
    scores = cosines(left, right)
    if not len(scores):
        return scores.sum()
    if contrast:
        return infonce(scores, same, temperature=scores.new_tensor(TEMPERATURE), reduction="mean")
    return ranked(scores, same, draws)


def perceptual(sentences: torch.Tensor, pictures: torch.Tensor) -> torch.Tensor:
    """Return the perceptual loss (equation 3): minus Pearson's correlation of the cosines of each two rows.

    Args:
        sentences: float (B, D), a caption of each picture in the grounded space.
        pictures: float (B, F), the features of each picture.

    Returns:
        A scalar; NaN if all cosines of one side are equal.
    """
    ours, theirs = cosines(sentences, sentences), cosines(pictures, pictures)
    upper, to = torch.triu_indices(len(ours), len(ours), offset=1, device=ours.device)
    ours, theirs = ours[upper, to], theirs[upper, to]
    ours, theirs = ours - ours.mean(), theirs - theirs.mean()
    return -(ours * theirs).sum() / (ours.square().sum() * theirs.square().sum()).sqrt()


class Seen(NamedTuple):
    """A batch of B pictures on the device."""

    first: torch.Tensor  # (B, D) s of a caption of each picture
    second: torch.Tensor  # (P, D) s of another caption of the pictures that have one
    paired: torch.Tensor  # int64 (P,), the rows of these pictures
    pictures: torch.Tensor  # (B, F)
    same: torch.Tensor  # bool (B, B), rows with the same picture or copies of it
    shown: torch.Tensor  # bool (B, B), rows with the same features
    draws: torch.Tensor  # float (2, B, B)


class Network(nn.Module):
    """The trained modules besides those of the text: ``width`` numbers of a sentence, ``features`` of a picture."""

    def __init__(self, captions: CaptionEncoder, width: int, features: int, scenario: Scenario) -> None:
        super().__init__()
        self.scenario = scenario
        self.captions = captions
        self.grounded = head([width, scenario.hidden, scenario.width] if scenario.has_grounded else [])
        self.visual = head([width, scenario.hidden, features] if scenario.projection else [])
        self.ranking = head([width, features] if scenario.ranking else [])

    def losses(self, seen: Seen) -> dict[str, torch.Tensor]:
        """Return the loss of each part with a weight above zero, scalars before weighting."""
        scenario, found = self.scenario, {}
        if scenario.cluster:
            paired = seen.paired
            same, draws = (one[paired][:, paired] for one in (seen.same, seen.draws[0]))
            sides = self.grounded(seen.first[paired]), self.grounded(seen.second)
            found["cluster"] = cluster(*sides, same, draws, contrast=scenario.cluster_loss == "infonce")
        if scenario.perceptual:
            found["perceptual"] = perceptual(self.grounded(seen.first), seen.pictures)
        if scenario.projection:
            found["projection"] = ranked(cosines(self.visual(seen.first), seen.pictures), seen.shown, seen.draws[1])
        if scenario.ranking:
            found["ranking"] = ranked(cosines(self.ranking(seen.first), seen.pictures), seen.shown, None)
        return found
