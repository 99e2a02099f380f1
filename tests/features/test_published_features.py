"""Features of real photographs are those of the published way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from extracting import extract
from PIL import Image

from sightword.features.vision import models, torchvision

DENSENET_SHA256 = "40b3c33734bf54aa10661f2c5ff688964b68ac37ce0ba3f98a75a15b57a4a9aa"


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    monkeypatch.setenv("SIGHTWORD_DEVICE", "cpu")


def reference(paths: list[Path], weights: Path) -> np.ndarray:
    """The published way: Pillow, torchvision's TenCrop, the model as is, one picture at a time."""
    from safetensors.torch import load_file

    transforms = torchvision.transforms
    network = models.densenet169(weights=None)
    network.load_state_dict(load_file(weights), strict=False)
    network.classifier = torch.nn.Identity()
    network.eval()
    resize = transforms.Resize(256, transforms.InterpolationMode.LANCZOS)
    normal = transforms.Compose(
        [transforms.ToTensor(), transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    )
    rows = []
    for path in paths:
        with Image.open(path) as picture:
            crops = transforms.TenCrop(224)(resize(picture.convert("RGB")))
        with torch.no_grad():
            rows.append(network(torch.stack([normal(crop) for crop in crops])).mean(0).numpy())
    return np.stack(rows)


def disagreement(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).max())


@pytest.mark.slow
def test_real_photographs_agree_with_the_reference(real_data) -> None:
    weights = real_data / "weights/densenet169_imagenet.safetensors"
    # The first is mostly black: rounded to bfloat16 it alone would shift the features.
    names = ("1045521051_108ebc19be.jpg", "1000268201_693b08cb0e.jpg", "1003163366_44323f5815.jpg")
    paths = [real_data / "flickr8k/images" / name for name in names]
    expected = reference(paths, weights)
    found = extract(paths, "densenet169", weights, weights_sha256=DENSENET_SHA256)
    assert disagreement(found, expected) < 1e-4
    # The control: the same check must fail when features stand beside other pictures.
    assert disagreement(found[[1, 2, 0]], expected) > 1
    fast = extract(paths[:1], "densenet169", weights, precision="bf16")
    assert fast[0] @ expected[0] >= 0.999 * np.linalg.norm(fast[0]) * np.linalg.norm(expected[0])
    assert disagreement(fast, expected[:1]) > 0
