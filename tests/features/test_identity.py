"""A feature's key: what is documented, and every ingredient of it."""

from __future__ import annotations

import dataclasses
import hashlib
import json

import pytest
import torch

from sightword.errors import FeaturesError, SetupError
from sightword.features import norms
from sightword.features.extraction import Extraction
from sightword.features.identity import Identity, Transform
from sightword.features.settings import IMAGENET_MEAN, IMAGENET_STD, FeaturesSettings

TRANSFORM = Transform(256, "lanczos", False, "ten", 224, tuple(IMAGENET_MEAN), tuple(IMAGENET_STD), False, True)
KIND = Identity("resnet152", "avgpool", TRANSFORM, "0" * 64, "fp32", "cpu-1")


def test_a_key_is_the_sha256_of_the_documented_json() -> None:
    record = {
        "backbone": "resnet152",
        "feature_point": "avgpool",
        "kernel": "cpu-1",
        "precision": "fp32",
        "transform": {
            "crop": 224,
            "crops": "ten",
            "exif": False,
            "interpolation": "lanczos",
            "l2": True,
            "mean": [0.485, 0.456, 0.406],
            "relu": False,
            "resize": 256,
            "std": [0.229, 0.224, 0.225],
        },
        "weights_sha256": "0" * 64,
    }
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    assert KIND.as_json() == text
    assert KIND.name == hashlib.sha256(text.encode()).hexdigest()[:32]
    whole = json.dumps({**record, "picture": "a" * 64}, sort_keys=True, separators=(",", ":"))
    assert KIND.key("a" * 64) == hashlib.sha256(whole.encode()).digest()


IN_TRANSFORM = {
    "resize": 257, "interpolation": "bilinear", "exif": True, "crops": "one", "crop": 223,
    "mean": (0.485, 0.456, 0.4061), "std": (0.229, 0.224, 0.2251), "relu": True, "l2": False,
}  # fmt: skip
IN_IDENTITY = {
    "backbone": "resnet101", "feature_point": "layer4", "weights_sha256": "0" * 63 + "1", "precision": "bf16",
    "kernel": "cpu-2",
}  # fmt: skip


def test_each_ingredient_is_in_the_key() -> None:
    """Whatever field is added to the records must be in this list, and so in the key."""
    assert set(IN_TRANSFORM) == {field.name for field in dataclasses.fields(Transform)}
    assert {*IN_IDENTITY, "transform"} == {field.name for field in dataclasses.fields(Identity)}
    kinds = [KIND]
    for name, value in IN_TRANSFORM.items():
        kinds.append(dataclasses.replace(KIND, transform=dataclasses.replace(TRANSFORM, **{name: value})))
    for name, value in IN_IDENTITY.items():
        kinds.append(dataclasses.replace(KIND, **{name: value}))
    assert len({kind.name for kind in kinds}) == len(kinds) == 15
    pictures = ["a" * 64, "b" * 64]
    assert len({kind.key(picture) for kind in kinds for picture in pictures}) == 2 * len(kinds)
    assert dataclasses.replace(KIND).key("a" * 64) == KIND.key("a" * 64)


@pytest.mark.parametrize("resize", [[256], [256, 224], "256"])
def test_a_size_that_is_neither_a_side_nor_a_square_is_refused(resize: object) -> None:
    with pytest.raises(FeaturesError, match="pictures were resized to"):
        dataclasses.replace(TRANSFORM, resize=resize)


def kind_on_gpu(precision: str = "fp32") -> str:
    settings = FeaturesSettings(backbone="squeezenet1_1", weights="random", crop=48, precision=precision)
    transform = {"resize": 56, "interpolation": "lanczos", "exif": False}
    return Extraction(settings, transform, device=torch.device("cuda"), store=None).identity.name


def test_kinds_of_gpu_have_keys_of_their_own(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    found = set()
    for name, capability in (("H100", (9, 0)), ("RTX 4090", (8, 9)), ("H100", (9, 0)), ("RTX 4090", (8, 0))):
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device, name=name: name)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, capability=capability: capability)
        found.add(kind_on_gpu())
    assert len(found) == 3


def test_bfloat16_features_of_a_gpu_without_triton_have_a_key_of_their_own(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "H100")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    found = {}
    for usable in (True, False):
        monkeypatch.setattr(norms, "usable", lambda device, usable=usable: usable)
        found[usable] = [kind_on_gpu("bf16"), kind_on_gpu("fp32")]
    assert found[True][0] != found[False][0]
    assert found[True][1] == found[False][1]


def test_features_of_a_gpu_are_refused_where_none_names_the_kind(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SetupError, match="this machine has no GPU, and keys of features name the kind of GPU"):
        kind_on_gpu()
