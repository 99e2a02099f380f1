"""An open cluster of Ray, with workers that map a function in order."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
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

    def __str__(self) -> str:
        words = plural(self.cpus, "CPU")
        return f"{words} and {plural(f'{self.gpus:g}', 'GPU')}" if self.gpus else words

    def fit(self, resources: Mapping[str, float]) -> int:
        """Return how many such workers these CPUs and GPUs take."""
        count = int(resources.get("CPU", 0) // self.cpus)
        return min(count, int(resources.get("GPU", 0) / self.gpus + 1e-6)) if self.gpus else count


class Cluster:
    """An open cluster; ``address`` is empty for a local one; another one is asked for ``most`` workers at most."""

    def __init__(self, ray: Any, address: str, most: int) -> None:
        self.ray, self.address, self._most = ray, address, most
        self._looked = self._told = float("-inf")
        self._nodes: list[dict[str, Any]] = []

    def __str__(self) -> str:
        return f"Ray at {self.address}" if self.address else "Ray on this machine"

    def slots(self, size: Size) -> int:
        """Return the number of workers of this size that the nodes take, if no other work runs there."""
        now = time.monotonic()
        if now > self._looked + LOOK:
            self._looked, self._nodes = now, [node for node in self.ray.nodes() if node["Alive"]]
        return sum(size.fit(node["Resources"]) for node in self._nodes)

    def asked(self, size: Size, count: int) -> int:
        """Return how many workers to ask for: one a piece of work; of a local cluster, no more than it takes."""
        return min(count, self._most if self.address else self.slots(size))

    def first(self, references: list[Any], size: Size, *, begun: bool) -> list[Any]:
        """Wait for a look's time, and return the first reference that is ready; tell what the run waits for.

        Args:
            references: at least one.
            size: the workers.
            begun: whether a worker of this run has started.
        """
        ready: list[Any] = self.ray.wait(references, num_returns=1, timeout=LOOK)[0]
        if not (ready or (begun and self.slots(size))):
            self._tell(size)
        return ready

    def tell_if_busy(self, size: Size) -> None:
        """Log what other work holds, before this run has workers: Ray itself waits in silence.

        Raises:
            SetupError: this machine, as a local cluster, takes no such worker.
        """
        self._told, end = time.monotonic(), time.monotonic() + FREE
        while not size.fit(self.ray.available_resources()):
            if time.monotonic() > end:
                self._told = float("-inf")
                return self._tell(size)
            time.sleep(0.2)
        return None

    def _tell(self, size: Size) -> None:
        if time.monotonic() < self._told + AGAIN:
            return
        self._told = time.monotonic()
        if self.slots(size):
            total, free = self.ray.cluster_resources(), self.ray.available_resources()
            kinds = ("CPU", "GPU") if size.gpus else ("CPU",)
            held = (f"{total.get(kind, 0) - free.get(kind, 0):g} of {total.get(kind, 0):g} {kind}s" for kind in kinds)
            what = f"for {size}, since work of others holds {' and '.join(held)}"
        elif self.address:
            what = f"for a node with {size}"
        else:
            todo = "Set SIGHTWORD_RAY_CPUS and SIGHTWORD_RAY_GPUS to less."
            raise SetupError(f"has no {size} for a worker", where=self, todo=todo)
        log.warning("%s: waiting %s; `ray status` shows nodes and demands", self, what)

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
        self.tell_if_busy(Size())
        task = self.ray.remote(_apply).options(num_cpus=1, max_retries=TRIES - 1)
        shared, begun = self.ray.put(requirements), False

        def submit(part: list[Item]) -> Callable[[], list[Result]]:
            running = task.remote(shared, function, part)

            def results() -> list[Result]:
                nonlocal begun
                while not self.first([running], Size(), begun=begun):
                    pass
                begun = True
                found: list[Result] = self.result(running)
                return found

            return results

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
    """Return the error for a worker, or a task's workers, lost each time."""
    what = f"a worker was lost {TRIES} times, the last time so: {first_line(error)}"
    todo = "Perhaps memory ran out: start fewer workers (SIGHTWORD_WORKERS; on a cluster, SIGHTWORD_RAY_CPUS)."
    return SetupError(what, todo=todo)


def _apply(requirements: Requirements, function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
    requirements.check_once()
    return apply(function, items)
