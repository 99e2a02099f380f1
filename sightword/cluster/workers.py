"""An open cluster of Ray, with workers that map a function in order."""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from sightword.cluster.nodes import Requirements
from sightword.cluster.processes import AHEAD, apply, in_order
from sightword.errors import SetupError
from sightword.messages import first_line, plural

log = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")

LOOK = 5.0
"""Seconds between two looks at the nodes, which come and go."""
TRIES = 4
"""Attempts per piece of work before giving up."""
JOINING = 60.0
"""The longest wait for the first node, in seconds: nodes may have been started just now."""
FREE = 5.0
"""The wait for a free worker, in seconds, after which a message tells of the other jobs."""
CHECKED = 60.0
"""The longest wait for a node to check its requirements, in seconds."""


@dataclass(frozen=True)
class Size:
    """The CPUs and GPUs of a worker."""

    cpus: int = 1
    gpus: float = 0.0

    def __str__(self) -> str:
        words = plural(self.cpus, "CPU")
        return f"{words} and {plural(f'{self.gpus:g}', 'GPU')}" if self.gpus else words

    def fit(self, node: dict[str, Any]) -> int:
        """Return how many such workers a node takes."""
        resources = node["Resources"]
        count = int(resources.get("CPU", 0) // self.cpus)
        return min(count, int(resources.get("GPU", 0) / self.gpus + 1e-6)) if self.gpus else count


class Cluster:
    """An open cluster; ``address`` is empty for a local one."""

    def __init__(self, ray: Any, address: str) -> None:
        self.ray, self.address = ray, address
        self._looked = float("-inf")
        self._nodes: list[dict[str, Any]] = []

    def __str__(self) -> str:
        return f"Ray at {self.address}" if self.address else "Ray on this machine"

    def slots(self, size: Size) -> int:
        """Return the number of workers of this size that the nodes take, if no other work runs there."""
        now = time.monotonic()
        if now > self._looked + LOOK:
            self._looked, self._nodes = now, [node for node in self.ray.nodes() if node["Alive"]]
        return sum(size.fit(node) for node in self._nodes)

    def check(self, requirements: Requirements, size: Size) -> None:
        """Check each node that takes workers of this size.

        Raises:
            SetupError: no node takes such workers, or a node lacks a requirement.
        """
        end = time.monotonic() + JOINING
        while not self.slots(size) and time.monotonic() < end:
            time.sleep(1)
        if not self.slots(size):
            todo = "Add such a node, or set SIGHTWORD_RAY_CPUS and SIGHTWORD_RAY_GPUS."
            raise SetupError(f"no node has {size} for a worker", where=self, todo=todo)
        affinity = importlib.import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        task, asked = self.ray.remote(_check), {}
        for node in self._nodes:
            if size.fit(node):
                here = affinity(node["NodeID"], soft=False)
                asked[task.options(num_cpus=0, scheduling_strategy=here).remote(requirements)] = node
        ready, silent = self.ray.wait([*asked], num_returns=len(asked), timeout=CHECKED)
        kinds = sorted({self.result(one) for one in ready})
        if silent:
            what = f"the node {asked[silent[0]]['NodeManagerAddress']} does not answer after {CHECKED:.0f} s"
            raise SetupError(what, where=self, todo="`ray status` shows the nodes; remove it from the cluster.")
        if len(kinds) > 1:
            log.warning("%s has several kinds of processors, which may differ in the last digits: %s", self, kinds)
        self._tell_of_others(size)

    def _tell_of_others(self, size: Size) -> None:
        """Log that other jobs hold what a worker needs, before this run has workers: Ray itself waits in silence."""
        end = time.monotonic() + FREE
        while not size.fit({"Resources": self.ray.available_resources()}):
            if time.monotonic() > end:
                room = plural(self.slots(size), "worker")
                what = "other jobs hold what a worker needs (%s), and this run waits until they end or leave some"
                log.warning(
                    f"%s: {what}. Without them there is room for %s; `ray status` shows them.", self, size, room
                )
                return
            time.sleep(0.2)

    def ordered_map(
        self, function: Callable[[Item], Result], items: Iterable[Item], *, chunk: int = 1, requirements: Requirements
    ) -> Iterator[Result]:
        """Yield the results of ``map(function, items)``, in order, from workers with one CPU.

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
        task = self.ray.remote(_apply).options(num_cpus=1, max_retries=TRIES - 1)
        shared = self.ray.put(requirements)

        def submit(part: list[Item]) -> Callable[[], list[Result]]:
            running = task.remote(shared, function, part)
            return lambda: self.result(running)

        yield from in_order(submit, items, chunk=chunk, ahead=lambda: AHEAD * self.slots(Size()))

    def result(self, reference: Any) -> Any:
        """Wait for a result; the exception of the work is raised as it was, the loss of a worker as a SetupError."""
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self.ray.exceptions.RayError as error:
            raise lost(error) from None


def lost(error: Exception) -> SetupError:
    """Return the error for work with which workers died each time."""
    what = f"{TRIES} workers died with the same work, the last of them so: {first_line(error)}"
    todo = "Perhaps memory ran out: start fewer workers (SIGHTWORD_WORKERS; on a cluster, SIGHTWORD_RAY_CPUS)."
    return SetupError(what, todo=todo)


def _check(requirements: Requirements) -> str:
    return requirements.check()


def _apply(requirements: Requirements, function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
    requirements.check_once()
    return apply(function, items)
