"""Classifiers of pictures by name, cut off where their features are taken: torchvision's, and EfficientNet-Lite."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

from sightword.errors import FeaturesError
from sightword.features import vision
from sightword.features.networks.efficientnet_lite import NETWORKS, EfficientNetLite
from sightword.features.networks.network import Backbone, FeatureNetwork, no_point
from sightword.features.settings import PACKAGE, RANDOM

FEATURE_POINTS = {
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


# torchvision's DenseNet files have names from before 2017, which its own loader renames in the same way.
_OLD_DENSENET = re.compile(
    r"^(.*denselayer\d+\.(?:norm|relu|conv))\.((?:[12])\.(?:weight|bias|running_mean|running_var))$"
)


@dataclass(frozen=True)
class Classifier(Backbone):
    """A classifier and its feature point."""

    head: str
    """The module whose input is the feature, by its place in the whole network."""

    @property
    def accepted(self) -> list[str]:
        """The names of weights that are no file."""
        if self.name in NETWORKS:
            return [PACKAGE, RANDOM]
        return [*(entry.name for entry in vision.models.get_model_weights(self.name)), RANDOM]

    def classifier_key(self, key: str) -> bool:
        """Return whether a key of a state dict belongs to the classifier, which features do not need."""
        parent, _, child = self.head.rpartition(".")
        prefix = f"{parent}." if parent else ""
        if key.startswith(_AUXILIARY) or not key.startswith(prefix):
            return key.startswith(_AUXILIARY)
        first = key.removeprefix(prefix).partition(".")[0]
        return int(first) >= int(child) if child.isdigit() and first.isdigit() else first == child

    def renamed(self, state: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """Return a state dict of a file with the names of :meth:`build`."""
        if not self.name.startswith("densenet"):
            return state
        return {_OLD_DENSENET.sub(r"\1\2", key): value for key, value in state.items()}

    def build(self, *, initialise: bool) -> nn.Module:
        """Return the whole network with random weights, which ``initialise=False`` may leave undrawn."""
        if self.name in NETWORKS:
            return EfficientNetLite(self.name)
        options: dict[str, bool] = {} if initialise or not self.name.startswith("vgg") else {"init_weights": False}
        if self.name.startswith(_NORMALISES_ITSELF):
            options = {"transform_input": True, "aux_logits": True, "init_weights": initialise}
        network: nn.Module = vision.models.get_model(self.name, weights=None, progress=False, **options)
        return network

    def cut(self, network: nn.Module) -> FeatureNetwork:
        """Cut a whole network off at the feature point; the given network is changed."""
        parent_name, _, child = self.head.rpartition(".")
        parent = network.get_submodule(parent_name)
        dimension = _entering(network.get_submodule(self.head))
        names = map(str, range(int(child), len(list(parent.children())))) if child.isdigit() else [child]
        for name in names:
            setattr(parent, name, nn.Identity())
        if self.name.startswith("squeezenet"):  # its classifier is a convolution before the pooling
            setattr(parent, child, nn.AdaptiveAvgPool2d(1))
        return FeatureNetwork(network, dimension).eval()


def find(name: str, feature_point: str) -> Classifier:
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
    family = max((family for family in FEATURE_POINTS if name.startswith(family)), key=len, default=None)
    if family is None:
        expected = f"one of the families {', '.join(FEATURE_POINTS)}"
        raise FeaturesError("its feature points are not known", where=where, expected=expected)
    points = FEATURE_POINTS[family]
    point = feature_point or next(iter(points))
    if point not in points:
        raise no_point(name, point, list(points))
    return Classifier(name, point, points[point])


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
