"""Ten, five or one crop of a picture, normalised and cropped on the device."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sightword.features.settings import Crops

CROPS: dict[Crops, int] = {"ten": 10, "five": 5, "one": 1}
"""The number of crops of each choice."""


def corners(height: int, width: int, crop: int, crops: Crops) -> list[tuple[int, int]]:
    """Return top and left of each crop, in torchvision's order: the four corners, then the centre.

    The centre is rounded as in torchvision's ``CenterCrop``: half to even.
    """
    bottom, right = height - crop, width - crop
    centre = (round(bottom / 2.0), round(right / 2.0))
    return [centre] if crops == "one" else [(0, 0), (0, right), (bottom, 0), (bottom, right), centre]


def normalise(pixels: torch.Tensor, mean: Sequence[float], std: Sequence[float]) -> torch.Tensor:
    """Return ``(pixel / 255 - mean) / std``, float32, of uint8 pixels (height, width, 3)."""
    scaled = pixels.to(torch.float32).div_(255)
    return scaled.sub_(scaled.new_tensor(mean)).div_(scaled.new_tensor(std))


def write_crops(picture: torch.Tensor, out: torch.Tensor, crop: int, crops: Crops) -> None:
    """Cut a normalised picture (height, width, 3) into ``out`` (number of crops, crop, crop, 3).

    Ten crops are the five, then the five of the mirrored picture.
    """
    places = corners(picture.shape[0], picture.shape[1], crop, crops)
    # The mirrored picture is cut anew: at odd widths its centre is not the mirrored centre crop.
    sides = [picture, picture.flip(1)] if crops == "ten" else [picture]
    for index, (side, (top, left)) in enumerate((side, place) for side in sides for place in places):
        out[index] = side[top : top + crop, left : left + crop]
