"""Networks of open_clip: ``open_clip:NAME/TAG``, the side of pictures of a network that sees pictures and text."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from sightword.errors import FeaturesError, WeightsError
from sightword.features.networks.network import FeatureNetwork, Library, OwnTransform, library, no_point
from sightword.messages import did_you_mean

_POINTS = ["projected", "pooled", "patches"]


@dataclass(frozen=True)
class OpenClip(Library):
    """A network of open_clip."""

    model: str
    """The name in open_clip."""
    tag: str
    """The name of its published weights; empty without."""

    @property
    def own(self) -> OwnTransform:
        """The transform that the network was trained with."""
        clip, constants = _clip(), library("open_clip.constants", "clip")
        weights = clip.get_pretrained_cfg(self.model, self.tag) if self.tag else {}
        config = clip.get_model_config(self.model)
        side = config["vision_cfg"].get("image_size", 224)
        side = int(side if isinstance(side, int) else side[-1])
        chosen = {**config.get("preprocess_cfg", {}), **weights}
        mean, std = (
            chosen.get("mean") or constants.OPENAI_DATASET_MEAN,
            chosen.get("std") or constants.OPENAI_DATASET_STD,
        )
        squashed = chosen.get("resize_mode") == "squash"
        return OwnTransform(
            *(side, tuple(mean), tuple(std)),
            [side, side] if squashed else side,
            chosen.get("interpolation") or "bicubic",
        )

    def classifier_key(self, key: str) -> bool:
        """Return whether a key of a state dict belongs to the side of text."""
        return not key.startswith("visual.")

    def made(self, *, published: bool) -> nn.Module:
        """Return the side of pictures, with the weights of the tag or with random ones."""
        clip = _clip()
        if published and not self.tag:
            tags = " or ".join(clip.list_pretrained_tags_by_model(self.model)) or "none: it publishes no weights"
            raise WeightsError("names no weights", where=f"backbone {self.name!r}", expected=f"/TAG after it: {tags}")
        config = clip.get_pretrained_cfg(self.model, self.tag) if self.tag else {}
        gelu = bool(config.get("quick_gelu"))  # OpenAI's weights need it, and open_clip only warns
        root = logging.getLogger()
        root.addFilter(_not_random)  # the stage itself says so, and here the weights may come later
        try:
            whole = clip.create_model(self.model, pretrained=self.tag if published else None, force_quick_gelu=gelu)
        finally:
            root.removeFilter(_not_random)
        found = nn.Module()
        found.visual = whole.visual
        return found

    def cut(self, network: nn.Module) -> FeatureNetwork:
        """Return the side of pictures with the feature point as its features."""
        visual: Any = network.visual
        transformer = isinstance(visual, _clip().transformer.VisionTransformer)
        if not transformer and self.feature_point != "projected":
            raise no_point(self.name, self.feature_point, ["projected"])
        if self.feature_point == "pooled":
            visual.proj = None
        elif self.feature_point == "patches":
            visual.proj, visual.output_tokens = None, True
            return self.measured(_Patches(visual))
        return self.measured(visual)


class _Patches(nn.Module):
    """The mean of a transformer's patches."""

    def __init__(self, visual: nn.Module) -> None:
        super().__init__()
        self.visual = visual

    def forward(self, crops: torch.Tensor) -> torch.Tensor:
        """Return the features (B, D) of crops."""
        tokens: torch.Tensor = self.visual(crops)[1]
        return tokens.mean(dim=1)


def find(name: str, feature_point: str) -> OpenClip:
    """Return a network of open_clip; FeaturesError if the name, its tag or the feature point is unknown."""
    clip, where = _clip(), f"backbone 'open_clip:{name}'"
    model, _, tag = name.partition("/")
    if model not in clip.list_models():
        near = did_you_mean(model, clip.list_models()) or "`open_clip.list_models()` has all."
        raise FeaturesError("open_clip has no network of this name", where=where, todo=near)
    tags = clip.list_pretrained_tags_by_model(model)
    if tag and tag not in tags:
        what = f"open_clip has no weights {tag!r} of {model}"
        raise FeaturesError(what, where=where, expected=" or ".join(tags) or "no tag: it publishes no weights")
    if feature_point not in ("", *_POINTS):
        raise no_point(f"open_clip:{name}", feature_point, _POINTS)
    return OpenClip(f"open_clip:{name}", feature_point or _POINTS[0], model, tag)


def _not_random(record: logging.LogRecord) -> bool:
    """Return whether a message is another one than that the network has random weights."""
    return "initialized randomly" not in record.getMessage()


def _clip() -> Any:
    return library("open_clip", "clip")
