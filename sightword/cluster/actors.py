"""Spreads pieces of work over workers that hold something costly, such as a network."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from sightword.cluster.nodes import Requirements
from sightword.cluster.workers import TRIES, Cluster, Size

log = logging.getLogger(__name__)

Piece = TypeVar("Piece")
Result = TypeVar("Result")

QUEUED = 2
"""Pieces that a worker has: one in work, one that waits."""


class Actors(Generic[Piece, Result]):
    """Workers that each make their function once, and then apply it to pieces.

    Ray is asked for all of them at once: an autoscaler sees those that have no room yet. Ray starts a lost worker again
    where there is room, with the pieces that it had. (Ray counts a node that is out of reach as several failures of a
    piece within a second; so the starts of a worker are bounded, and not the tries of a piece.)

    Args:
        make: makes the function on the worker, such as a class with a costly constructor.
        pieces: small values to send; taken when a worker has room.
        count: the most pieces that there can be.
        size: what a worker takes of its node.
        requirements: what each node needs.
    """

    def __init__(
        self,
        cluster: Cluster,
        make: Callable[[], Callable[[Piece], Result]],
        pieces: Iterator[Piece],
        *,
        count: int,
        size: Size,
        requirements: Requirements,
    ) -> None:
        self._cluster, self._pieces, self._count, self._size = cluster, pieces, count, size
        self._shared = requirements, make
        self.most = 0
        """The number of workers that have started."""
        self.began = 0.0
        """The moment when the first worker had started, as ``time.perf_counter`` gives it."""

    def run(self) -> Iterator[Result]:
        """Yield the results, in any order.

        Raises:
            SetupError: a node lacks a requirement, or a worker was lost again and again.
            Exception: a worker raised it.
        """
        ray, cluster, size = self._cluster.ray, self._cluster, self._size
        piece = next(self._pieces, None)
        if piece is None:
            return
        cluster.tell_if_busy(size)
        options = {"num_cpus": size.cpus, "num_gpus": size.gpus, "max_restarts": TRIES - 1, "max_task_retries": -1}
        actor = ray.remote(_Actor).options(**options)
        loads = {actor.remote(*self._shared): 0 for _ in range(cluster.asked(size, self._count))}
        running: dict[Any, Any] = {worker.start.remote(): worker for worker in loads}
        starts, kinds = {*running}, set[str]()
        try:
            while piece is not None or any(loads.values()):
                for reference in cluster.first([*running], size, begun=self.most > 0):
                    worker = running.pop(reference)
                    result, again = cluster.result(reference)
                    if again:
                        log.warning("a worker was lost, and its work is done again")
                    if reference in starts:
                        self.most += 1
                        self.began = self.began or time.perf_counter()
                        _compare(kinds, result, cluster)
                    else:
                        loads[worker] -= 1
                        yield result
                    while piece is not None and loads[worker] < (1 if reference in starts else QUEUED):
                        running[worker.work.remote(piece)] = worker
                        loads[worker] += 1
                        piece = next(self._pieces, None)
                    if not loads[worker]:
                        ray.kill(worker)  # a worker that was lost elsewhere may need the room
                if piece is None:
                    for reference in starts & running.keys():
                        ray.kill(running.pop(reference))
        finally:
            for worker in loads:
                ray.kill(worker)


def _compare(kinds: set[str], processor: str, cluster: Cluster) -> None:
    if kinds and processor not in kinds:
        names = ", ".join(sorted({*kinds, processor}))
        log.warning("%s has processors that may differ in the last digits: %s", cluster, names)
    kinds.add(processor)


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
