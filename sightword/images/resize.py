"""The smaller side to a fixed length, as torchvision's ``Resize`` does it."""

from __future__ import annotations

from PIL import Image

from sightword.images.decode import RejectError
from sightword.images.settings import Interpolation


def resized_size(width: int, height: int, side: int) -> tuple[int, int]:
    """Width and height when the smaller of them becomes ``side``.

    The longer one is ``int(side * long / short)``: cut off, not rounded.
    """
    if width <= height:
        return side, int(side * height / width)
    return int(side * width / height), side


def resize(picture: Image.Image, *, side: int, interpolation: Interpolation, max_pixels: int) -> Image.Image:
    """Scale a picture, up or down, until its smaller side is ``side``.

    Raises:
        RejectError: ``too_large`` when the result would have more than ``max_pixels``
            pixels, as a picture of 1 x 5000 would.
    """
    width, height = resized_size(*picture.size, side)
    if width * height > max_pixels:
        was = f"{picture.width} x {picture.height}"
        raise RejectError("too_large", f"{was} would become {width} x {height}, {max_pixels} pixels allowed")
    return picture.resize((width, height), Image.Resampling[interpolation.upper()])
