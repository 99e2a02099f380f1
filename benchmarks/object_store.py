"""Requests and bytes of a store in object storage, for 100,000 features of 2,048 numbers.

An S3 server runs on this machine (moto, in memory), behind a front that counts. Two cases: segments of 4 MB, as a fast
run writes them, and 2,000 small segments, as many short runs do. For each: writing all features; finding out, on a
machine without copies, which of 100,000 keys are there (none is, so that nothing is read); reading all; reading again
from the copies; compacting; finding again. The last line is JSON.

    python benchmarks/object_store.py [--quick]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))

import s3_front
import servers

from sightword.features.identity import Identity, Transform
from sightword.features.settings import IMAGENET_MEAN, IMAGENET_STD
from sightword.storage import maintenance
from sightword.storage import store as store_module
from sightword.storage.store import Store

KIND = Identity(
    "resnet152",
    "avgpool",
    Transform(256, "lanczos", False, "ten", 224, tuple(IMAGENET_MEAN), tuple(IMAGENET_STD), False, False),
    "0" * 64,
    "fp32",
    "cpu-1",
)

VARIABLES = {
    "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull, "NO_PROXY": "127.0.0.1",
}  # fmt: skip
"""For a server on this machine."""


def key(number: int) -> bytes:
    return hashlib.sha256(number.to_bytes(8, "big")).digest()


def features(count: int, dimension: int) -> Iterator[tuple[bytes, np.ndarray]]:
    rng = np.random.default_rng(0)
    for start in range(0, count, 1000):
        block = rng.standard_normal((min(1000, count - start), dimension), np.float32)
        for row, value in enumerate(block):
            yield key(start + row), value


def measure(front: s3_front.Front, work: Callable[[], object]) -> dict[str, object]:
    front.clear()
    began = time.perf_counter()
    work()
    return {
        "requests": front.requests.total(),
        "by kind": dict(sorted(front.requests.items())),
        "MB received by the server": round(front.received / 1e6, 1),
        "MB sent by the server": round(front.sent / 1e6, 1),
        "seconds": round(time.perf_counter() - began, 1),
    }


def case(front: s3_front.Front, folder: Path, name: str, count: int, dimension: int, segment: int) -> dict[str, object]:
    """All steps for one size of segments, in bytes of features."""
    store_module.SEGMENT_BYTES = segment
    store_module.FIRST = store_module.LAST = 1e9
    place = f"s3://lab/{name}"
    keys, others = [key(number) for number in range(count)], [key(2**62 + number) for number in range(count)]

    def write() -> None:
        with Store(place).writer(KIND) as writer:
            for each, value in features(count, dimension):
                writer.put(each, value)

    def machine(number: int) -> None:
        os.environ["SIGHTWORD_CACHE"] = str(folder / f"{name}-{number}")

    def read(wanted: list[bytes], expected: int) -> None:
        found = sum(len(got) for got, _ in Store(place).read(KIND, dimension, wanted))
        assert found == expected, (found, expected)

    found: dict[str, object] = {"features": count, "numbers each": dimension, "bytes a segment": segment}
    machine(0)
    found["write"] = measure(front, write)
    found["find"] = measure(front, lambda: read(others, 0))
    machine(1)
    found["read"] = measure(front, lambda: read(keys, count))
    found["read from copies"] = measure(front, lambda: read(keys, count))
    found["compact"] = measure(front, lambda: maintenance.compact(Store(place)))
    machine(2)
    found["find after compact"] = measure(front, lambda: read(others, 0))
    found["find again"] = measure(front, lambda: read(others, 0))
    for step, counted in found.items():
        if isinstance(counted, dict):
            print(f"{name}, {step}: {counted}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="features of 128 numbers, in smaller segments")
    quick = parser.parse_args().quick
    count, dimension = 100_000, 128 if quick else 2_048
    os.environ.update(VARIABLES)
    with (
        tempfile.TemporaryDirectory() as folder,
        servers.s3(Path(folder)) as server,
        s3_front.front_of(server.endpoint) as front,
    ):
        os.environ["AWS_ENDPOINT_URL"] = front.endpoint
        large = case(front, Path(folder), "large", count, dimension, store_module.SEGMENT_BYTES * dimension // 2_048)
        small = case(front, Path(folder), "small", count, 64, 50 * 4 * 64)
    print(json.dumps({"large": large, "small": small}))


if __name__ == "__main__":
    main()
