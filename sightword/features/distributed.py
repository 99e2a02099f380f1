"""Features on Ray: workers on the nodes of a cluster compute pictures piece by piece, and write into the store.

``RAY_ADDRESS`` names the cluster; without it a cluster of this machine ends with the run. A worker takes the threads of
``SIGHTWORD_THREADS`` as CPUs, and on GPUs one GPU.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import os
import secrets
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from sightword.compute import devices
from sightword.compute.processes import threaded_map
from sightword.errors import FeaturesError, SetupError
from sightword.features.compute import Job, pictures_of
from sightword.features.extraction import Extraction
from sightword.features.extractor import Clock
from sightword.features.identity import Identity
from sightword.features.settings import FeaturesSettings
from sightword.images.shards import read_arrays, read_transform
from sightword.machine import Machine
from sightword.messages import first_line, install_extra
from sightword.storage.store import Store

log = logging.getLogger(__name__)

WORKERS = 256
"""The most workers that a cluster is asked for."""
STARTS = 4
"""Starts of a lost worker before the run gives up."""
ANSWER = 10.0
"""The longest wait for an answer of a cluster's address, in seconds."""
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # as Ray 3 will do; without the variable Ray warns
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_gcs_rpc_server_connect_timeout_s": "10",
}
_LOCAL = {"RAY_AUTH_MODE": "token", "RAY_worker_niceness": "0", "RAY_preallocate_plasma_memory": "1"}
"""A cluster of this machine takes work from this process alone, by a token, and takes its shared memory at once."""


