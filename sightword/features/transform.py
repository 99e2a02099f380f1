"""All that turns a decoded picture into a feature, besides the network: one record."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sightword.errors import FeaturesError
from sightword.features.settings import Crops, FeaturesSettings
from sightword.files import canonical_json


@dataclass(frozen=True)
class Transform:
    """How a picture is resized, cropped and normalised, and what is done to the network's answer."""

    resize: int
    """Smaller side, in pixels."""
    interpolation: str
    exif: bool
    crops: Crops
    crop: int
    """Side of a crop, in pixels."""
    mean: tuple[float, ...]
    std: tuple[float, ...]
    relu: bool
    l2: bool

    def __post_init__(self) -> None:
        # One spelling for one value: the record is part of a feature's key.
        for name in ("mean", "std"):
            object.__setattr__(self, name, tuple(float(value) for value in getattr(self, name)))
        for name in ("exif", "relu", "l2"):
            object.__setattr__(self, name, bool(getattr(self, name)))
        if self.resize < self.crop:
            raise FeaturesError(
                f"crops of {self.crop} pixels do not fit into pictures whose smaller side is {self.resize}",
                expected="features.crop no larger than resize.side",
            )

    def as_json(self) -> str:
        """The record as JSON with sorted keys, as it stands in ``features.h5``."""
        return canonical_json(asdict(self))


def of_settings(settings: FeaturesSettings, resized: dict[str, Any]) -> Transform:
    """The transform of the section ``features`` on pictures that were resized as ``resized`` tells."""
    return Transform(
        resize=resized["resize"],
        interpolation=resized["interpolation"],
        exif=resized["exif"],
        crops=settings.crops,
        crop=settings.crop,
        mean=tuple(settings.mean),
        std=tuple(settings.std),
        relu=settings.relu,
        l2=settings.l2,
    )
