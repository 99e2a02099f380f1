"""Networks for features by name, whichever library they come from."""

from __future__ import annotations

import contextlib

import torch
from torch import nn

from sightword.compute.devices import OwnRandom
from sightword.errors import FeaturesError
from sightword.features.networks import function, timm, torchvision
from sightword.features.networks.network import Backbone, FeatureNetwork
from sightword.messages import first_line


def find_backbone(name: str, feature_point: str = "") -> Backbone:
    """Return a network by its name, such as ``resnet152``, with the default feature point if empty.

    Args:
        name: a classifier of torchvision, an EfficientNet-Lite, ``timm:NAME``, or ``package.module:function``.
        feature_point: the name of a feature point of the network.

    Raises:
        FeaturesError: the network or its feature point is unknown; the message has near names.
        SetupError: timm is not installed.
    """
    library, colon, rest = name.partition(":")
    if not colon:
        return torchvision.find(name, feature_point)
    return timm.find(rest, feature_point) if library == "timm" else function.find(name, feature_point)


def build(backbone: Backbone, *, initialise: bool) -> nn.Module:
    """Return the whole network; ``initialise=False`` skips slow draws of random weights if weights are loaded later."""
    return backbone.build(initialise=initialise).eval()


def skeleton(backbone: Backbone) -> FeatureNetwork:
    """Return a network on torch's meta device, without numbers; FeaturesError if the network takes no pictures."""
    try:
        with contextlib.suppress(RuntimeError), torch.device("meta"):
            return backbone.cut(build(backbone, initialise=False)).to("meta")
        with OwnRandom():  # RegNet and others compute with tensors, which need numbers
            network = build(backbone, initialise=False)
        return backbone.cut(network.to("meta"))
    except (RuntimeError, AssertionError, ValueError, TypeError) as error:
        what = f"the network does not take crops of {backbone.own.crop} pixels ({first_line(error)})"
        raise FeaturesError(what, where=f"backbone {backbone.name!r}") from None


def check_crop(network: FeatureNetwork, crop: int) -> None:
    """Raise FeaturesError if a :func:`skeleton` does not take crops of this size, in pixels."""
    try:
        with torch.inference_mode():
            network(torch.zeros((1, 3, crop, crop), device="meta"))
    except (RuntimeError, AssertionError, ValueError) as error:
        what = f"the network does not take crops of {crop} pixels ({first_line(error)})"
        todo = "Most networks take 224, Inception v3 takes 299, and some transformers take one size only."
        raise FeaturesError(what, where="features.crop", todo=todo) from None
