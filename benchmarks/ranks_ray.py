"""Ranks by the workers of a local cluster of Ray against one process.

The sides take turns: one process with one thread, one process with as many threads as there are workers, and workers
with one thread each. Each run is a process of its own, and all must find the same ranks and lists. The seconds of the
cluster are those that the stage logs: from the first worker that has started to the last rank. What comes before, such
as the start of Ray and of its workers, is given apart.

On a busy machine, seconds depend on what else runs. The CPU seconds of a run, starts included, are therefore given too.

Memory is the most that a process held besides mapped files and Ray's shared memory: of one process and of the driver
beyond what each had before it began, and the whole of a worker.

The last line is JSON: ``against_one_thread`` and ``against_equal_threads`` say how many times faster the cluster is.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the stages do

import numpy as np
import torch
from retrieval import EACH, embeddings

from sightword import machine
from sightword.evaluation.retrieval import distributed
from sightword.evaluation.retrieval.ranks import Ranks, rank

NAMES = ("images", "captions", "owner")


def held(process: int | str) -> float:
    """The memory of a process that belongs to no file, in megabytes; 0 if there is no such process."""
    try:
        found = re.search(r"RssAnon:\s*(\d+)", Path(f"/proc/{process}/status").read_text())
    except OSError:
        return 0.0
    return int(found[1]) / 1000 if found else 0.0


def cpu_seconds(process: str) -> float:
    """The time that a process has computed; 0 if there is no such process."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def workers() -> Iterator[str]:
    """The workers of this session."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            ours = os.getsid(int(path.parent.name)) == os.getsid(0) and path.read_bytes().startswith(b"ray::_Actor")
        except OSError:
            continue
        if ours:
            yield path.parent.name


class Watch(threading.Thread):
    """Watches the memory of this process and of workers."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._before = self._most = held("self")
        self._worker = 0.0
        self._took: dict[str, float] = {}

    def run(self) -> None:
        while True:
            self._most = max(self._most, held("self"))
            for worker in workers():
                self._worker = max(self._worker, held(worker))
                self._took[worker] = max(self._took.get(worker, 0.0), cpu_seconds(worker))
            time.sleep(0.2)

    def found(self) -> dict[str, float]:
        """Megabytes, and CPU seconds."""
        return {
            "own_mb": round(self._most - self._before),
            "worker_mb": round(self._worker),
            "own_cpu": round(time.process_time(), 1),
            "worker_cpu": round(sum(self._took.values()), 1),
        }


def digest(ranks: Ranks) -> str:
    """A hash of all ranks and lists."""
    found = hashlib.sha256(ranks.caption_to_image.tobytes() + ranks.image_to_caption.tobytes())
    for top in (ranks.top_images, ranks.top_captions):
        if top:
            found.update(top.candidate.tobytes())
            found.update(top.score.tobytes())
    return found.hexdigest()


def run_side(folder: Path, similarity: str, top: int, threads: int, cluster: int) -> dict[str, object]:
    """One run in this process; the seconds of a cluster are in its log."""
    torch.set_num_threads(threads)
    images, captions, owner = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in NAMES)
    watch = Watch()
    watch.start()
    started = time.perf_counter()
    if cluster:
        logging.basicConfig(level=logging.INFO, format="%(message)s")
        distributed.WORTH_IT = 0.0
        here = replace(machine.current(), engine="ray", workers=cluster, ray_cpus=1, ray_gpus=0.0)
        counts = {"captions": len(captions), "pictures": len(images), "dimensions": images.shape[1]}
        with distributed.ranker(here, **counts, folder=folder) as ranker:
            found = ranker(images, captions, owner, similarity, top=top)
    else:
        found = rank(images, captions, owner, similarity, top=top)
    return {"seconds": time.perf_counter() - started, "digest": digest(found), **watch.found()}


def apart(*arguments: object, threads: int) -> dict[str, object]:
    """:func:`run_side` in a process of its own."""
    variables = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"} | variables
    command = [sys.executable, __file__, "--side", *map(str, (*arguments, threads))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, start_new_session=True)
    if done.returncode:
        sys.exit(done.stderr)
    found = json.loads(done.stdout.splitlines()[-1])
    if logged := re.search(r"retrieval: ([\d.]+) s for (\d+) parts", done.stderr):
        found |= {"before": found["seconds"] - float(logged[1]), "seconds": float(logged[1]), "parts": int(logged[2])}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captions", type=int, default=200_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--similarity", default="cosine")
    parser.add_argument("--top", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="60,000 captions")
    parser.add_argument("--whole", action="store_true", help="a million captions, 200,000 pictures and one round")
    parser.add_argument("--side", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        folder, similarity, *numbers = arguments.side
        top, cluster, threads = map(int, numbers)
        print(json.dumps(run_side(Path(folder), similarity, top, threads, cluster)))
        return
    captions = 60_000 if arguments.quick else 1_000_000 if arguments.whole else arguments.captions
    count = arguments.workers
    sides = {"one thread": (0, 1), f"{count} threads": (0, count), f"{count} workers": (count, 1)}
    runs: dict[str, list[dict[str, object]]] = {name: [] for name in sides}
    with tempfile.TemporaryDirectory() as name:
        for of, rows in zip(NAMES, embeddings(captions // EACH, captions, arguments.width, np.float32), strict=True):
            np.save(Path(name) / f"{of}.npy", rows)
        for number in range(1 if arguments.whole else arguments.rounds):
            for side, (cluster, threads) in sides.items():
                found = apart(name, arguments.similarity, arguments.top, cluster, threads=threads)
                runs[side].append(found)
                load = os.getloadavg()[0]
                print(f"round {number + 1}: {side:10} {found['seconds']:7.1f} s, load {load:.1f}; {found}", flush=True)
    assert len({run["digest"] for each in runs.values() for run in each}) == 1, "the sides differ"
    seconds = {side: [float(run["seconds"]) for run in each] for side, each in runs.items()}
    one, equal, cluster_seconds = seconds.values()

    def ratio(before: list[float]) -> float:
        return round(statistics.median(old / new for old, new in zip(before, cluster_seconds, strict=True)), 2)

    last = runs[f"{count} workers"]
    result = {
        "against_one_thread": ratio(one),
        "against_equal_threads": ratio(equal),
        **{f"{side.replace(' ', '_')}_seconds": round(statistics.median(each), 1) for side, each in seconds.items()},
        "before_seconds": round(statistics.median(float(run["before"]) for run in last), 1),
        "parts": last[0]["parts"],
        "one_thread_cpu": min(run["own_cpu"] for run in runs["one thread"]),
        "driver_cpu": min(run["own_cpu"] for run in last),
        "worker_cpu": min(run["worker_cpu"] for run in last),
        "one_process_mb": max(run["own_mb"] for run in runs["one thread"]),
        "driver_mb": max(run["own_mb"] for run in last),
        "worker_mb": max(run["worker_mb"] for run in last),
        "captions": captions,
        "pictures": captions // EACH,
        "width": arguments.width,
        "similarity": arguments.similarity,
        "top": arguments.top,
        "torch": torch.__version__,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
