"""How many workers the driver, Ray and the store can feed, and what grows with the number of pictures.

The driver: the code that gives pieces of work to the workers of a cluster runs with a stand-in for Ray, whose workers
are timers. That measures the driver alone. Work without duration shows the most pieces a second; pieces of ten seconds
show how long 64, 256 and 1,024 workers wait.

Ray: the same with a real cluster on this machine. 64 worker processes sleep; for more workers each process has as many
pieces waiting, and sleeps as much shorter, that the driver sees the references and the rate of so many workers.

The store: threads write the features of pieces as workers do, into a folder and into an S3 server on this machine
(moto). Then: finding out which keys are there, before and after compacting.

What grows: the processor seconds and the memory that DVC, images.parquet, the list of the shards and features.h5 take,
each in a process of its own.

The last line is JSON. `--table` prints the tables of docs/scale.md instead, from figures that were measured.
"""

from __future__ import annotations

import argparse
import functools
import gc
import hashlib
import heapq
import itertools
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import scale_plan
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))

import object_store
import s3_front
import servers

from sightword import machine
from sightword.compute import ray_actors as actors_module
from sightword.compute.ray_actors import Actors
from sightword.compute.ray_nodes import Requirements
from sightword.compute.ray_opening import opened
from sightword.compute.ray_workers import Cluster, Size
from sightword.features.distributed import Job, Pieces
from sightword.features.extractor import Clock
from sightword.images.shards import GROUP, Group, Selection
from sightword.storage import maintenance
from sightword.storage import store as store_module
from sightword.storage.store import Store

Figures = Iterator[tuple[str, dict[str, Any]]]
"""Names and what was measured."""

WORKERS = (64, 256, 1024)
SECONDS = 10.0
"""The work of a piece."""
PROCESSES = 64
"""Workers of the real cluster."""
CPUS_A_NODE = 16
WRITERS, NUMBERS, FASTER = 16, 256, 20
"""Threads that write features of so many numbers into the store, in so much shorter time than workers would."""


def jobs_of(count: int) -> list[Job]:
    """Row groups of pictures in shards of 10,000, with their keys."""
    made = []
    for number in range(count):
        names = range(number * GROUP, (number + 1) * GROUP)
        keys = {f"picture-{name:09d}.jpg": hashlib.sha256(b"%d" % name).digest() for name in names}
        group = Group(f"data/resized/shard-{number * GROUP // 10_000:02d}.parquet", number, GROUP, (1, 2, 3))
        made.append(Job(Selection(group, frozenset(keys)), keys))
    return made


def drive(cluster: Cluster, make: Callable[[], Any], pieces: int, seconds: float) -> dict[str, float]:
    """Give out pieces of a row group each, as the stage features does; the rate of the second half, and the waiting."""
    work = Pieces(jobs_of(pieces))
    packed = map(pickle.dumps, work)  # workers need not load what is in a piece
    requirements = Requirements.here([])
    driver = Actors[bytes, float](cluster, make, packed, size=Size(), requirements=requirements)
    gc.collect()
    processor, half, count, idle = time.process_time(), 0.0, 0, 0.0
    for waited in tqdm(driver.run(), total=pieces, desc=f"{seconds:g} s a piece", leave=False, disable=None):
        work.learn(Clock(pictures=GROUP, wall=SECONDS), driver.most)
        count, idle = count + 1, idle + waited
        half = time.perf_counter() if count == pieces // 2 else half  # by then all workers have started
    waiting = {"workers_wait_percent": round(100 * idle / (idle + count * seconds), 2)} if seconds else {}
    return waiting | {
        "pieces": count,
        "pieces_a_second": round((count - pieces // 2) / (time.perf_counter() - half), 1),
        "driver_ms_a_piece": round(1e3 * (time.process_time() - processor) / count, 3),
        "driver_memory_mb": round(psutil.Process().memory_info().rss / 1e6),
    }


class Timers:
    """A stand-in for Ray, with workers that only let time pass."""

    exceptions = SimpleNamespace(RayTaskError=type("RayTaskError", (Exception,), {}), RayError=OSError)

    def __init__(self, workers: int, seconds: float) -> None:
        self.workers, self.seconds = workers, seconds
        self._due: list[tuple[float, int, Reference]] = []
        self._order = itertools.count()

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": float(CPUS_A_NODE)}} for _ in range(self.workers // CPUS_A_NODE)]

    def remote(self, _function: object) -> SimpleNamespace:
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda: Timer(self)))

    def put(self, value: object) -> object:
        return value

    def get(self, reference: Reference) -> object:
        return reference.waited

    def kill(self, _worker: object) -> None:
        pass

    def wait(self, references: Sequence[Reference], num_returns: int, timeout: float) -> tuple[list[Reference], None]:
        del references, num_returns  # all that are due were asked for
        moment, _, first = self._due[0]
        if (pause := moment - time.perf_counter()) > 0:
            time.sleep(min(pause, timeout))
            if pause > timeout:
                return [], None
        heapq.heappop(self._due)
        return [first], None

    def due(self, moment: float, waited: float) -> Reference:
        reference = Reference(waited)
        heapq.heappush(self._due, (moment, next(self._order), reference))
        return reference


@dataclass(eq=False)
class Reference:
    waited: float


