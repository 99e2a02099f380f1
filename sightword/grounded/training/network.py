"""The network of a training run: the sentence encoder, the maps into other spaces, and the losses of a batch."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from sightword.encoder.parts import head
from sightword.grounded.training.losses import cluster, cosines, perceptual, ranked
from sightword.grounded.training.settings import Scenario
from sightword.model.encoders import CaptionEncoder


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
    """The trained modules besides those of the text.

    Args:
        captions: the sentence encoder.
        width: D, numbers of its vectors.
        features: F, features of a picture.
        scenario: the parameters.
    """

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
            found["cluster"] = cluster(
                self.grounded(seen.first[paired]),
                self.grounded(seen.second),
                seen.same[paired][:, paired],
                seen.draws[0][paired][:, paired],
                margin=scenario.margin,
                negatives=scenario.negatives,
                temperature=scenario.temperature if scenario.cluster_loss == "infonce" else None,
            )
        if scenario.perceptual:
            found["perceptual"] = perceptual(
                self.grounded(seen.first), seen.pictures, pairs=scenario.pairs, similarity=scenario.similarity
            )
        if scenario.projection:
            scores = cosines(self.visual(seen.first), seen.pictures)
            found["projection"] = ranked(
                scores, seen.shown, seen.draws[1], margin=scenario.margin, negatives=scenario.negatives
            )
        if scenario.ranking:
            scores = cosines(self.ranking(seen.first), seen.pictures)
            found["ranking"] = ranked(scores, seen.shown, seen.draws[1], margin=scenario.margin, negatives="all")
        return found
