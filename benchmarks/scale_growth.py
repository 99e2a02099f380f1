"""What grows with the number of pictures, in processor seconds and memory: a part of scale.py, which calls this script.

DVC on a folder of small files, the ids of images.parquet, the list of the resized pictures with their keys, and
features.h5. The last line is JSON.

    python benchmarks/scale_growth.py {dvc,images,listing,hdf5} COUNT
"""

from __future__ import annotations

import argparse
import functools
import gc
import hashlib
import json
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import torch

from sightword.features.compute import ResizedCorpus
from sightword.features.settings import FeaturesSettings
from sightword.features.table import Origin, read_features, write_features
from sightword.images.shards import ResizedPicture, shard_of, shard_path, write_shard
from sightword.io.files import read_table, write_table
from sightword.storage.store import Store

REJECTS = ("image_id", "reason", "detail")


def dvc(count: int) -> dict[str, float]:
    """DVC on a folder of small files: adding it, and looking at it again."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [str(Path(sys.executable).with_name("dvc"))]
        subprocess.run([*command, "init", "-q", "--no-scm"], cwd=folder, check=True)
        (folder / "pictures").mkdir()
        for number in range(count):
            (folder / f"pictures/{number:08d}.jpg").write_bytes(b"%d" % number)
        found: dict[str, float] = {}
        for what in ("add", "status"):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([*command, what, "-q", f"pictures{'' if what == 'add' else '.dvc'}"], cwd=folder, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found[f"{what}_seconds"] = round(sum(after[:2]) - sum(before[:2]), 1)
        (listed,) = folder.glob(".dvc/cache/**/*.dir")
        return found | {
            "memory_mb": round(after.ru_maxrss * 1024 / 1e6),
            "list_mb": round(listed.stat().st_size / 1e6, 2),
        }


def images(count: int) -> dict[str, float]:
    """images.parquet: the ids, as the stages read them."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "images.parquet"
        elsewhere(write_images, path, count)
        return timed(lambda: read_table(path, ["image_id"])["image_id"].to_pylist()) | {
            "file_mb": round(path.stat().st_size / 1e6)
        }


def write_images(path: Path, count: int) -> None:
    ids = pa.array(f"train2014/COCO_train2014_{number:012d}.jpg" for number in range(count))
    write_table(path, pa.table({"image_id": ids, "path": ids, "split": pa.array(["train"] * count)}))


def listing(count: int) -> dict[str, float]:
    """The list of resized pictures with their keys, as the stage features makes it; pictures of one pixel."""
    settings, device = FeaturesSettings(backbone="shufflenet_v2_x0_5", weights="random"), torch.device("cpu")
    ids = [f"COCO_train2014_{number:012d}.jpg" for number in range(count)]
    with tempfile.TemporaryDirectory() as name:
        store = Store(Path(name) / "store")
        for some, folder in ((ids[:1], Path(name) / "one"), (ids, Path(name) / "all")):
            elsewhere(write_shards, folder, some)
            found = timed(functools.partial(ResizedCorpus, some, folder, settings, store=store, device=device))
    return found


def write_shards(folder: Path, ids: Sequence[str]) -> None:
    shards: list[list[ResizedPicture]] = [[] for _ in range(64)]
    for image_id in ids:
        sha256 = hashlib.sha256(image_id.encode()).hexdigest()
        shards[shard_of(image_id, 64)].append(ResizedPicture(image_id, sha256, 1, 1, "raw", bytes(3)))
    for number, pictures in enumerate(shards):
        write_shard(shard_path(folder, number), pictures, {"resize": 256, "interpolation": "lanczos", "exif": False})
    write_table(folder / "rejects.parquet", pa.table({name: pa.array([], pa.string()) for name in REJECTS}))


def hdf5(count: int) -> dict[str, float]:
    """features.h5 of 2,048 numbers: writing and reading the whole."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "features.h5"
        ids = [f"COCO_train2014_{number:012d}.jpg" for number in range(count)]
        hashes = [hashlib.sha256(image_id.encode()).hexdigest() for image_id in ids]
        block = np.ones((64, 2048), np.float32)
        origin = Origin(*("resnet152", "avgpool", "random", "0" * 64, "{}", "fp32", "extracted"))

        def blocks() -> Iterator[tuple[Any, Any]]:
            for start in range(0, count, 64):
                rows = np.arange(start, min(start + 64, count))
                yield rows, block[: len(rows)]

        started = time.process_time()
        write_features(path, ids, hashes, 2048, blocks(), origin)
        written = time.process_time() - started
        return {"write_seconds": round(written, 1)} | timed(lambda: read_features(path))


def timed(work: Callable[[], object]) -> dict[str, float]:
    """Processor seconds of a call, and the memory that its result takes."""
    gc.collect()
    before, started = psutil.Process().memory_info().rss / 1e6, time.process_time()
    result = work()
    seconds, after = time.process_time() - started, psutil.Process().memory_info().rss / 1e6
    del result
    return {"seconds": round(seconds, 2), "memory_mb": round(after - before, 1)}


def elsewhere(function: Callable[..., None], *arguments: object) -> None:
    """Call a function in a process of its own, whose memory is not this one's."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(function, *arguments).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"dvc": dvc, "images": images, "listing": listing, "hdf5": hdf5}
    parser.add_argument("what", choices=parts)
    parser.add_argument("count", type=int)
    options = parser.parse_args()
    print(json.dumps(parts[options.what](options.count)))


if __name__ == "__main__":
    main()