def compute(
    machine: Machine,
    settings: FeaturesSettings,
    resized: Path,
    store: Store,
    jobs: Sequence[Job],
    extraction: Extraction,
) -> Iterator[int]:
    """Compute features into the store; yield counts of features, and set the clock of ``extraction``.

    The times of the clock are the means of the workers. Ray is asked for all workers at once, for an autoscaler to see;
    a worker takes pieces once it has started. Ray starts a lost worker again, with its piece. All nodes see the folder
    ``resized`` and the store under these names; the device of the machine is ``cpu`` or ``cuda``.

    Raises:
        SetupError: there is no cluster, a node lacks something, or a worker was lost again and again.
        SightwordError: the store cannot be written, or a worker raised it.
    """
    size = max(1, min(8, len(jobs) // 8), len(jobs) // 1000)
    pieces = [jobs[start : start + size] for start in range(0, len(jobs), size)][::-1]
    clock, gpus = extraction.clock, int(machine.device == "cuda")
    with store.writer(extraction.identity):  # the store can be written
        pass
    with _connected(machine) as (ray, most):
        options = {"num_cpus": machine.threads, "num_gpus": gpus, "max_restarts": STARTS - 1, "max_task_retries": -1}
        make = ray.remote(Worker).options(**options)
        given = (settings, resized, str(store.place), machine, extraction.identity, str(Path.cwd()))
        workers = [make.remote(*given) for _ in range(min(len(pieces), most))]
        log.info("features: asked Ray for workers with %d CPUs and %d GPUs", machine.threads, gpus)
        starting, computing, started = {worker.start.remote(): worker for worker in workers}, dict[Any, Any](), 0
        began = time.perf_counter()
        try:
            while computing or (starting and pieces):
                (ready,), _ = ray.wait([*starting, *computing], num_returns=1)
                if worker := starting.pop(ready, None):
                    _result(ray, ready)
                    began, started = began if started else time.perf_counter(), started + 1
                else:
                    worker, done = computing.pop(ready), _result(ray, ready)
                    for name in ("read", "infer", "write", "pictures"):
                        setattr(clock, name, getattr(clock, name) + getattr(done, name))
                    clock.wall = time.perf_counter() - began
                    yield done.pictures
                if pieces:
                    computing[worker.compute.remote(pieces.pop())] = worker
                else:  # a worker that was lost elsewhere may need the room
                    ray.kill(worker)
        finally:
            for worker in workers:
                ray.kill(worker)
    for name in ("read", "infer", "write"):
        setattr(clock, name, getattr(clock, name) / max(started, 1))


def _result(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        what = f"a worker was lost {STARTS} times, the last time so: {first_line(error).rstrip('.')}"
        raise SetupError(what, todo="Perhaps memory or /dev/shm is full: start fewer workers a node.") from None


class Worker:
    """A network on a node, which computes the features of pieces into the store."""

    def __init__(
        self, settings: FeaturesSettings, resized: Path, store: str, machine: Machine, identity: Identity, folder: str
    ) -> None:
        self._settings, self._resized, self._store, self._machine = settings, resized, store, machine
        self._identity, self._folder = identity, folder
        self._extraction: Extraction | None = None

    def start(self) -> None:
        """Load the network; SetupError, WeightsError or FeaturesError if the node lacks something or differs."""
        node = f"node {socket.gethostname()}"
        try:
            os.chdir(self._folder)
        except OSError as error:
            what = f"cannot enter the project's folder {self._folder} ({error.strerror})"
            todo = "All nodes need the project's files and the store (SIGHTWORD_STORE) under the same names."
            raise SetupError(what, where=node, todo=todo) from None
        store, device = Store(self._store), devices.use(self._machine)
        extraction = Extraction(self._settings, read_transform(self._resized), device=device, store=store)
        if (own := extraction.identity) != (wanted := self._identity):
            names = [name for name in vars(own) if getattr(own, name) != getattr(wanted, name)]
            here, expected = (", ".join(f"{name} {getattr(kind, name)}" for name in names) for kind in (own, wanted))
            todo = "Use nodes with the same kind of processor, and the same code."
            raise FeaturesError(f"computes another kind of feature ({here})", where=node, expected=expected, todo=todo)
        extraction.load()
        self._extraction, self._writer = extraction, store.writer(own)  # one writer, so that segments are few

    def compute(self, jobs: Sequence[Job]) -> Clock:
        """Compute the features of a piece, and return the times."""
        if self._extraction is None:  # Ray has started the worker again
            self.start()
        assert self._extraction is not None
        clock = self._extraction.clock = Clock()
        keys = [key for job in jobs for key in job.keys.values()]
        arrays = threaded_map(read_arrays, [job.selection for job in jobs], threads=self._machine.threads)
        for _ in self._extraction.compute(keys, lambda _keys: pictures_of(jobs, arrays), writer=self._writer):
            pass
        return clock


@contextlib.contextmanager
def _connected(machine: Machine) -> Iterator[tuple[Any, int]]:
    """Yield Ray, connected, and the most workers to ask for; leave or end the cluster at exit."""
    address, count = os.environ.get("RAY_ADDRESS", ""), 1
    # Ray reads the variables when it is imported, and its processes inherit them.
    for name, value in (_QUIET if address else _QUIET | _LOCAL | {"RAY_AUTH_TOKEN": secrets.token_hex()}).items():
        os.environ.setdefault(name, value)
    try:
        ray = importlib.import_module("ray")
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise SetupError("the engine ray: Ray is not installed", todo=install_extra("ray")) from None
    logging.getLogger("ray").setLevel(logging.ERROR)
    options: dict[str, Any] = {"configure_logging": False, "log_to_driver": False, "logging_level": logging.ERROR}
    with contextlib.ExitStack() as stack:
        if not address:
            count = torch.cuda.device_count() if machine.device == "cuda" else 1
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True))
            options |= {"num_cpus": count * machine.threads, "object_store_memory": 1 << 28, "_temp_dir": folder}
            options |= {"include_dashboard": False}
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))  # such as that a task is tried again
        handler = signal.getsignal(signal.SIGTERM)
        try:
            if ":" in address:  # Ray itself would try for minutes
                host, _, port = address.rpartition(":")
                socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER).close()
            ray.init(address=address or "local", **options)
        except SystemExit:  # of Ray's handler of SIGTERM
            raise KeyboardInterrupt from None
        except (OSError, OverflowError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            where, why = f"RAY_ADDRESS={address}" if address else "Ray on this machine", first_line(error).rstrip(".")
            todo = "Start the cluster (`ray start --head`), with the token and the versions that this machine has."
            raise SetupError(f"no cluster of Ray answers ({why})", where=where, todo=todo * bool(address)) from None
        stack.callback(ray.shutdown)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # at Ray's own the process aborts with frames of C++
        yield ray, WORKERS if address else count
