"""Resizes a picture to a fixed smaller side, or to fixed sides, as torchvision's ``Resize`` does."""

from __future__ import annotations

from PIL import Image

from sightword.images.decode import RejectError
from sightword.images.settings import Interpolation, Size


def resized_size(width: int, height: int, size: Size) -> tuple[int, int]:
    """Return width and height after the smaller of them becomes ``size``, or after they become a given size.

    The longer side is ``int(size * long / short)``: truncated, not rounded.
    """
    if not isinstance(size, int):
        return size[1], size[0]
    if width <= height:
        return size, int(size * height / width)
    return int(size * width / height), size


def resize(picture: Image.Image, *, size: Size, interpolation: Interpolation, max_pixels: int) -> Image.Image:
    """Scale a picture up or down until its smaller side is ``size``, or to a height and a width.

    Raises:
        RejectError: ``too_large``: the result would have more than ``max_pixels`` pixels, such as from 1 x 5000.
    """
    width, height = resized_size(*picture.size, size)
    if width * height > max_pixels:
        was = f"{picture.width} x {picture.height}"
        raise RejectError("too_large", f"{was} would become {width} x {height}, {max_pixels} pixels allowed")
    return picture.resize((width, height), Image.Resampling[interpolation.upper()])
