"""Classifiers of pictures by name, cut off where their features are taken: torchvision's, and EfficientNet-Lite."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import cast

import torch
from torch import nn

from sightword.errors import FeaturesError
from sightword.features import vision
from sightword.features.efficientnet_lite import NETWORKS, EfficientNetLite

_FEATURE_POINTS = {
    "alexnet": {"fc7": "classifier.6", "fc6": "classifier.4", "pool5": "classifier.1"},
    "convnext": {"avgpool": "classifier.2"},
    "densenet": {"avgpool": "classifier"},
    "efficientnet": {"avgpool": "classifier.1"},
    "efficientnet_lite": {"avgpool": "_fc"},
    "googlenet": {"avgpool": "fc"},
    "inception": {"avgpool": "fc"},
    "maxvit": {"head": "classifier.5", "avgpool": "classifier.2"},
    "mnasnet": {"avgpool": "classifier.1"},
    "mobilenet_v2": {"avgpool": "classifier.1"},
    "mobilenet_v3": {"fc1": "classifier.3", "avgpool": "classifier.0"},
    "regnet": {"avgpool": "fc"},
    "resnet": {"avgpool": "fc"},
    "resnext": {"avgpool": "fc"},
    "shufflenet": {"avgpool": "fc"},
    "squeezenet": {"avgpool": "classifier"},
    "swin": {"avgpool": "head"},
    "vgg": {"fc7": "classifier.6", "fc6": "classifier.3", "pool5": "classifier.0"},
    "vit": {"token": "heads.head"},
    "wide_resnet": {"avgpool": "fc"},
}
"""The feature points by the start of a backbone's name, the default first, each with the module whose input is the
feature. fc6 and fc7 come after their ReLU, DenseNet's after the last ReLU and pooling, MobileNet v3's fc1 after its
Hardswish."""

_NORMALISES_ITSELF = ("googlenet", "inception")
"""Networks whose published weights expect other means than ImageNet's; torchvision converts within the network."""

_AUXILIARY = ("aux1.", "aux2.", "AuxLogits.")
"""Classifiers of GoogLeNet and Inception that are used in training only."""


@dataclass(frozen=True)
class Backbone:
    """A classifier and its feature point."""

    name: str
    feature_point: str
    head: str
    """The module whose input is the feature, by its place in the whole network."""

    def classifier_key(self, key: str) -> bool:
        """Return whether a key of a state dict belongs to the classifier, which features do not need."""
        parent, _, child = self.head.rpartition(".")
        prefix = f"{parent}." if parent else ""
        if key.startswith(_AUXILIARY) or not key.startswith(prefix):
            return key.startswith(_AUXILIARY)
        first = key.removeprefix(prefix).partition(".")[0]
        return int(first) >= int(child) if child.isdigit() and first.isdigit() else first == child


class FeatureNetwork(nn.Module):
    """A network without its classifying layers, and the number of its features."""

    def __init__(self, network: nn.Module, dimension: int) -> None:
        super().__init__()
        self.network = network
        self.dimension = dimension

    def forward(self, crops: torch.Tensor) -> torch.Tensor:
        """Return the features (B, D) of normalised crops (B, 3, height, width)."""
        return cast("torch.Tensor", self.network(crops))


def find_backbone(name: str, feature_point: str = "") -> Backbone:
    """Return a classifier by its name, such as ``resnet152``, with the default feature point if empty.

    Raises:
        FeaturesError: the network or its feature point is unknown; the message has near names.
    """
    names = [*vision.classifiers(), *NETWORKS]
    where = f"backbone {name!r}"
    if name not in names:
        near = difflib.get_close_matches(name, names, n=4, cutoff=0.5)
        expected = f"one such as {', '.join(near or ['resnet152', 'densenet169', 'vgg19', 'inception_v3'])}"
        raise FeaturesError("there is no image network of this name", where=where, expected=expected)
    family = max((family for family in _FEATURE_POINTS if name.startswith(family)), key=len, default=None)
    if family is None:
        expected = f"one of the families {', '.join(_FEATURE_POINTS)}"
        raise FeaturesError("its feature points are not known", where=where, expected=expected)
    points = _FEATURE_POINTS[family]
    point = feature_point or next(iter(points))
    if point not in points:
        what = f"{name} has no feature point of this name"
        raise FeaturesError(what, where=f"feature_point {point!r}", expected=" or ".join(points))
    return Backbone(name, point, points[point])


def build(backbone: Backbone, *, initialise: bool) -> nn.Module:
    """Return the whole network; ``initialise=False`` skips slow draws of random weights if weights are loaded later."""
    if backbone.name in NETWORKS:
        return EfficientNetLite(backbone.name).eval()
    options: dict[str, bool] = {} if initialise or not backbone.name.startswith("vgg") else {"init_weights": False}
    if backbone.name.startswith(_NORMALISES_ITSELF):
        options = {"transform_input": True, "aux_logits": True, "init_weights": initialise}
    network: nn.Module = vision.models.get_model(backbone.name, weights=None, progress=False, **options)
    return network.eval()


def cut(network: nn.Module, backbone: Backbone) -> FeatureNetwork:
    """Cut a network off at its feature point; the given network is changed."""
    parent_name, _, child = backbone.head.rpartition(".")
    parent = network.get_submodule(parent_name)
    dimension = _entering(network.get_submodule(backbone.head))
    names = map(str, range(int(child), len(list(parent.children())))) if child.isdigit() else [child]
    for name in names:
        setattr(parent, name, nn.Identity())
    if backbone.name.startswith("squeezenet"):  # its classifier is a convolution before the pooling
        setattr(parent, child, nn.AdaptiveAvgPool2d(1))
    return FeatureNetwork(network, dimension).eval()


def _entering(head: nn.Module) -> int:
    """Return the number of features that enter a classifier."""
    for module in head.modules():
        if isinstance(module, nn.Linear):
            return module.in_features
        if isinstance(module, nn.Conv2d):
            return module.in_channels
        if isinstance(module, nn.LayerNorm):
            return int(module.normalized_shape[0])
    raise AssertionError(f"{type(head).__name__} is not a classifier")
