"""The section ``resize`` of ``params.yaml``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from sightword.settings import Settings

Interpolation = Literal["lanczos", "bicubic", "bilinear", "hamming", "box", "nearest"]
Encoding = Literal["webp", "png", "raw"]
Fit = Literal["keep", "squash"]
Size = int | list[int]
"""Pixels of the smaller side, or height and width, as torchvision's ``Resize`` takes them."""

MAX_PIXELS = 178_956_970
"""Pillow's own limit, which no parameter can raise."""


class ResizeSettings(Settings):
    """How pictures are decoded, resized and kept."""

    side: int = Field(default=256, gt=0, le=4096)
    """Length of the smaller side, or of both, in pixels (Merkx & Frank 2019: 256)."""
    fit: Fit = "keep"
    """``keep`` scales the smaller side to ``side`` and keeps the proportions; ``squash`` scales both sides to it."""
    interpolation: Interpolation = "lanczos"
    """Pillow's filter; the released code of Merkx & Frank 2019 uses Lanczos."""
    exif: bool = False
    """Turn pictures as their EXIF orientation says: off in the published code, on for own photographs."""
    encoding: Encoding = "webp"
    """How resized pixels are kept, always without loss: webp (small), png (everywhere readable), raw (fastest)."""
    shards: int = Field(default=16, gt=0, le=4096)
    """Files the pictures are spread over, by the hash of their id: one added picture changes one shard."""
    max_rejects: int = Field(default=0, ge=0)
    """Pictures that may fail to decode before the stage stops; each is a row of ``rejects.parquet``."""
    max_pixels: int = Field(default=100_000_000, gt=0, le=MAX_PIXELS)
    """Largest picture, in pixels, before and after resizing; larger ones are rejected by their header."""

    @property
    def size(self) -> Size:
        """The size of resized pictures."""
        return [self.side, self.side] if self.fit == "squash" else self.side

    @property
    def transform(self) -> dict[str, Any]:
        """The record of the pixels' making, which shards and ``features.h5`` keep."""
        return {"resize": self.size, "interpolation": self.interpolation, "exif": self.exif}

    @classmethod
    def of_transform(cls, resize: Size, interpolation: str, *, exif: bool) -> ResizeSettings:
        """Return the settings that make pixels of this record."""
        side, fit = (resize, "keep") if isinstance(resize, int) else (resize[0], "squash")
        return cls.model_validate({"side": side, "fit": fit, "interpolation": interpolation, "exif": exif})
