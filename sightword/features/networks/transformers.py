"""Networks of transformers: ``transformers:NAME``, a name of the Hugging Face hub or a folder."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from sightword.errors import FeaturesError, WeightsError
from sightword.features.networks.network import FeatureNetwork, Library, OwnTransform, TokenMean, library, no_point
from sightword.features.settings import IMAGENET_MEAN, IMAGENET_STD
from sightword.messages import and_more, first_line, quote

_POINTS = ["pooled", "cls", "patches", "projected"]
_FILTERS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")
"""Pillow's filters by their number."""


@dataclass(frozen=True)
class Transformers(Library):
    """A network of transformers; of a network that sees pictures and text, the side of pictures."""

    model: str
    """The name in the hub, or the folder."""

    @property
    def configuration(self) -> str:
        """The configuration of the network, which is part of its identity."""
        values = _configuration(self.model).to_dict()
        return str(sorted((key, value) for key, value in values.items() if key not in _NAMES))

    @property
    def own(self) -> OwnTransform:
        """The transform that the network was trained with, of ``preprocessor_config.json``."""
        read = library("transformers", "transformers").image_processing_utils.ImageProcessingMixin
        try:
            found = read.get_image_processor_dict(self.model)[0]
        except (OSError, ValueError) as error:
            raise _unread(self.model, error) from None
        size = found.get("size") or 224
        size = size if isinstance(size, dict) else {"shortest_edge": size}
        mean, std = found.get("image_mean") or IMAGENET_MEAN, found.get("image_std") or IMAGENET_STD
        try:
            resize = size.get("shortest_edge") or [size["height"], size["width"]]
            inner = found.get("crop_size", resize) if found.get("do_center_crop") else resize
            inner = [*inner.values()] if isinstance(inner, dict) else inner
            inner = inner if isinstance(inner, int) else inner[0]
            return OwnTransform(inner, tuple(mean), tuple(std), resize, _FILTERS[found.get("resample") or 3])
        except (TypeError, LookupError):
            what = f"its preprocessor_config.json resizes to {quote(size)}"
            expected = "shortest_edge, or height and width, in pixels"
            raise FeaturesError(what, where=f"backbone {self.name!r}", expected=expected) from None

    def classifier_key(self, key: str) -> bool:
        """Return False: the network has no classifier."""
        del key
        return False

    def made(self, *, published: bool) -> nn.Module:
        """Return the network, with the weights in its folder or of the hub, or with random ones."""
        kind, config = self._class, _vision(self.model)
        network: nn.Module
        if not published:
            network = kind(config)
            return network.float()
        said = library("transformers", "transformers").utils.logging
        before = said.get_verbosity()
        said.set_verbosity_error()  # it names all weights of the side of text
        try:
            network, report = kind.from_pretrained(self.model, config=config, output_loading_info=True)
        finally:
            said.set_verbosity(before)
        missing = [key for key in report["missing_keys"] if self.feature_point == "pooled" or "pooler" not in key]
        if missing:
            what = f"lacks weights of the feature point {self.feature_point} ({and_more(missing)})"
            raise WeightsError(what, where=f"backbone {self.name!r}", expected="the feature point cls or patches")
        return network.float()

    @property
    def _class(self) -> Any:
        transformers, config = library("transformers", "transformers"), _vision(self.model)
        if self.feature_point == "projected":
            name = type(config).__name__.replace("VisionConfig", "VisionModelWithProjection")
            if not (name.endswith("Projection") and hasattr(transformers, name)):
                raise no_point(self.name, "projected", _POINTS[:-1])
            return getattr(transformers, name)
        if type(config) not in transformers.MODEL_MAPPING:
            raise FeaturesError("transformers has no network of this kind", where=f"backbone {self.name!r}")
        return transformers.MODEL_MAPPING[type(config)]

    def cut(self, network: nn.Module) -> FeatureNetwork:
        """Return the network with the feature point as its features."""
        return self.measured(_Output(network, self, _vision(self.model)))


class _Output(nn.Module):
    """One output of a network."""

    def __init__(self, network: nn.Module, backbone: Transformers, config: Any) -> None:
        super().__init__()
        self.network, self.backbone = network, backbone
        side, patch = (getattr(config, name, None) for name in ("image_size", "patch_size"))
        self.patch = patch if isinstance(side, int) and isinstance(patch, int) else None

    def forward(self, crops: torch.Tensor) -> torch.Tensor:
        """Return the features (B, D) of crops."""
        found, point = self.network(pixel_values=crops), self.backbone.feature_point
        if point == "projected":
            projected: torch.Tensor = found.image_embeds
            return projected
        if point == "pooled" and (pooled := getattr(found, "pooler_output", None)) is not None:
            row: torch.Tensor = pooled.flatten(1)
            return row
        tokens: torch.Tensor = found.last_hidden_state
        others = tokens.shape[1] - (crops.shape[2] // self.patch) * (crops.shape[3] // self.patch) if self.patch else -1
        points = [*["cls"] * (others > 0), *["patches"] * (others >= 0)]
        if point not in points or tokens.ndim != 3:
            raise no_point(self.backbone.name, point, points or ["pooled"])
        return tokens[:, 0] if point == "cls" else TokenMean(others)(tokens)


_NAMES = ("_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype")
"""Entries of a configuration that change no number."""


@functools.lru_cache
def _configuration(model: str) -> Any:
    try:
        return library("transformers", "transformers").AutoConfig.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise _unread(model, error) from None


def _vision(model: str) -> Any:
    """Return the configuration of the side of pictures."""
    config = _configuration(model)
    vision = getattr(config, "vision_config", config)
    if vision is not config and hasattr(config, "projection_dim"):
        vision.projection_dim = config.projection_dim
    return vision


def _unread(model: str, error: Exception) -> FeaturesError:
    what = f"is no folder and no name whose files are in the cache or can be downloaded ({first_line(error)})"
    expected = (
        "a name of the hub such as facebook/dinov2-small, or a folder with config.json and preprocessor_config.json"
    )
    return FeaturesError(what, where=f"backbone 'transformers:{model}'", expected=expected)


def find(name: str, feature_point: str) -> Transformers:
    """Return a network of transformers; FeaturesError if the name or the feature point is unknown."""
    library("transformers", "transformers")
    if feature_point not in ("", *_POINTS):
        raise no_point(f"transformers:{name}", feature_point, _POINTS)
    kind = _configuration(name).model_type
    return Transformers(f"transformers:{name}", feature_point or ("projected" if kind == "clip" else "pooled"), name)
