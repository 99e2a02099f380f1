"""A store with features of known numbers."""

from __future__ import annotations

import numpy as np

from sightword.features.identity import Identity, Transform
from sightword.features.settings import IMAGENET_MEAN, IMAGENET_STD
from sightword.storage.folder import entries
from sightword.storage.segments import SEGMENT_NAME
from sightword.storage.store import Store

DIMENSION = 8


def identity(backbone: str = "resnet152") -> Identity:
    transform = Transform("ten", 224, tuple(IMAGENET_MEAN), tuple(IMAGENET_STD), False, True, 256, "lanczos", False)
    return Identity(backbone, "avgpool", transform, "0" * 64, "fp32", "cpu", "1" * 64)


def fill(store: Store, kind: Identity, numbers: range, *, segments: int = 1) -> dict[bytes, np.ndarray]:
    features = {kind.key(f"{number:064x}"): np.full(DIMENSION, number, np.float32) for number in numbers}
    with store.writer(kind):
        pass
    keys = list(features)
    files = store.place.kind(kind.name)
    for start in range(segments):
        files.write({key: features[key] for key in keys[start::segments]})
    files.finish()
    return features


def read(store: Store, kind: Identity, keys) -> dict[bytes, np.ndarray]:
    return {key: row for found, rows in store.read(kind, DIMENSION, keys) for key, row in zip(found, rows, strict=True)}


def same(one: dict[bytes, np.ndarray], other: dict[bytes, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one)


def damage(store: Store, kind: Identity, value: float) -> None:
    """Change one number on disk."""
    number = np.full(DIMENSION, value, np.float32).tobytes()
    [path] = [
        path
        for path in entries(store.place.folder / "features" / kind.name, SEGMENT_NAME)
        if number in path.read_bytes()
    ]
    path.chmod(0o644)  # by hand: what is stored is read-only
    path.write_bytes(path.read_bytes().replace(number, number[:-1] + b"\7"))
