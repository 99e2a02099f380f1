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
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from sightword.errors import SetupError

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 3
"""Chunks that a worker has in progress or waiting."""


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
        SetupError: a worker died, usually because memory ran out, or shared memory has no room for their locks.
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
    try:
        executor = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_start)
    except OSError as error:
        what = f"no processes can be started: {error.strerror} in the shared memory (/dev/shm)"
        raise SetupError(
            what, todo="Make room there, or set SIGHTWORD_WORKERS=0 to read in the main process."
        ) from None
    try:
        yield from _in_order(executor, function, items, chunk=chunk, ahead=AHEAD * workers)
    except BrokenProcessPool:
        what = 'a process that reads pictures died: memory ran out, or a script lacks `if __name__ == "__main__":`'
        raise SetupError(what, todo="SIGHTWORD_WORKERS=0 reads in the main process.") from None
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def threaded_map(function: Callable[[Item], Result], items: Iterable[Item], *, threads: int) -> Iterator[Result]:
    """Yield the results of ``map(function, items)``, in order, from threads of this process."""
    with ThreadPoolExecutor(threads) as executor:
        yield from _in_order(executor, function, items, chunk=1, ahead=threads + 1)


def _in_order(
    executor: Executor, function: Callable[[Item], Result], items: Iterable[Item], *, chunk: int, ahead: int
) -> Iterator[Result]:
    """Yield the results of chunks of items, in order; at most ``ahead`` chunks are in progress."""
    iterator = iter(items)
    chunks = iter(lambda: list(itertools.islice(iterator, chunk)), [])
    waiting = (executor.submit(_apply, function, part) for part in chunks)
    running = deque(itertools.islice(waiting, max(ahead, 1)))
    while running:
        results = running.popleft().result()
        running.extend(itertools.islice(waiting, 1))
        yield from results


def _apply(function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
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
