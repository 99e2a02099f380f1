"""Networks of timm: ``timm:NAME`` or ``timm:NAME.TAG``, as ``timm.list_models()`` has them."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from sightword.errors import FeaturesError, SetupError
from sightword.features import vision
from sightword.features.networks.network import FeatureNetwork, Library, OwnTransform, no_point
from sightword.messages import did_you_mean, install_extra

_POINTS = ["pooled", "cls", "patches"]


@dataclass(frozen=True)
class Timm(Library):
    """A network of timm."""

    model: str
    """The name in timm."""

    @property
    def _config(self) -> Any:
        return _timm().get_pretrained_cfg(self.model)

    @property
    def own(self) -> OwnTransform:
        """The transform that the network was trained with, as timm's own evaluation applies it."""
        found = _timm().data.resolve_data_config(pretrained_cfg=self._config.to_dict(), model=None)
        crop = int(found["input_size"][-1])
        side = int(crop / found["crop_pct"])
        squashed = found["crop_mode"] == "squash"
        return OwnTransform(
            *(crop, tuple(found["mean"]), tuple(found["std"])),
            [side, side] if squashed else side,
            found["interpolation"],
        )

    def classifier_key(self, key: str) -> bool:
        """Return whether a key of a state dict belongs to the classifier."""
        names = self._config.classifier or ()
        return key.startswith(tuple(f"{name}." for name in ([names] if isinstance(names, str) else names)))

    def made(self, *, published: bool) -> nn.Module:
        """Return the network without its classifier, with the weights that timm publishes or with random ones."""
        network: nn.Module = _timm().create_model(self.model, pretrained=published, num_classes=0)
        return network

    def cut(self, network: nn.Module) -> FeatureNetwork:
        """Return the network with the pooled output, the class token or the mean of the patches as its features."""
        if self.feature_point == "pooled":
            return self.measured(network)
        prefix = int(getattr(network, "num_prefix_tokens", -1))
        points = [
            *_POINTS[:1],
            *_POINTS[1:2] * (getattr(network, "cls_token", None) is not None),
            *_POINTS[2:] * (prefix >= 0),
        ]
        if self.feature_point not in points:
            raise no_point(self.name, self.feature_point, points)
        return self.measured(_Tokens(network, prefix if self.feature_point == "patches" else None))


class _Tokens(nn.Module):
    """The class token of a transformer, or the mean of its patches."""

    def __init__(self, network: nn.Module, prefix: int | None) -> None:
        super().__init__()
        self.network, self.prefix = network, prefix

    def forward(self, crops: torch.Tensor) -> torch.Tensor:
        """Return the features (B, D) of crops."""
        tokens: torch.Tensor = self.network.forward_features(crops)  # type: ignore[operator]  # a method of timm's
        return tokens[:, 0] if self.prefix is None else tokens[:, self.prefix :].mean(dim=1)


def find(name: str, feature_point: str) -> Timm:
    """Return a network of timm; FeaturesError if the name, its tag or the feature point is unknown."""
    timm, where = _timm(), f"backbone 'timm:{name}'"
    architecture, _, tag = name.partition(".")
    if not timm.is_model(architecture):
        near = did_you_mean(architecture, timm.list_models())
        raise FeaturesError(
            "timm has no network of this name", where=where, todo=near or "`timm.list_models()` has all."
        )
    tags = [one.partition(".")[2] for one in timm.list_models(f"{architecture}.*", pretrained=True)]
    if tag and tag not in tags:
        what = f"timm has no weights {tag!r} of {architecture}"
        raise FeaturesError(what, where=where, expected=" or ".join(tags) or "no tag: it publishes no weights")
    if feature_point not in ("", *_POINTS):
        raise no_point(f"timm:{name}", feature_point, _POINTS)
    return Timm(f"timm:{name}", feature_point or _POINTS[0], name)


def _timm() -> Any:
    """Import timm, after torchvision (:mod:`sightword.features.vision`), which it imports."""
    assert vision.torchvision
    try:
        return importlib.import_module("timm")
    except ModuleNotFoundError as error:
        if error.name != "timm":
            raise
        raise SetupError("timm is not installed", where="features.backbone", todo=install_extra("timm")) from None
