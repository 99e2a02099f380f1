"""Resizes a picture's smaller side to a fixed length, as torchvision's ``Resize`` does."""

from __future__ import annotations

from PIL import Image

from sightword.images.decode import RejectError
from sightword.images.settings import Interpolation


def resized_size(width: int, height: int, side: int) -> tuple[int, int]:
    """Return width and height after the smaller of them becomes ``side``.

    The longer side is ``int(side * long / short)``: truncated, not rounded.
    """
    if width <= height:
        return side, int(side * height / width)
    return int(side * width / height), side


def resize(picture: Image.Image, *, side: int, interpolation: Interpolation, max_pixels: int) -> Image.Image:
    """Scale a picture up or down until its smaller side is ``side``.

    Raises:
        RejectError: ``too_large``: the result would have more than ``max_pixels`` pixels, such as from 1 x 5000.
    """
    width, height = resized_size(*picture.size, side)
    if width * height > max_pixels:
        was = f"{picture.width} x {picture.height}"
        raise RejectError("too_large", f"{was} would become {width} x {height}, {max_pixels} pixels allowed")
    return picture.resize((width, height), Image.Resampling[interpolation.upper()])
