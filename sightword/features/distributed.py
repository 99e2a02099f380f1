"""Features computed by the workers of a cluster, which write them into the store themselves."""

from __future__ import annotations

import contextlib
import functools
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sightword.cluster.nodes import Requirements
from sightword.cluster.opening import opened
from sightword.cluster.processes import threaded_map
from sightword.cluster.workers import Size
from sightword.compute import devices
from sightword.errors import FeaturesError
from sightword.features.compute import Job, pictures_of
from sightword.features.extraction import Extraction
from sightword.features.extractor import Clock
from sightword.features.identity import Identity
from sightword.features.settings import FeaturesSettings
from sightword.images.shards import GROUP, read_arrays, read_transform
from sightword.io.files import Pathish, temporary_name
from sightword.machine import Machine, is_address
from sightword.storage.store import Store

SECONDS = 10.0
"""Target duration of a piece, in seconds, when there are enough pictures."""
PIECES = 4
"""The pieces of each worker, at least, in the rest of the work."""


def compute(
    machine: Machine,
    settings: FeaturesSettings,
    resized: Path,
    store: Store,
    jobs: Sequence[Job],
    extraction: Extraction,
) -> Iterator[int]:
    """Compute features into the store; yield counts of features, and set the clock of ``extraction``.

    The times of the clock are the means of the workers.

    Args:
        machine: where the run was started.
        settings: the section ``features``.
        resized: the output folder of the stage resize, under this name on each node.
        store: the feature store, which all nodes see.
        jobs: the pictures.
        extraction: the kind of feature.

    Raises:
        SetupError: there is no cluster, or it cannot do this work.
        StoreError: the store cannot be written.
        SightwordError: a worker raised it.
    """
    identity, size = extraction.identity, Size.of(machine)
    make = functools.partial(Worker, settings, resized, str(store.place), machine.ray_worker, identity)
    with _probe(store, identity) as probe, opened(machine, size) as cluster:
        requirements = Requirements.here(sorted({job.selection.group.path for job in jobs}), probe)
        pieces, clock = Pieces(jobs), extraction.clock
        for done in cluster.each(make, pieces, count=len(jobs), requirements=requirements):
            pieces.learn(done, cluster.started)
            for name in ("read", "infer", "write", "pictures"):
                setattr(clock, name, getattr(clock, name) + getattr(done, name))
            clock.wall = time.perf_counter() - cluster.began
            yield done.pictures
        for name in ("read", "infer", "write"):
            setattr(clock, name, getattr(clock, name) / max(cluster.started, 1))


class Pieces(Iterator[list[Job]]):
    """Cuts work into pieces of one shard each, of some seconds, and smaller ones towards the end."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._jobs = deque(jobs)
        self._left = sum(len(job.keys) for job in self._jobs)
        self._size = 0.0
        self._workers = 1

    def learn(self, done: Clock, workers: int) -> None:
        """Fit the size of later pieces to the speed of a worker, and to the number of workers."""
        self._size, self._workers = SECONDS * done.pictures / max(done.wall, 1e-3), workers

    def __next__(self) -> list[Job]:
        if not self._jobs:
            raise StopIteration
        size = max(min(self._size, self._left / (PIECES * self._workers)), GROUP)
        piece = [self._jobs.popleft()]
        count = len(piece[0].keys)
        while self._jobs and self._jobs[0].selection.group.path == piece[0].selection.group.path:
            count += len(self._jobs[0].keys)
            if count > size:
                break
            piece.append(self._jobs.popleft())
        self._left -= sum(len(job.keys) for job in piece)
        return piece


class Worker:
    """A network on a worker, which computes the features of pieces into the store.

    Raises:
        FeaturesError: the worker would compute another kind of feature.
        SetupError: the device does not exist.
        WeightsError: the weights are missing, or differ from the requested weights.
    """

    def __init__(
        self, settings: FeaturesSettings, resized: Pathish, store: str, machine: Machine, identity: Identity
    ) -> None:
        device = devices.use(machine)
        self._threads = machine.threads
        self._extraction = Extraction(
            settings, read_transform(resized), device=device, store=Store(store), inference=machine.inference
        )
        own = self._extraction.identity
        if own != identity:
            names = [name for name in vars(own) if getattr(own, name) != getattr(identity, name)]
            found, expected = (", ".join(f"{name} {getattr(one, name)}" for name in names) for one in (own, identity))
            what = f"a worker computes another kind of feature ({found})"
            raise FeaturesError(
                what, expected=expected, todo="Use nodes with the same kind of processor, and the same code."
            )
        self._extraction.load()
        # One for all pieces: after some minutes a piece is one segment, and many segments share a manifest.
        self._writer = Store(store).writer(identity)

    def __call__(self, jobs: list[Job]) -> Clock:
        """Compute the features of a piece, and return the times."""
        clock = self._extraction.clock = Clock()
        keys = [key for job in jobs for key in job.keys.values()]
        arrays = threaded_map(read_arrays, [job.selection for job in jobs], threads=self._threads)
        for _ in self._extraction.compute(keys, lambda _keys: pictures_of(jobs, arrays), writer=self._writer):
            pass
        return clock


@contextlib.contextmanager
def _probe(store: Store, identity: Identity) -> Iterator[Path | None]:
    """Check that the store can be written, and yield a file in it that each node must see (object storage: None)."""
    with store.writer(identity):
        pass
    if is_address(str(store.place)):
        yield None
        return
    path = temporary_name(store.place.folder / "features" / identity.name / "probe")
    path.touch()
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
