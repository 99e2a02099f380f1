"""Networks for features by name, whichever library they come from."""

from __future__ import annotations

from torch import nn

from sightword.features.networks import function, open_clip, timm, torchvision, transformers
from sightword.features.networks.network import Backbone, FeatureNetwork

_LIBRARIES = {"timm": timm.find, "open_clip": open_clip.find, "transformers": transformers.find}
"""What finds a network of a library, by the word before the colon."""


def find_backbone(name: str, feature_point: str = "") -> Backbone:
    """Return a network by its name, such as ``resnet152``, with the default feature point if empty.

    Args:
        name: a classifier of torchvision, an EfficientNet-Lite, ``timm:NAME``, ``open_clip:NAME/TAG``,
            ``transformers:NAME``, or ``package.module:function``.
        feature_point: the name of a feature point of the network.

    Raises:
        FeaturesError: the network or its feature point is unknown; the message has near names.
        SetupError: the network's library is not installed.
    """
    library, colon, rest = name.partition(":")
    if not colon:
        return torchvision.find(name, feature_point)
    if library in _LIBRARIES:
        return _LIBRARIES[library](rest, feature_point)
    return function.find(name, feature_point)


def build(backbone: Backbone, *, initialise: bool) -> nn.Module:
    """Return the whole network; ``initialise=False`` skips slow draws of random weights if weights are loaded later."""
    return backbone.build(initialise=initialise).eval()


def cut(network: nn.Module, backbone: Backbone) -> FeatureNetwork:
    """Cut a network off at its feature point; the given network is changed."""
    return backbone.cut(network)
