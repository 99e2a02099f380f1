"""Features of picture files by random networks that tell pictures apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from sightword import FeaturesSettings, ResizeSettings
from sightword import extract as extract_by
from sightword.features.networks import build, find_backbone
from sightword.io.files import Pathish, sha256_file


def extract(pictures: Sequence[Pathish], backbone: str, weights: Pathish = "random", **options: Any) -> np.ndarray:
    """Return features by :func:`sightword.extract`; ``weights`` may be a path, whose sha256 is then taken."""
    sides = {"resize": "side", "fit": "fit", "interpolation": "interpolation", "exif": "exif"}
    resize = ResizeSettings(**{sides[name]: options.pop(name) for name in [*options] if name in sides})
    places = {name: options.pop(name) for name in ("store", "device", "workers") if name in options}
    if isinstance(weights, Path):
        options |= {
            "inputs": str(weights.parent),
            "weights_sha256": options.get("weights_sha256") or sha256_file(weights),
        }
    settings = FeaturesSettings(
        backbone=backbone, weights=Path(weights).name if isinstance(weights, Path) else weights, **options
    )
    return extract_by(pictures, settings, resize, **places)


def pictures(name: str) -> torch.Tensor:
    """Two pictures of coarse blocks: noise looks all alike to a network."""
    fixed = {"vit": 224, "swin": 224, "maxvit": 224, "inception": 299}
    side = fixed.get(name.partition("_")[0], 128)
    blocks = torch.randn(2, 3, 7, 7, generator=torch.Generator().manual_seed(1))
    return nn.functional.interpolate(blocks, size=side)


def lively(name: str) -> nn.Module:
    """A random network whose batch norms do what trained ones do: without that, all pictures come out alike."""
    backbone = find_backbone(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = backbone.cut(build(backbone, initialise=True))
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = 1.0
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.normal_(module.bias, 0, 0.1)
        with torch.no_grad():
            network.train()(pictures(name))
    return network.eval()


def difference(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest, as a part of the largest number."""
    return float((one - other).abs().max() / one.abs().max())


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest of 1 - cosine."""
    return float(1 - nn.functional.cosine_similarity(one, other.double().flatten(1)).min())
