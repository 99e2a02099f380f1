"""The section features: what does not fit together is told by its key."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sightword.features.backbones import find_backbone
from sightword.features.identity import transform_of
from sightword.features.settings import FeaturesSettings

SHA = "0" * 64


def test_the_defaults_are_the_published_ones() -> None:
    found = FeaturesSettings()
    assert (found.backbone, found.weights, found.crops) == ("resnet152", "IMAGENET1K_V1", "ten")
    made = transform_of(
        found, {"resize": 256, "interpolation": "lanczos", "exif": False}, find_backbone("resnet152").own
    )
    assert (made.crop, *made.mean, *made.std) == (224, 0.485, 0.456, 0.406, 0.229, 0.224, 0.225)
    assert (found.relu, found.l2, found.precision) == (False, False, "fp32")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"weights": "mine.safetensors"}, "weights_sha256 must hold its sha256"),
        ({"weights": "/tmp/mine.pth", "weights_sha256": SHA}, "inside the folder"),
        ({"weights": "../mine.pth", "weights_sha256": SHA}, "inside the folder"),
        ({"weights": "random", "weights_sha256": SHA}, "random weights have no file"),
        ({"weights_sha256": "abc"}, "weights_sha256"),
        ({"std": [1.0, 0.0, 1.0]}, "not above zero"),
        ({"mean": [0.5]}, "mean"),
        ({"source": "precomputed"}, "it must name a file ending in"),
        ({"source": "precomputed", "precomputed": "x.mat"}, r"x\.mat is not a file ending in"),
        ({"source": "precomputed", "precomputed": "x.npy"}, "needs a text file"),
        ({"source": "precomputed", "precomputed": "/x.h5"}, "inside the folder"),
    ],
)
def test_contradictions(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        FeaturesSettings(**values)


def test_what_is_not_read_is_not_checked() -> None:
    FeaturesSettings(source="precomputed", precomputed="x.npy", precomputed_ids="x.txt", weights="mine.pth")
    FeaturesSettings(weights="nets/mine.pth", weights_sha256=SHA)
