"""The identity of a feature: everything that determines its numbers, and the key in the store."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sightword.errors import FeaturesError
from sightword.features.networks import OwnTransform
from sightword.features.settings import Crops, FeaturesSettings
from sightword.images.settings import Size
from sightword.io.files import canonical_json
from sightword.io.modules import hash_sources
from sightword.messages import quote
from sightword.storage.store import KindIdentity

CODE = (
    "compute/devices.py",
    "features/extraction.py",
    "features/extractor.py",
    "features/fusion.py",
    "features/identity.py",
    "features/network_files.py",
    "features/networks.py",
    "features/norms.py",
    "features/openvino.py",
    "features/vision.py",
    "features/weights.py",
    "images/encoding.py",
)
"""The files of sightword that can change a number between the pixels of a picture and the feature."""


@functools.cache
def code_sha256() -> str:
    """Return the sha256 of the running program's :data:`CODE`, in hex."""
    return hash_sources(Path(__file__).parents[1], CODE)


@dataclass(frozen=True)
class Cropping:
    """How a resized picture is cropped and normalised, and how the network's output is processed."""

    crops: Crops
    crop: int
    """The side of a crop, in pixels."""
    mean: Sequence[float]
    std: Sequence[float]
    relu: bool
    l2: bool


@dataclass(frozen=True)
class Transform(Cropping):
    """How a picture is resized before, too."""

    resize: Size
    """The smaller side, in pixels; or height and width, where the proportions are not kept."""
    interpolation: str
    exif: bool

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
    """A kind of feature: everything in the key except the pixels."""

    backbone: str
    feature_point: str
    cropping: Cropping
    weights_sha256: str
    """Of :attr:`sightword.features.weights.Weights.identity`."""
    precision: str
    kernel: str
    """``cpu``, ``cuda`` or ``openvino``, with ``-plain`` where there are no fused kernels, and the name and the compute
    capability of a GPU: kinds of devices differ in the last bits."""
    code: str
    """Of :func:`code_sha256`."""

    def key(self, pixels_sha256: str) -> bytes:
        """Return the key of a feature: the sha256 (32 bytes) of canonical JSON of this and of the pixels' hash."""
        return hashlib.sha256(canonical_json({**asdict(self), "pixels": pixels_sha256}).encode()).digest()
