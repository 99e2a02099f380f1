"""An open cluster of Ray, whose workers map a function in order, or hold something costly, such as a network."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sightword.cluster.nodes import Requirements
from sightword.cluster.processes import AHEAD, apply, in_order
from sightword.errors import SetupError
from sightword.machine import Machine
from sightword.messages import first_line, plural

log = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")
Piece = TypeVar("Piece")

LOOK = 5.0
"""Seconds between two looks at the nodes, which come and go."""
TRIES = 4
"""Starts of a worker, and attempts of a task, before giving up."""
FREE = 2.0
"""Seconds in which work that has just ended may leave the cluster."""
AGAIN = 60.0
"""Seconds between two messages of what a run waits for."""


@dataclass(frozen=True)
class Size:
    """The CPUs and GPUs of a worker."""

    cpus: int = 1
    gpus: float = 0.0

    @classmethod
    def of(cls, machine: Machine) -> Size:
        """Return the size that the settings of a machine name."""
        return cls(machine.ray_cpus, machine.ray_gpus)

    def __str__(self) -> str:
        words = plural(self.cpus, "CPU")
        return f"{words} and {plural(f'{self.gpus:g}', 'GPU')}" if self.gpus else words

    def fit(self, resources: Mapping[str, float]) -> int:
        """Return how many such workers these CPUs and GPUs take."""
        count = int(resources.get("CPU", 0) // self.cpus)
        return min(count, int(resources.get("GPU", 0) / self.gpus + 1e-6)) if self.gpus else count


class Cluster:
    """An open cluster, for workers of one size.

    Args:
        ray: the module, connected.
        address: empty for a local cluster.
        size: what a worker takes of its node.
        most: the most workers that a cluster elsewhere is asked for at once.
    """

    def __init__(self, ray: Any, address: str, size: Size, most: int) -> None:
        self.ray, self.address, self.size, self._most = ray, address, size, most
        self._looked = self._told = float("-inf")
        self._nodes: list[dict[str, Any]] = []
        self.started = 0
        """The number of workers that have started for the work in hand."""
        self.began = 0.0
        """The moment when the first of them had started, as ``time.perf_counter`` gives it."""

    def __str__(self) -> str:
        return f"Ray at {self.address}" if self.address else "Ray on this machine"

    def slots(self) -> int:
        """Return the number of workers that the nodes take, if no other work runs there."""
        now = time.monotonic()
        if now > self._looked + LOOK:
            self._looked, self._nodes = now, [node for node in self.ray.nodes() if node["Alive"]]
        return sum(self.size.fit(node["Resources"]) for node in self._nodes)

    def asked(self, count: int) -> int:
        """Return how many workers to ask for: one a piece of work; of a local cluster, no more than it takes.

        Raises:
            SetupError: this machine, as a local cluster, takes none.
        """
        if self.address:
            return min(count, self._most)
        if not (slots := self.slots()):
            todo = "Set SIGHTWORD_RAY_CPUS and SIGHTWORD_RAY_GPUS to less."
            raise SetupError(f"has no {self.size} for a worker", where=self, todo=todo)
        return min(count, slots)

    def each(
        self,
        make: Callable[[], Callable[[Piece], Result]],
        pieces: Iterator[Piece],
        *,
        count: int,
        requirements: Requirements,
    ) -> Iterator[Result]:
        """Yield the results of workers that each make their function once, and apply it to pieces, in any order.

        Ray is asked for all workers at once: an autoscaler sees those that have no room yet. Ray starts a lost worker
        again where there is room, with its piece. (Ray counts a node that is out of reach as several failures of a
        piece within a second; so the starts of a worker are bounded, and not the tries of a piece.)

        Args:
            make: makes the function on the worker, such as a class with a costly constructor.
            pieces: small values to send; each is taken when a worker has room.
            count: the most pieces that there can be.
            requirements: what each node needs.

        Raises:
            SetupError: a node lacks a requirement, or a worker was lost again and again.
            Exception: a worker raised it.
        """
        if not count:
            return
        ray = self.ray
        self.begin()
        options = {"num_cpus": self.size.cpus, "num_gpus": self.size.gpus}
        actor = ray.remote(_Actor).options(**options, max_restarts=TRIES - 1, max_task_retries=-1)
        workers = [actor.remote(requirements, make) for _ in range(self.asked(count))]
        running = {worker.start.remote(): worker for worker in workers}
        starts, processors = {*running}, set[str]()
        try:
            while running:
                for reference in self.first([*running]):
                    worker = running.pop(reference)
                    result, again = self.result(reference)
                    if again:
                        log.warning("a worker was lost, and its work is done again")
                    if reference in starts:
                        self.started, self.began = self.started + 1, self.began or time.perf_counter()
                        if processors and result not in processors:
                            names = ", ".join(sorted({*processors, result}))
                            log.warning("%s has processors that may differ in the last digits: %s", self, names)
                        processors.add(result)
                    else:
                        yield result
                    piece = next(pieces, None)
                    if piece is None:  # a worker that was lost elsewhere may need the room
                        for needless in (worker, *(running.pop(one) for one in starts & running.keys())):
                            ray.kill(needless)
                    else:
                        running[worker.work.remote(piece)] = worker
        finally:
            for worker in workers:
                ray.kill(worker)

    def ordered_map(
        self, function: Callable[[Item], Result], items: Iterable[Item], *, chunk: int = 1, requirements: Requirements
    ) -> Iterator[Result]:
        """Yield the results of ``map(function, items)``, in order.

        The work of a worker that died, or of a node that left, is done again elsewhere.

        Args:
            function: a function at the top level of a module that each node has.
            items: small values to send, such as names and numbers.
            chunk: the number of items sent at a time.
            requirements: what each node needs.

        Raises:
            SetupError: a node lacks a requirement, or workers died with the same items again and again.
            Exception: ``function`` raised it.
        """
        self.begin()
        task = self.ray.remote(_apply).options(num_cpus=self.size.cpus, max_retries=TRIES - 1)
        shared = self.ray.put(requirements)

        def submit(part: list[Item]) -> Callable[[], list[Result]]:
            running = task.remote(shared, function, part)

            def results() -> list[Result]:
                while not self.first([running]):
                    pass
                self.started = 1
                found: list[Result] = self.result(running)
                return found

            return results

        yield from in_order(submit, items, chunk=chunk, ahead=lambda: AHEAD * self.slots())

    def result(self, reference: Any) -> Any:
        """Wait for a result; the exception of the work is raised as it was, the loss of a worker as a SetupError."""
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self.ray.exceptions.RayError as error:
            what = f"a worker was lost {TRIES} times, the last time so: {first_line(error).rstrip('.')}"
            todo = "start fewer workers (SIGHTWORD_WORKERS; on a cluster, SIGHTWORD_RAY_CPUS)"
            raise SetupError(what, todo=f"Perhaps memory or /dev/shm is full: {todo}.") from None

    def begin(self) -> None:
        """Note whether other work holds the cluster, before this run has workers: Ray itself waits in silence."""
        self.started, self.began = 0, 0.0
        end = time.monotonic() + FREE
        while not (free := self.size.fit(self.ray.available_resources())) and time.monotonic() < end:
            time.sleep(0.2)
        self._told = time.monotonic() if free else float("-inf")

    def first(self, references: list[Any]) -> list[Any]:
        """Wait for a look's time, and return the first reference that is ready; tell what the run waits for."""
        ready: list[Any] = self.ray.wait(references, num_returns=1, timeout=LOOK)[0]
        waiting = self.address and not (ready or (self.started and self.slots()))
        if waiting and time.monotonic() >= self._told + AGAIN:
            self._told = time.monotonic()
            what = f"for a node with {self.size}"
            if self.slots():
                total, free = self.ray.cluster_resources(), self.ray.available_resources()
                kinds = ("CPU", "GPU") if self.size.gpus else ("CPU",)
                held = (f"{total.get(one, 0) - free.get(one, 0):g} of {total.get(one, 0):g} {one}s" for one in kinds)
                what = f"for {self.size}, since work of others holds {' and '.join(held)}"
            log.warning("%s: waiting %s; `ray status` shows nodes and demands", self, what)
        return ready


class _Actor:
    """A worker's side: each result comes with whether Ray had to start the worker again for it."""

    def __init__(self, requirements: Requirements, make: Callable[[], Callable[[Any], Any]]) -> None:
        self._requirements, self._make = requirements, make
        self._work: Callable[[Any], Any] | None = None

    def start(self) -> tuple[str, bool]:
        kind = self._requirements.check()
        self._work = self._make()
        return kind, False

    def work(self, piece: Any) -> tuple[Any, bool]:
        again = self._work is None
        if self._work is None:
            self.start()
        assert self._work is not None
        return self._work(piece), again


_check = functools.cache(Requirements.check)


def _apply(requirements: Requirements, function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
    _check(requirements)
    return apply(function, items)
