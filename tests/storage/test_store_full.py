"""A disk that is full, a real one: what was stored stays, the error says what to do, and with room it goes on."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from kept_features import folder_of
from odd_files import run_on_a_disk

from sightword.errors import StoreError
from sightword.features.identity import Identity, Transform
from sightword.features.settings import IMAGENET_MEAN, IMAGENET_STD
from sightword.storage import store as module
from sightword.storage.place import IDENTITY
from sightword.storage.store import Store

DIMENSION = 2048
DISK = 3 << 20
FILLER = 2 << 20
"""What lies there beside the store, at first."""
COUNT = 200
"""Features of 8 kB each: too many beside the filler, and not without it."""


def identity() -> Identity:
    transform = Transform("ten", 224, tuple(IMAGENET_MEAN), tuple(IMAGENET_STD), False, False, 256, "lanczos", False)
    return Identity("resnet152", "avgpool", transform, "0" * 64, "fp32", "cpu", "1" * 64)


KIND = identity()


def feature(number: int) -> tuple[bytes, module.Array]:
    value = np.random.default_rng(number).standard_normal(DIMENSION).astype(np.float32)
    return KIND.key(f"{number:064x}"), value


def stored(store: Store) -> set[int]:
    """The features that are there, each as it was computed."""
    numbers = {feature(number)[0]: number for number in range(COUNT)}
    found = set()
    for keys, values in store.read(KIND, DIMENSION, list(numbers)):
        for key, value in zip(keys, values, strict=True):
            assert value.tobytes() == feature(numbers[key])[1].tobytes()
            found.add(numbers[key])
    return found


def write(store: Store, numbers) -> None:
    with store.writer(KIND) as writer:
        for number in numbers:
            writer.put(*feature(number))


def fill(disk: Path) -> None:
    """Run on an empty disk, by a process that sees it alone."""
    module.SEGMENT_BYTES = 10 * 4 * DIMENSION
    store = Store(disk / "store")
    filler = disk / "filler"
    filler.write_bytes(bytes(FILLER))
    write(store, range(20))
    assert stored(store) == set(range(20))

    for _ in range(2):  # the second finds it as full as the first left it
        with pytest.raises(StoreError) as caught:
            write(store, set(range(COUNT)) - stored(store))
        assert str(caught.value).startswith(
            f"{store.place.folder}: the store cannot be written (No space left on device)"
        )
        assert "SIGHTWORD_STORE" in str(caught.value)
    kept = stored(store)
    assert kept >= set(range(20))
    assert 60 < len(kept) < COUNT  # it was filled
    assert not list(store.place.folder.rglob(".*"))
    assert (folder_of(store, KIND) / IDENTITY).read_text() == KIND.as_json() + "\n"

    filler.unlink()
    write(store, set(range(COUNT)) - kept)
    assert stored(store) == set(range(COUNT))
    sys.stdout.write("done\n")


@pytest.mark.full
def test_a_full_disk(tmp_path, repository) -> None:
    run_on_a_disk(repository, tmp_path / "disk", DISK, __file__)


if __name__ == "__main__":
    fill(Path(sys.argv[1]))
