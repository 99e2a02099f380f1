"""Crops and normalisation are torchvision's, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from sightword.features.extractor import CROPS, corners, cut, normalise, positions
from sightword.features.vision import torchvision

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def ours(pictures: list[np.ndarray], crop: int, crops: str) -> torch.Tensor:
    pixels = torch.cat([torch.from_numpy(picture).view(-1, 3) for picture in pictures])
    out = torch.empty(len(pictures) * CROPS[crops], crop, crop, 3)
    places = positions([picture.shape[:2] for picture in pictures], crop, crops)
    cut(normalise(pixels, torch.tensor(MEAN), torch.tensor(STD)), places, out)
    return out.permute(0, 3, 1, 2)


def theirs(pixels: np.ndarray, crop: int, crops: str) -> torch.Tensor:
    transforms = torchvision.transforms
    cut = {"ten": transforms.TenCrop, "five": transforms.FiveCrop, "one": transforms.CenterCrop}[crops](crop)
    found = cut(Image.fromarray(pixels))
    to_tensor = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, STD)])
    return torch.stack([to_tensor(one) for one in (found if crops != "one" else [found])])


SIDES = st.tuples(st.integers(16, 40), st.integers(16, 40))


@settings(max_examples=40, deadline=None)
@given(st.lists(SIDES, min_size=1, max_size=3), st.integers(8, 16), st.sampled_from(["ten", "five", "one"]))
def test_crops_of_several_pictures_are_torchvisions(sizes: list[tuple[int, int]], crop: int, crops: str) -> None:
    rng = np.random.default_rng(len(sizes))
    pictures = [rng.integers(0, 256, (*size, 3), np.uint8) for size in sizes]
    wanted = torch.cat([theirs(picture, crop, crops) for picture in pictures])
    assert torch.equal(ours(pictures, crop, crops), wanted)


@pytest.mark.parametrize(("width", "left"), [(224, 0), (225, 0), (226, 1), (227, 2), (341, 58)])
def test_the_centre_is_rounded_half_to_even(width: int, left: int) -> None:
    assert corners(256, width, 224, "one") == [(16, left)]
