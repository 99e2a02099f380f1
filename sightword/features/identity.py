"""The identity of a feature: everything that determines its numbers, and the key in the store."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sightword.errors import FeaturesError
from sightword.features.networks.network import OwnTransform
from sightword.features.settings import Crops, FeaturesSettings
from sightword.images.settings import Size
from sightword.io.files import canonical_json
from sightword.messages import quote
from sightword.storage.kinds import KindIdentity

KERNELS = {"cpu": "cpu-2", "cuda": "cuda-3", "openvino": "openvino-1"}
"""The version of the computation, by kind of device, and of OpenVINO on a CPU. Any change that moves even the last
bits increases the number, so that old features are not mixed with new features. ``-plain`` follows without the fused
kernels, and the name and the compute capability of a GPU: GPUs of another kind take other kernels."""


@dataclass(frozen=True)
class Transform:
    """How a picture is resized, cropped and normalised, and how the network's output is processed."""

    resize: Size
    """The smaller side, in pixels; or height and width, where the proportions are not kept."""
    interpolation: str
    exif: bool
    crops: Crops
    crop: int
    """The side of a crop, in pixels."""
    mean: Sequence[float]
    std: Sequence[float]
    relu: bool
    l2: bool

    def __post_init__(self) -> None:
        sides = [self.resize] * 2 if isinstance(self.resize, int) else self.resize
        if len(sides) != 2 or sides[0] != sides[1]:
            what = f"pictures were resized to {quote(self.resize)}"
            raise FeaturesError(what, expected="a number, the smaller side; or height and width, both the same")
        side = sides[0]
        if side < self.crop:
            what = f"crops of {self.crop} pixels do not fit into pictures whose smaller side is {side}"
            raise FeaturesError(what, expected="features.crop no larger than resize.side")

    def as_json(self) -> str:
        """Return the record as JSON with sorted keys, as stored in ``features.h5``."""
        return canonical_json(asdict(self))


def transform_of(settings: FeaturesSettings, resized: dict[str, Any], own: OwnTransform) -> Transform:
    """Return the transform of the section ``features`` for pictures resized with the settings ``resized``.

    What the section leaves open is the network's ``own``.
    """
    chosen = settings.model_dump(include={"crops", "crop", "mean", "std", "relu", "l2"})
    left_open = {name: getattr(own, name) for name in ("crop", "mean", "std") if chosen[name] is None}
    return Transform(**resized, **chosen | left_open)


@dataclass(frozen=True)
class Identity(KindIdentity):
    """A kind of feature: everything in the key except the picture."""

    backbone: str
    feature_point: str
    transform: Transform
    weights_sha256: str
    """Of :attr:`sightword.features.weights.Weights.identity`."""
    precision: str
    kernel: str
    """One of :data:`KERNELS`, and the kind of device: devices differ in the last bits."""

    def key(self, picture_sha256: str) -> bytes:
        """Return the key of a picture's feature: the sha256 (32 bytes) of canonical JSON of all that determines it."""
        return hashlib.sha256(canonical_json({**asdict(self), "picture": picture_sha256}).encode()).digest()
