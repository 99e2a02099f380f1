"""The smaller side, or both, to 256 as torchvision's Resize does it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from sightword.features.vision import torchvision
from sightword.images.resized import resize, resized_size
from sightword.images.settings import ResizeSettings


@given(st.integers(1, 6000), st.integers(1, 6000), st.sampled_from([64, 224, 256, 299]))
def test_the_size_is_that_of_torchvision(width: int, height: int, side: int) -> None:
    oracle = torchvision.transforms.functional._compute_resized_output_size((height, width), [side])
    assert resized_size(width, height, side) == (oracle[1], oracle[0])


@pytest.mark.parametrize("size", [(500, 375), (333, 500), (40, 30), (256, 256), (375, 256)])
@pytest.mark.parametrize("name", ["lanczos", "bicubic", "bilinear"])
@pytest.mark.parametrize("fit", ["keep", "squash"])
def test_the_pixels_are_those_of_torchvision(size: tuple[int, int], name: str, fit: str) -> None:
    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), np.uint8))
    mode = torchvision.transforms.InterpolationMode[name.upper()]
    oracle = torchvision.transforms.Resize(256 if fit == "keep" else (256, 256), mode)(picture)
    found = resize(picture, size=ResizeSettings(fit=fit).size, interpolation=name, max_pixels=10**6)
    assert np.array_equal(np.asarray(found), np.asarray(oracle))


def test_real_photographs_are_resized_as_by_torchvision(real_data) -> None:
    oracle = torchvision.transforms.Resize(256, torchvision.transforms.InterpolationMode.LANCZOS)
    for path in sorted((real_data / "flickr8k/images").glob("*.jpg"))[:10]:
        with Image.open(path) as picture:
            rgb = picture.convert("RGB")
        found = resize(rgb, size=256, interpolation="lanczos", max_pixels=10**6)
        assert np.array_equal(np.asarray(found), np.asarray(oracle(rgb)))


def test_a_thin_picture_is_squashed_to_a_square() -> None:
    picture = Image.new("RGB", (1, 5000))
    size = ResizeSettings(side=64, fit="squash").size
    assert resize(picture, size=size, interpolation="lanczos", max_pixels=64 * 64).size == (64, 64)


@pytest.mark.parametrize("fit", ["keep", "squash"])
def test_settings_come_back_from_their_record(fit: str) -> None:
    settings = ResizeSettings(side=100, fit=fit, interpolation="box", exif=True)
    record = json.loads(json.dumps(settings.transform))
    assert ResizeSettings.of_transform(record["resize"], record["interpolation"], exif=record["exif"]) == settings
