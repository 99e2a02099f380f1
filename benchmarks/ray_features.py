"""Features on a local cluster of Ray against one machine's own engine, and the driver's memory at many keys.

Both engines run the stage on the same drawn pictures with an empty store, with as many workers as the other has
threads; the sides take turns, and each run is a process of its own. The seconds are those that the stage logs: from the
first worker with a loaded network to the last feature in the store. What comes before, the start of Ray and of its
workers, is given apart. The outputs must be equal, byte for byte.

The driver's memory: a driver gives a number of generated keys to workers that compute nothing, and its largest resident
size is compared with its size when it has only the ids and keys.

The last line is JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
from PIL import Image
from ruamel.yaml import YAML

from sightword import machine
from sightword.compute.ray_actors import Actors
from sightword.compute.ray_nodes import Requirements
from sightword.compute.ray_opening import opened
from sightword.compute.ray_workers import Size
from sightword.features.distributed import Job, Pieces
from sightword.features.extractor import Clock
from sightword.images.shards import GROUP, Group, Selection
from sightword.io.files import write_table

REPOSITORY = Path(__file__).resolve().parents[1]
KEYS = (10_000, 1_000_000)
SHARDS = 64


def prepare(folder: Path, count: int) -> None:
    """A project with drawn pictures, resized."""
    names = [f"{number:05d}.png" for number in range(count)]
    (folder / "pictures").mkdir()
    for number, name in enumerate(names):
        blocks = np.random.default_rng(number).integers(0, 256, (4, 4 + number % 3, 3), np.uint8)
        picture = Image.fromarray(blocks).resize((32 * blocks.shape[1], 128), Image.Resampling.BICUBIC)
        picture.save(folder / "pictures" / name, compress_level=1)
    write_table(
        folder / "data/corpus/images.parquet",
        pa.table({"image_id": names, "path": [f"pictures/{name}" for name in names]}),
    )
    (folder / "dvc.yaml").write_bytes((REPOSITORY / "dvc.yaml").read_bytes())
    document = YAML(typ="safe", pure=True).load((REPOSITORY / "params.yaml").read_text())
    document["resize"] |= {"side": 128, "shards": 8}
    document["features"] |= {"weights": "random", "weights_sha256": "", "crop": 128}
    with (folder / "params.yaml").open("w") as stream:
        YAML().dump(document, stream)
    stage(folder, "resize", folder / "unused", "local", 1)


def stage(folder: Path, name: str, store: Path, engine: str, workers: int) -> str:
    """Run a stage; what it said."""
    variables = {
        "PYTHONPATH": str(REPOSITORY),
        "SIGHTWORD_DEVICE": "cpu",
        "SIGHTWORD_ENGINE": engine,
        "SIGHTWORD_STORE": str(store),
        "SIGHTWORD_THREADS": str(workers),
        "SIGHTWORD_WORKERS": str(workers),
    }
    environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"} | variables
    command = [sys.executable, "-m", "stages", name]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stderr


def compare(count: int, rounds: int, workers: int) -> dict[str, float]:
    """Seconds of both engines, in turn."""
    found: dict[str, list[tuple[float, float]]] = {"local": [], "ray": []}
    outputs = set()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "project"
        folder.mkdir()
        prepare(folder, count)
        for number in range(rounds):
            for engine, runs in found.items():
                started = time.perf_counter()
                said = stage(folder, "features", Path(name) / f"{engine}-{number}", engine, workers)
                whole = time.perf_counter() - started
                seconds = re.search(rf"features: ([\d.]+) s for {count} pictures", said)
                assert seconds, said
                runs.append((float(seconds[1]), whole))
                outputs.add(hashlib.sha256((folder / "data/features/features.h5").read_bytes()).hexdigest())
                print(f"round {number + 1}: {engine:5} {runs[-1][0]:6.1f} s, {whole:6.1f} s in all", flush=True)
    assert len(outputs) == 1, "the engines' outputs differ"
    local, ray = ([seconds for seconds, _ in found[engine]] for engine in found)
    before = {engine: statistics.median(whole - seconds for seconds, whole in runs) for engine, runs in found.items()}
    return {
        "local_seconds": statistics.median(local),
        "ray_seconds": statistics.median(ray),
        "ratio": round(statistics.median(two / one for one, two in zip(local, ray, strict=True)), 3),
        "local_start_seconds": round(before["local"], 1),
        "ray_start_seconds": round(before["ray"], 1),
    }


class Idle:
    """A worker that computes nothing."""

    def __call__(self, jobs: list[Job]) -> Clock:
        return Clock(pictures=sum(len(job.keys) for job in jobs), wall=1.0)


def drive(keys: int) -> dict[str, float]:
    """The memory of a driver, in megabytes: with ids and keys, and at most until all is done."""
    jobs = []
    for number in range(0, keys, GROUP):
        some = {f"picture-{one:09d}.jpg": hashlib.sha256(b"%d" % one).digest() for one in range(number, number + GROUP)}
        group = Group(f"shard-{number * SHARDS // keys:02d}", number // GROUP, GROUP, ())
        jobs.append(Job(Selection(group, frozenset(some)), some))
    with opened(replace(machine.current(), workers=2)) as cluster:
        pieces = Pieces(jobs)
        actors = Actors[list[Job], Clock](cluster, Idle, pieces, size=Size(), requirements=Requirements.here([]))
        before, started, done, count = psutil.Process().memory_info().rss / 1e6, time.perf_counter(), 0, 0
        for clock in actors.run():
            pieces.learn(clock, actors.most)
            done, count = done + clock.pictures, count + 1
    assert done >= keys
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    seconds = round(time.perf_counter() - started, 1)
    return {"before_mb": round(before), "largest_mb": round(largest), "pieces": count, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--drive", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.drive:
        print(json.dumps(drive(arguments.drive)))
        return
    result: dict[str, object] = {}
    for keys in KEYS:
        command = [sys.executable, __file__, "--drive", str(keys)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        result[f"driver_{keys}"] = json.loads(answer.splitlines()[-1])
        print(f"{keys} keys: {answer.splitlines()[-1]}", flush=True)
    result |= compare(arguments.pictures, arguments.rounds, arguments.workers)
    result |= {"pictures": arguments.pictures, "workers": arguments.workers, "rounds": arguments.rounds}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