class Timer:
    """A worker of the stand-in: its pieces end one after the other."""

    def __init__(self, timers: Timers) -> None:
        self._timers, self._free = timers, 0.0
        self.start, self.work = SimpleNamespace(remote=self._start), SimpleNamespace(remote=self._work)

    def _start(self, _shared: object) -> Reference:
        return self._timers.due(time.perf_counter(), 0.0)

    def _work(self, _piece: bytes) -> Reference:
        now = time.perf_counter()
        waited = max(now - self._free, 0.0) if self._free else 0.0
        self._free = max(now, self._free) + self._timers.seconds
        return self._timers.due(self._free, waited)


class Sleeper:
    """A worker of the real cluster: sleeps, and returns how long it had waited."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._ended = seconds, 0.0

    def __call__(self, _piece: bytes) -> float:
        waited = time.perf_counter() - self._ended if self._ended else 0.0
        time.sleep(self._seconds)
        self._ended = time.perf_counter()
        return waited


def drivers(quick: bool) -> Figures:
    for workers in WORKERS:
        yield (
            f"{workers} workers, no work",
            drive(Cluster(Timers(workers, 0.0), "timers"), Sleeper, 2_000 if quick else 20_000, 0.0),
        )
        each = 2.0 if quick else SECONDS
        yield (
            f"{workers} workers, {each:g} s a piece",
            drive(Cluster(Timers(workers, each), "timers"), Sleeper, 4 * workers, each),
        )


def rays(quick: bool) -> Figures:
    processes = 4 if quick else PROCESSES
    with opened(replace(machine.current(), workers=processes)) as cluster:
        for workers in WORKERS:
            actors_module.QUEUED = 2 * workers // processes
            seconds = SECONDS * processes / workers
            make = functools.partial(Sleeper, seconds)
            name = f"as {workers} workers ({processes} processes, {2 * workers} references, {seconds:g} s a piece)"
            yield name, drive(cluster, make, (3 if quick else 12) * workers, seconds)
        make, pieces = functools.partial(Sleeper, 0.0), 500 if quick else 10_000
        yield f"{processes} processes, no work", drive(cluster, make, pieces, 0.0)
    actors_module.QUEUED = 2


def stores(quick: bool) -> Figures:
    """What the pieces of workers leave in a store: 32 pictures each (a large network on CPUs), and 512 (a GPU)."""
    store_module.FIRST /= FASTER
    store_module.LAST /= FASTER
    store_module.SEGMENT_BYTES = store_module.SEGMENT_BYTES * NUMBERS // 2_048
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ.update(object_store.VARIABLES)
        with servers.s3(folder) as server, s3_front.front_of(server.endpoint) as front:
            os.environ["AWS_ENDPOINT_URL"] = front.endpoint
            for pictures in (GROUP, 16 * GROUP):
                pieces = 64 if quick or pictures > GROUP else 512
                for kind, place in (("folder", folder / f"{pictures}"), ("s3", f"s3://lab/{pictures}")):
                    os.environ["SIGHTWORD_CACHE"] = str(folder / f"copies-{pictures}")
                    yield f"{kind}, pieces of {pictures}", write_and_find(front, place, pieces, pictures)


def write_and_find(front: s3_front.Front, place: object, pieces: int, pictures: int) -> dict[str, Any]:
    value = np.ones(NUMBERS, np.float32)

    def worker(numbers: Sequence[int]) -> None:
        writer = Store(place).writer(object_store.KIND)
        for number in numbers:
            for one in range(number * pictures, (number + 1) * pictures):
                time.sleep(SECONDS / pictures / FASTER)
                writer.put(object_store.key(one), value)
            writer.flush()  # a worker of the cluster is killed at the end

    def write() -> None:
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(worker, [range(first, pieces, WRITERS) for first in range(WRITERS)]))

    absent = [object_store.key(2**62 + number) for number in range(100_000)]

    def find() -> None:
        assert not list(Store(place).read(object_store.KIND, NUMBERS, absent))

    steps = {"write": write, "find": find, "compact": lambda: maintenance.compact(Store(place)), "find again": find}
    found: dict[str, Any] = {"pieces": pieces, "features": pieces * pictures}
    for step, work in steps.items():
        measured = object_store.measure(front, work)
        found[step] = {key: measured[key] for key in ("requests", "seconds")}
        if step == "write":
            found["segments"] = len(Store(place).place.kind(object_store.KIND.name).segments())
            found["objects"] = measured["by kind"]
    return found


GROWING = {
    "dvc": (2_000, 20_000),
    "images": (1_000_000, 10_000_000),
    "listing": (30_000, 300_000),
    "hdf5": (10_000, 100_000),
}
"""Parts of scale_growth.py, and sizes."""


def growth(quick: bool) -> Figures:
    for name, counts in GROWING.items():
        for count in counts[: 1 if quick else None]:
            command = [sys.executable, str(Path(__file__).with_name("scale_growth.py")), name, str(count)]
            answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            yield f"{name}, {count}", json.loads(answer.splitlines()[-1])


PARTS: dict[str, Callable[[bool], Figures]] = {
    "driver": drivers,
    "ray": rays,
    "store": stores,
    "growth": growth,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer pieces, shorter work, four processes of Ray")
    parser.add_argument("--table", action="store_true", help="print the tables of docs/scale.md")
    parser.add_argument("--only", choices=PARTS, action="append", help="these parts alone")
    options = parser.parse_args()
    if options.table:
        print(scale_plan.tables())
        return
    found: dict[str, dict[str, Any]] = {}
    for part in options.only or PARTS:
        for name, figures in PARTS[part](options.quick):
            found.setdefault(part, {})[name] = figures
            print(f"{part}: {name}: {figures}", flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
