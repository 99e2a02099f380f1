"""The commands of jobs, run as tasks of Ray on the nodes of a cluster."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filelock import lock_descriptor

from pipeline.experiments import reaper
from pipeline.experiments.processes import LOCK, Command, End, Processes, is_free
from sightword.compute.ray_actors import NO_NODE
from sightword.compute.ray_nodes import Requirements
from sightword.compute.ray_opening import opened
from sightword.compute.ray_workers import Cluster, Size
from sightword.errors import SetupError
from sightword.machine import Machine, is_address
from sightword.messages import first_line

PATIENCE = reaper.GRACE + 20
"""The longest wait, in seconds, until everything that a lost task started has ended."""
POLL = 0.1
OWN = ("SIGHTWORD_", "DVC_", "GIT_", "OMP_")
"""Beginnings of the variables that a command has from the sweep's process; the others are those of the node."""
OF_RAY = ("RAY_", "PYTHONBREAKPOINT", "SPT_NOENV")
"""Beginnings of the variables that Ray sets for its workers."""


@contextlib.contextmanager
def open_nodes(machine: Machine, folder: Path, cache: Path) -> Iterator[Nodes]:
    """Open the cluster, and check its nodes.

    Args:
        machine: settings of this machine, with the size of an experiment.
        folder: the sweep's folder.
        cache: DVC's cache.

    Raises:
        SetupError: there is no cluster, or its nodes have no room, other versions, or do not see the same files.
    """
    size = Size(machine.ray_cpus, machine.ray_gpus)
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(_probe(one, folder.name)) for one in (folder, cache, machine.scratch)]
        store = None if is_address(machine.store) else stack.enter_context(_probe(Path(machine.store), folder.name))
        requirements = Requirements.here(map(str, files), store)
        cluster = stack.enter_context(opened(machine))
        cluster.check(requirements, size)
        yield Nodes(cluster, size, requirements, folder)


@contextlib.contextmanager
def _probe(folder: Path, name: str) -> Iterator[Path]:
    """Yield a file in a folder, which is there during the sweep of this name."""
    path = folder / f".sweep-{name}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError as error:
        raise SetupError(f"cannot be written ({error.strerror})", where=folder) from None
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


class Nodes:
    """The engine of a cluster whose nodes share the files of the sweep.

    Args:
        cluster: the open cluster.
        size: what a command takes of its node.
        requirements: what each node needs.
        folder: the sweep's folder.
    """

    def __init__(self, cluster: Cluster, size: Size, requirements: Requirements, folder: Path) -> None:
        self.ray = cluster.ray
        self._cluster, self._size, self._folder = cluster, size, folder
        self._shared = self.ray.put(requirements)
        self._task = self.ray.remote(_run).options(num_cpus=size.cpus, num_gpus=size.gpus, max_retries=0)
        self._running: list[Task] = []
        self._seen = time.monotonic()

    def __str__(self) -> str:
        return f"{self._cluster} (room for {self.room()} with {self._size} each)"

    @contextlib.contextmanager
    def guarded(self, _lock: int, /) -> Iterator[None]:
        """End all commands at the end of the block.

        If this process is killed, each node ends its commands, and until then holds the lock of each.
        """
        try:
            yield
        finally:
            for task in self._running:
                self.ray.cancel(task.reference, force=True)
            limit = time.monotonic() + 2 * PATIENCE  # a task that Ray does not reach must not hold up the end
            while self._running and time.monotonic() < limit:
                for task in [*self._running]:
                    with contextlib.suppress(SetupError):  # the first one has been told
                        task.poll()
                time.sleep(POLL)

    def room(self) -> int:
        """Return the number of commands that the nodes take, if no other work runs there.

        Raises:
            SetupError: no node is left.
        """
        room = self._cluster.slots(self._size)
        if room:
            self._seen = time.monotonic()
        elif time.monotonic() > self._seen + NO_NODE:
            todo = "What is done is kept: start nodes, and run again."
            raise SetupError(f"no node is left after {NO_NODE:.0f} s", where=self._cluster, todo=todo)
        return room

    def start(self, command: Command) -> Task:
        """Start a command on a node, as soon as one has room."""
        own = {name: value for name, value in command.environment.items() if name.startswith(OWN)}
        lock = self._folder / f"{secrets.token_hex(6)}{LOCK}"
        reference = self._task.remote(self._shared, replace(command, environment=own), lock)
        self._running.append(Task(reference, lock, self))
        return self._running[-1]

    def ended(self, task: Task) -> None:
        """Forget a task that has ended."""
        self._running.remove(task)
        task.lock.unlink(missing_ok=True)


@dataclass(eq=False)
class Task:
    """A command that runs as a task of Ray."""

    reference: Any
    lock: Path
    """A file that the node locks until everything that the command started has ended."""
    engine: Nodes
    _lost: str = ""
    _since: float = 0.0

    def poll(self) -> End | None:
        """Return the end of the command, once all that it has started has ended too; None before.

        Raises:
            SetupError: the node cannot run the command.
        """
        ray = self.engine.ray
        if not self._lost:
            if not ray.wait([self.reference], timeout=0)[0]:
                return None
            try:
                end = End(ray.get(self.reference))
            except ray.exceptions.RayTaskError as error:
                self.engine.ended(self)
                raise error.cause from None
            except ray.exceptions.RayError as error:
                self._lost, self._since = f"its worker is lost ({first_line(error)})", time.monotonic()
                return None
            self.engine.ended(self)
            return end
        if not is_free(self.lock) and time.monotonic() < self._since + PATIENCE:
            return None
        self.engine.ended(self)
        return End(lost=self._lost)


def _run(requirements: Requirements, command: Command, lock: Path) -> int:
    """Run a command on a node, and return its exit code.

    If Ray kills this process, it kills the children too, but not what these have started: the guard does.
    """
    requirements.check_once()
    node = socket.gethostname()
    here = {name: value for name, value in os.environ.items() if not name.startswith(OWN + OF_RAY)}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    processes = Processes(apart=True)
    try:
        with lock.open("w") as held:
            lock_descriptor(held.fileno())
            with processes.guarded(held.fileno()):
                with command.log.open("ab") as log:
                    log.write(f"node {node}\n".encode())
                arguments = [sys.executable, *command.arguments[1:]]  # this node's Python
                environment = {**here, **command.environment, "PATH": path}
                running = processes.start(replace(command, arguments=arguments, environment=environment))
                while (end := running.poll()) is None:
                    time.sleep(POLL)
                return end.code
    except OSError as error:
        raise SetupError(f"cannot run an experiment ({error})", where=f"node {node}") from None
