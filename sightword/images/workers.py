"""Maps a function over several processes, in order and with bounded look-ahead."""

from __future__ import annotations

import itertools
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from sightword.errors import SetupError

Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], *, workers: int, chunk: int = 1
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

    Raises:
        SetupError: a worker died, usually because memory ran out.
        Exception: ``function`` raised it.
    """
    if workers == 0:
        yield from map(function, items)
        return
    iterator = iter(items)
    chunks = iter(lambda: list(itertools.islice(iterator, chunk)), [])
    executor = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_start)
    running: deque[Future[list[Result]]] = deque()
    try:
        for part in itertools.islice(chunks, 3 * workers):
            running.append(executor.submit(_apply, function, part))
        while running:
            results = running.popleft().result()
            for part in itertools.islice(chunks, 1):
                running.append(executor.submit(_apply, function, part))
            yield from results
    except BrokenProcessPool:
        what = "a process that reads pictures died, perhaps because memory ran out"
        raise SetupError(what, todo="Try SIGHTWORD_WORKERS=1, or 0 to read in the main process.") from None
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


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
