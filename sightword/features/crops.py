"""Ten, five or one crop of each picture of a call, normalised and cropped on the device."""

from __future__ import annotations

from collections.abc import Iterable

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


def normalise(pixels: torch.Tensor, mean: torch.Tensor, std: torch.Tensor) -> torch.Tensor:
    """Return ``(pixel / 255 - mean) / std``, float32, of uint8 pixels (.., 3); mean and deviation are float32 (3,)."""
    return pixels.to(torch.float32).div_(255).sub_(mean).div_(std)


def positions(sizes: Iterable[tuple[int, int]], crop: int, crops: Crops) -> torch.Tensor:
    """Return the places of the crops of pictures in the row of all their pixels, int64 (3, number of crops).

    The three numbers of a crop are its first pixel, the step from a line to the next, and the step from a pixel to the
    next, which is -1 in a mirrored picture. Ten crops are the five, then the five of the mirrored picture.

    Args:
        sizes: height and width of each picture.
        crop: the side of a crop.
        crops: the choice of crops.
    """
    found, start = [], 0
    for height, width in sizes:
        origins = corners(height, width, crop, crops)
        found += [(start + top * width + left, width, 1) for top, left in origins]
        if crops == "ten":  # the mirrored picture is cut anew: at odd widths its centre is not the mirrored centre crop
            found += [(start + (top + 1) * width - 1 - left, width, -1) for top, left in origins]
        start += height * width
    return torch.tensor(found, dtype=torch.int64).reshape(-1, 3).T.contiguous()


def cut(pixels: torch.Tensor, places: torch.Tensor, out: torch.Tensor) -> None:
    """Copy the crops at :func:`positions` from pixels (P, 3) into ``out`` (number of crops, crop, crop, 3)."""
    steps = torch.arange(out.shape[1], device=out.device)
    first, down, right = places[..., None, None]
    wanted = first + down * steps[:, None] + right * steps
    torch.index_select(pixels, 0, wanted.flatten(), out=out.view(-1, 3))
