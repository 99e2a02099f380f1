"""Ten, five or one crop of a picture, normalised and cropped on the device."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sightword.features.settings import Crops

CROPS: dict[Crops, int] = {"ten": 10, "five": 5, "one": 1}
"""How many crops each choice gives."""


def corners(height: int, width: int, crop: int, crops: Crops) -> list[tuple[int, int]]:
    """Top and left of each crop, in torchvision's order: the four corners, then the centre.

    The centre is rounded as in torchvision's ``CenterCrop``: half to even.
    """
    centre = (round((height - crop) / 2.0), round((width - crop) / 2.0))
    if crops == "one":
        return [centre]
    bottom, right = height - crop, width - crop
    return [(0, 0), (0, right), (bottom, 0), (bottom, right), centre]


def normalise(pixels: torch.Tensor, mean: Sequence[float], std: Sequence[float]) -> torch.Tensor:
    """uint8 (height, width, 3) to float32 of the same shape: ``(pixel / 255 - mean) / std``."""
    scaled = pixels.to(torch.float32).div_(255)
    return scaled.sub_(scaled.new_tensor(mean)).div_(scaled.new_tensor(std))


def write_crops(picture: torch.Tensor, out: torch.Tensor, crop: int, crops: Crops) -> None:
    """Cut a normalised picture into its crops.

    Args:
        picture: (height, width, 3), both sides at least ``crop``.
        out: (number of crops, crop, crop, 3), filled; channels last in memory.
        crop: the side of a crop.
        crops: which ones; ``ten`` are the five, then the five of the mirrored picture.
    """
    places = corners(picture.shape[0], picture.shape[1], crop, crops)
    # The mirrored picture is cut anew: at odd widths its centre is not the centre crop mirrored.
    sides = [picture, picture.flip(1)] if crops == "ten" else [picture]
    index = 0
    for side in sides:
        for top, left in places:
            out[index] = side[top : top + crop, left : left + crop]
            index += 1
