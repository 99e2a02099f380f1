"""Spreads pieces of work over workers that hold something costly, such as a network."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from sightword.cluster.nodes import Requirements
from sightword.cluster.workers import LOOK, TRIES, Cluster, Size, lost
from sightword.errors import SetupError
from sightword.messages import first_line

log = logging.getLogger(__name__)

Piece = TypeVar("Piece")
Result = TypeVar("Result")

QUEUED = 2
"""Pieces that a worker has: one in work, one that waits."""
NO_NODE = 300.0
"""The longest wait for a node, after the last one left, in seconds."""


class Actors(Generic[Piece, Result]):
    """Workers that each make their function once, and then apply it to pieces.

    Args:
        make: makes the function on the worker, such as a class with a costly constructor.
        pieces: small values to send; taken when a worker has room.
        size: what a worker takes of its node.
        requirements: what each node needs.
    """

    def __init__(
        self,
        cluster: Cluster,
        make: Callable[[], Callable[[Piece], Result]],
        pieces: Iterator[Piece],
        *,
        size: Size,
        requirements: Requirements,
    ) -> None:
        self._cluster, self._ray, self._size = cluster, cluster.ray, size
        self._actor = self._ray.remote(_Actor).options(num_cpus=size.cpus, num_gpus=size.gpus, max_restarts=0)
        self._shared = self._ray.put((requirements, make))
        self._pieces, self._returned, self._all_taken = pieces, deque[tuple[Piece, int]](), False
        self._starting: dict[Any, Any] = {}  # worker by the reference of its start
        self._running: dict[Any, tuple[Any, Piece, int]] = {}  # worker, piece and its tries by reference
        self._loads: dict[Any, int] = {}  # pieces of each worker that has started
        self._failed_starts, self._seen = 0, time.monotonic()
        self.most = 0
        """The most workers that there were at a time."""
        self.began = 0.0
        """The moment when the first worker had started, as ``time.perf_counter`` gives it."""

    def run(self) -> Iterator[Result]:
        """Yield the results, in any order.

        The pieces of a worker that died, or of a node that left, are done again elsewhere; a node that joins gets
        workers.

        Raises:
            SetupError: a node lacks a requirement, workers died with the same piece, or no node is left.
            Exception: a worker raised it.
        """
        try:
            while True:
                self._hire()
                self._feed()
                if self._all_taken and not self._running and not self._returned:
                    return
                if not self._starting and not self._running:
                    time.sleep(1)
                    continue
                waiting = [*self._running, *self._starting]
                for reference in self._ray.wait(waiting, num_returns=1, timeout=LOOK)[0]:
                    if reference in self._starting:
                        self._started(reference)
                    else:
                        yield from self._finished(reference)
        finally:
            for worker in (*self._loads, *self._starting.values()):
                self._ray.kill(worker)

    def _hire(self) -> None:
        slots = self._cluster.slots(self._size)
        if slots:
            self._seen = time.monotonic()
        elif time.monotonic() > self._seen + NO_NODE:
            raise SetupError(
                f"no node is left after {NO_NODE:.0f} s", where=self._cluster, todo="Start nodes, and run again."
            )
        for _ in range(slots - len(self._loads) - len(self._starting)):
            worker = self._actor.remote()
            self._starting[worker.start.remote(self._shared)] = worker

    def _feed(self) -> None:
        for load in range(QUEUED):  # each worker has one piece before any has two
            for worker in [worker for worker, its_load in self._loads.items() if its_load == load]:
                found = self._returned.popleft() if self._returned else None
                if found is None and not self._all_taken:
                    piece = next(self._pieces, None)
                    self._all_taken = piece is None
                    found = None if piece is None else (piece, 0)
                if found is None:
                    return
                self._running[worker.work.remote(found[0])] = worker, *found
                self._loads[worker] += 1

    def _started(self, reference: Any) -> None:
        worker = self._starting.pop(reference)
        try:
            self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self._ray.exceptions.RayError as error:
            self._failed_starts += 1
            log.warning("a worker died at its start (%s)", first_line(error))
            if self._failed_starts > TRIES + self.most:
                raise lost(error) from None
        else:
            self._loads[worker], self._failed_starts = 0, 0
            self.began = self.began or time.perf_counter()
            self.most = max(self.most, len(self._loads))

    def _finished(self, reference: Any) -> Iterator[Result]:
        worker, piece, tries = self._running.pop(reference)
        try:
            result = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self._ray.exceptions.RayError as error:
            if tries + 1 == TRIES:
                raise lost(error) from None
            self._returned.append((piece, tries + 1))
            if self._loads.pop(worker, None) is not None:
                self._ray.kill(worker)  # it may be out of reach only
                log.warning("a worker is lost, and its work is done again elsewhere")
                log.debug("%s", first_line(error))
        else:
            if worker in self._loads:
                self._loads[worker] -= 1
            yield result


class _Actor:
    """A worker's side."""

    _work: Callable[[Any], Any]

    def start(self, shared: tuple[Requirements, Callable[[], Callable[[Any], Any]]]) -> None:
        requirements, make = shared
        requirements.check()
        self._work = make()

    def work(self, piece: Any) -> Any:
        return self._work(piece)
