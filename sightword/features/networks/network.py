"""What all networks for features have in common, whichever library they come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import torch
from torch import nn

from sightword.errors import FeaturesError
from sightword.features.settings import HUB, IMAGENET_MEAN, IMAGENET_STD, RANDOM

PUBLISHED_CROP = 224
"""The side of a crop in pixels (Merkx & Frank 2019)."""


@dataclass(frozen=True)
class OwnTransform:
    """The transform that a network was trained with."""

    crop: int = PUBLISHED_CROP
    """The side of a crop, in pixels."""
    mean: tuple[float, ...] = tuple(IMAGENET_MEAN)
    std: tuple[float, ...] = tuple(IMAGENET_STD)
    resize: int | list[int] | None = None
    """The smaller side, or height and width, in pixels; None where any is right."""
    interpolation: str | None = None
    """The name of Pillow's filter; None where any is right."""


class FeatureNetwork(nn.Module):
    """A network without its classifying layers, and the number of its features."""

    def __init__(self, network: nn.Module, dimension: int) -> None:
        super().__init__()
        self.network = network
        self.dimension = dimension

    def forward(self, crops: torch.Tensor) -> torch.Tensor:
        """Return the features (B, D) of normalised crops (B, 3, height, width)."""
        return cast("torch.Tensor", self.network(crops))


@dataclass(frozen=True)
class Backbone(ABC):
    """A network by its name, and the feature point in it."""

    name: str
    feature_point: str

    @property
    def own(self) -> OwnTransform:
        """The transform that the network was trained with."""
        return OwnTransform()

    @property
    @abstractmethod
    def accepted(self) -> list[str]:
        """The names of weights that are no file."""

    @abstractmethod
    def classifier_key(self, key: str) -> bool:
        """Return whether a key of a state dict belongs to what features do not need, such as the classifier."""

    def renamed(self, state: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """Return a state dict of a file with the names of :meth:`build`."""
        return state

    @abstractmethod
    def build(self, *, initialise: bool) -> nn.Module:
        """Return the whole network with random weights, which ``initialise=False`` may leave undrawn."""

    @abstractmethod
    def cut(self, network: nn.Module) -> FeatureNetwork:
        """Cut a whole network off at the feature point; the given network is changed."""


@dataclass(frozen=True)
class Library(Backbone):
    """A network that a library gives whole, with weights or without."""

    @property
    def configuration(self) -> str:
        """What determines the numbers beside name, feature point and weights; part of the weights' sha256."""
        return ""

    @property
    def accepted(self) -> list[str]:
        """The names of weights that are no file."""
        return [HUB, RANDOM]

    @abstractmethod
    def made(self, *, published: bool) -> nn.Module:
        """Return the whole network, with the weights of the library (from its cache, or downloaded) or random ones."""

    def build(self, *, initialise: bool) -> nn.Module:
        """Return the whole network with random weights."""
        del initialise  # these libraries always draw
        return self.made(published=False)

    def measured(self, network: nn.Module) -> FeatureNetwork:
        """Return a network whose number of features one empty crop tells.

        Raises:
            FeaturesError: the network does not return a row of numbers for a crop.
        """
        side, first = self.own.crop, next(network.parameters(), torch.empty(0))
        with torch.inference_mode():
            found = network.eval()(torch.zeros(1, 3, side, side, device=first.device))
        if not isinstance(found, torch.Tensor) or found.ndim != 2 or len(found) != 1:
            shape = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
            what = f"the network has no feature point: for one crop it returns {shape}"
            raise FeaturesError(what, where=f"backbone {self.name!r}", expected="a tensor (crops, features)")
        return FeatureNetwork(network, found.shape[1]).eval()


def no_point(name: str, point: str, points: list[str]) -> FeaturesError:
    """Return the error of a feature point that a network does not have."""
    what = f"{name} has no feature point of this name"
    return FeaturesError(what, where=f"feature_point {point!r}", expected=" or ".join(points))
