"""Maps a function over several processes or threads, in order and with bounded look-ahead."""

from __future__ import annotations

import itertools
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Protocol, TypeVar

from sightword.errors import SetupError

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 3
"""Chunks that a worker has in progress or waiting."""


class OrderedMap(Protocol):
    """Maps as ``map`` does, with workers that take ``chunk`` items at a time."""

    def __call__(
        self, function: Callable[[Item], Result], items: Iterable[Item], *, chunk: int = 1
    ) -> Iterator[Result]:
        """Yield the results in order."""


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], *, workers: int, chunk: int = 1, alone: float = 0.0
) -> Iterator[Result]:
    """Yield the results of ``map(function, items)``, in order, from ``workers`` processes.

    Processes are spawned, not forked, since forking is not safe with torch's threads; a script that uses workers
    therefore needs the usual ``if __name__ == "__main__":``. Each worker has at most three chunks in progress, so that
    memory does not grow with the number of items.

    Args:
        function: a function at the top level of a module.
        items: small values to send, such as names and numbers.
        workers: the number of processes; 0 computes in this process.
        chunk: the number of items sent at a time.
        alone: seconds that this process computes before it starts others, as few items are not worth their start.

    Raises:
        SetupError: a worker died, usually because memory ran out.
        Exception: ``function`` raised it.
    """
    items, until = iter(items), time.monotonic() + alone
    if alone or not workers:
        for item in items:
            yield function(item)
            if workers and time.monotonic() >= until:
                break
        else:
            return
    executor = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_start)

    def submit(part: list[Item]) -> Callable[[], list[Result]]:
        return executor.submit(apply, function, part).result

    try:
        yield from in_order(submit, items, chunk=chunk, ahead=lambda: AHEAD * workers)
    except BrokenProcessPool:
        what = "a process that reads pictures died, perhaps because memory ran out"
        raise SetupError(what, todo="Try SIGHTWORD_WORKERS=1, or 0 to read in the main process.") from None
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def threaded_map(function: Callable[[Item], Result], items: Iterable[Item], *, threads: int) -> Iterator[Result]:
    """Yield the results of ``map(function, items)``, in order, from threads of this process."""
    with ThreadPoolExecutor(threads) as executor:

        def submit(part: list[Item]) -> Callable[[], list[Result]]:
            return executor.submit(apply, function, part).result

        yield from in_order(submit, items, chunk=1, ahead=lambda: threads + 1)


def in_order(
    submit: Callable[[list[Item]], Callable[[], list[Result]]],
    items: Iterable[Item],
    *,
    chunk: int,
    ahead: Callable[[], int],
) -> Iterator[Result]:
    """Yield the results of chunks of items, in order.

    Args:
        submit: starts the work on a chunk, and returns a function that waits for the results.
        items: what is worked on, taken when there is room.
        chunk: the number of items of a chunk.
        ahead: returns the number of chunks that may be in progress now.
    """
    iterator = iter(items)
    running: deque[Callable[[], list[Result]]] = deque()

    def fill() -> None:
        while len(running) < max(ahead(), 1) and (part := list(itertools.islice(iterator, chunk))):
            running.append(submit(part))

    fill()
    while running:
        results = running.popleft()()
        fill()
        yield from results


def apply(function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
    """Return the results of a chunk."""
    return [function(item) for item in items]


def _start() -> None:
    # The parent handles Ctrl-C and ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this worker with its parent; otherwise a worker of a killed parent would wait forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
