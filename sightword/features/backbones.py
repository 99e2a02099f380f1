"""torchvision's classifiers by name, cut off where their features are taken."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import cast

import torch
from torch import nn

from sightword.errors import FeaturesError
from sightword.features import vision

_FEATURE_POINTS = {
    "alexnet": {"fc7": "classifier.6", "fc6": "classifier.4", "pool5": "classifier.1"},
    "convnext": {"avgpool": "classifier.2"},
    "densenet": {"avgpool": "classifier"},
    "efficientnet": {"avgpool": "classifier.1"},
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
"""By the start of a backbone's name: its feature points, the first being the default,
each with the module whose input the feature is. fc6 and fc7 are taken after their ReLU,
DenseNet's after the last ReLU and pooling, MobileNet v3's fc1 after its Hardswish."""

_NORMALISES_ITSELF = ("googlenet", "inception")
"""Their published weights expect other means than ImageNet's; torchvision converts inside."""

_AUXILIARY = ("aux1.", "aux2.", "AuxLogits.")
"""Classifiers of GoogLeNet and Inception that only training uses."""


@dataclass(frozen=True)
class Backbone:
    """A torchvision classifier and the place its feature is taken."""

    name: str
    feature_point: str
    head: str
    """The module whose input the feature is, by its place in the whole network."""

    def classifier_key(self, key: str) -> bool:
        """Whether a key of a state dict belongs to the classifier, which features do not need."""
        if key.startswith(_AUXILIARY):
            return True
        parent, _, child = self.head.rpartition(".")
        prefix = f"{parent}." if parent else ""
        if not key.startswith(prefix):
            return False
        first = key.removeprefix(prefix).partition(".")[0]
        if child.isdigit():
            return first.isdigit() and int(first) >= int(child)
        return first == child


class FeatureNetwork(nn.Module):
    """Crops in, features out: what enters the classifier.

    Args:
        network: the classifier, already cut off by :func:`cut`.
        dimension: D.
    """

    def __init__(self, network: nn.Module, dimension: int) -> None:
        super().__init__()
        self.network = network
        self.dimension = dimension

    def forward(self, crops: torch.Tensor) -> torch.Tensor:
        """Features (B, D) of normalised crops (B, 3, height, width)."""
        return cast("torch.Tensor", self.network(crops))


def find_backbone(name: str, feature_point: str = "") -> Backbone:
    """The backbone of that name.

    Args:
        name: a torchvision classifier, such as ``resnet152``.
        feature_point: empty for what enters the classifier.

    Raises:
        FeaturesError: no such network, or no such point in it; near names are told.
    """
    names = vision.classifiers()
    if name not in names:
        near = difflib.get_close_matches(name, names, n=4, cutoff=0.5)
        raise FeaturesError(
            "torchvision has no classifier of this name",
            where=f"backbone {name!r}",
            expected=f"one such as {', '.join(near or ['resnet152', 'densenet169', 'vgg19', 'inception_v3'])}",
        )
    family = max((family for family in _FEATURE_POINTS if name.startswith(family)), key=len, default=None)
    if family is None:
        raise FeaturesError(
            "it is not known where its features are",
            where=f"backbone {name!r}",
            expected=f"one of the families {', '.join(_FEATURE_POINTS)}",
        )
    points = _FEATURE_POINTS[family]
    point = feature_point or next(iter(points))
    if point not in points:
        raise FeaturesError(
            f"{name} has no feature point of this name", where=f"feature_point {point!r}", expected=" or ".join(points)
        )
    return Backbone(name, point, points[point])


def build(backbone: Backbone, *, initialise: bool) -> nn.Module:
    """The whole network, not trained.

    Args:
        backbone: from :func:`find_backbone`.
        initialise: draw random weights with care, where the network offers to skip
            it; False when weights are loaded anyway.
    """
    builder = vision.models.get_model_builder(backbone.name)
    options: dict[str, bool] = {}
    if backbone.name.startswith(_NORMALISES_ITSELF):
        options = {"transform_input": True, "aux_logits": True, "init_weights": initialise}
    elif not initialise and backbone.name.startswith("vgg"):
        options = {"init_weights": False}
    network: nn.Module = builder(weights=None, progress=False, **options)
    return network.eval()


def cut(network: nn.Module, backbone: Backbone) -> FeatureNetwork:
    """Cut the network off where its feature is taken; the network given is changed."""
    parent_name, _, child = backbone.head.rpartition(".")
    parent = network.get_submodule(parent_name)
    dimension = _entering(network.get_submodule(backbone.head))
    if backbone.name.startswith("squeezenet"):
        # Its classifier is a convolution before the pooling: pool what enters it.
        setattr(parent, child, nn.AdaptiveAvgPool2d(1))
    elif child.isdigit():
        for later in range(int(child), len(list(parent.children()))):
            setattr(parent, str(later), nn.Identity())
    else:
        setattr(parent, child, nn.Identity())
    return FeatureNetwork(network, dimension).eval()


def _entering(head: nn.Module) -> int:
    """The number of features that enter a classifier."""
    for module in head.modules():
        if isinstance(module, nn.Linear):
            return module.in_features
        if isinstance(module, nn.Conv2d):
            return module.in_channels
        if isinstance(module, nn.LayerNorm):
            return int(module.normalized_shape[0])
    raise AssertionError(f"{type(head).__name__} is no classifier")
