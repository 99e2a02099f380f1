"""Made-up features, in a store and out of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from sightword.features.identity import Identity, Transform
from sightword.features.settings import IMAGENET_MEAN, IMAGENET_STD
from sightword.storage import store as module
from sightword.storage.store import SEGMENT_NAME, Store

DIMENSION = 8
TRANSFORM = Transform("ten", 224, tuple(IMAGENET_MEAN), tuple(IMAGENET_STD), False, True, 256, "lanczos", False)
KIND = Identity("resnet152", "avgpool", TRANSFORM, "0" * 64, "fp32", "cpu", "1" * 64)
OTHER = dataclasses.replace(KIND, backbone="vgg19")


def some(numbers, kind: Identity = KIND) -> dict[bytes, np.ndarray]:
    features = {}
    for number in numbers:
        rng = np.random.default_rng(number)
        features[kind.key(f"{number:064x}")] = rng.standard_normal(DIMENSION).astype(np.float32)
    return features


def write(store: Store, features, kind: Identity = KIND) -> None:
    with store.writer(kind) as writer:
        for key, feature in features.items():
            writer.put(key, feature)


def read(store: Store, keys, kind: Identity = KIND) -> dict[bytes, bytes]:
    """The features' bytes by key; none is given twice."""
    found: dict[bytes, bytes] = {}
    for got, values in store.read(kind, DIMENSION, keys):
        for key, value in zip(got, values, strict=True):
            assert key not in found
            found[key] = value.tobytes()
    return found


def as_bytes(features) -> dict[bytes, bytes]:
    return {key: value.tobytes() for key, value in features.items()}


def damage(path, value: np.ndarray) -> None:
    data = path.read_bytes()
    assert data.count(value.tobytes()) == 1
    path.chmod(0o644)  # by hand: what is stored is read-only
    path.write_bytes(data.replace(value.tobytes(), value.tobytes()[:-1] + b"\7"))


def folder_of(store: Store, kind: Identity = KIND) -> Path:
    return Path(store.place.folder) / "features" / kind.name


def segment_files(store: Store, kind: Identity = KIND) -> list[Path]:
    """The segments of a store in a folder, by name."""
    return sorted(path for path in folder_of(store, kind).glob("*") if SEGMENT_NAME.fullmatch(path.name))


def identity(backbone: str = "resnet152") -> Identity:
    return dataclasses.replace(KIND, backbone=backbone)


def fill(store: Store, kind: Identity, numbers, *, segments: int = 1) -> dict[bytes, np.ndarray]:
    """Features of so many segments."""
    features = some(numbers, kind)
    with store.writer(kind):
        pass
    keys = list(features)
    for start in range(segments):
        module.write(store.place, kind.name, {key: features[key] for key in keys[start::segments]})
    return features
