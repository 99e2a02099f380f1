"""The parts of an encoder: networks that read sentences, and maps from their vectors into spaces."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sightword.captions.vocabulary import Vocabulary
from sightword.compute.threads import spread
from sightword.model.embedding import Floats
from sightword.model.encoders import CaptionEncoder, Encoders, ImageEncoder
from sightword.model.shape import Shape

SPACES = ("sentence", "grounded", "visual")
"""Names of spaces: s, the combined vectors of the parts; g(s), and f(s) (Bordes et al. 2019)."""
_ROWS = 1024


@dataclass(frozen=True, eq=False)
class Part:
    """One network that reads sentences, and the network that reads pictures, if there is one."""

    captions: CaptionEncoder
    vocabulary: Vocabulary
    shape: Shape
    images: ImageEncoder | None = None

    @property
    def network(self) -> nn.ModuleDict:
        """Both networks, ``captions`` and ``images``."""
        return nn.ModuleDict({"captions": self.captions, **({"images": self.images} if self.images else {})})

    @property
    def features_width(self) -> int:
        """Number of features of a picture; 0 without a side of pictures."""
        return self.images.linear.in_features if self.images else 0


def parts_of(networks: Iterable[Encoders], vocabulary: Vocabulary, shape: Shape) -> list[Part]:
    """Return the parts of networks with two sides, or without that of pictures."""
    return [Part(one.captions, vocabulary, shape, getattr(one, "images", None)) for one in networks]


def blank(tokens: int, shape: Shape, features_width: int = 0) -> nn.ModuleDict:
    """Return the networks of a part without memory for weights; 0 features: without a side of pictures."""
    with torch.device("meta"):
        sides: dict[str, nn.Module] = {"captions": CaptionEncoder(tokens, shape)}
        if features_width:
            sides["images"] = ImageEncoder(features_width, shape)
    return nn.ModuleDict(sides)


def head(widths: Sequence[int]) -> nn.Sequential:
    """Return affine maps from each width to the next, with a ReLU between two maps; fewer than two widths: nothing."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [*([nn.ReLU()] if layers else []), nn.Linear(inputs, outputs)]
    return nn.Sequential(*layers)


def widths_of(module: nn.Sequential) -> list[int]:
    """Return the argument of :func:`head` that gives this shape."""
    maps = [layer for layer in module if isinstance(layer, nn.Linear)]
    return [maps[0].in_features, *(one.out_features for one in maps)] if maps else []


def mapped(module: nn.Sequential, vectors: Floats, device: torch.device) -> Floats:
    """Return the vectors (N, D) mapped by a head, float32 (N, width), in equal bits on any number of threads."""
    if not len(module):
        return vectors
    parts: dict[int, npt.NDArray[np.float32]] = {}

    def work(start: int) -> None:
        with torch.inference_mode():
            parts[start] = module(torch.from_numpy(vectors[start : start + _ROWS]).to(device)).cpu().numpy()

    starts = range(0, max(len(vectors), 1), _ROWS)
    if device.type == "cpu":
        spread(work, starts)
    else:
        for start in starts:
            work(start)
    return np.concatenate([parts[start] for start in starts])
