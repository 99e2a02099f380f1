"""Crops and normalisation are torchvision's, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from sightword.features.crops import CROPS, corners, normalise, write_crops
from sightword.features.vision import torchvision

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def ours(pixels: np.ndarray, crop: int, crops: str) -> torch.Tensor:
    out = torch.empty(CROPS[crops], crop, crop, 3)
    write_crops(normalise(torch.from_numpy(pixels), MEAN, STD), out, crop, crops)
    return out.permute(0, 3, 1, 2)


def theirs(pixels: np.ndarray, crop: int, crops: str) -> torch.Tensor:
    transforms = torchvision.transforms
    cut = {"ten": transforms.TenCrop, "five": transforms.FiveCrop, "one": transforms.CenterCrop}[crops](crop)
    found = cut(Image.fromarray(pixels))
    to_tensor = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, STD)])
    return torch.stack([to_tensor(one) for one in (found if crops != "one" else [found])])


@settings(max_examples=40, deadline=None)
@given(st.integers(16, 40), st.integers(16, 40), st.integers(8, 16), st.sampled_from(["ten", "five", "one"]))
def test_crops_are_torchvisions(height: int, width: int, crop: int, crops: str) -> None:
    pixels = np.random.default_rng(height * width).integers(0, 256, (height, width, 3), np.uint8)
    assert torch.equal(ours(pixels, crop, crops), theirs(pixels, crop, crops))


@pytest.mark.parametrize(("width", "left"), [(224, 0), (225, 0), (226, 1), (227, 2), (341, 58)])
def test_the_centre_is_rounded_half_to_even(width: int, left: int) -> None:
    assert corners(256, width, 224, "one") == [(16, left)]
