"""A map over several processes that keeps the order and a bounded look-ahead."""

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
    """``map(function, items)`` in ``workers`` processes: same results, same order.

    Processes are spawned, not forked, since forking is not safe beside torch's
    threads; so a script that uses this with workers needs the usual
    ``if __name__ == "__main__":``. At most three chunks a worker are under way, so
    memory does not grow with the number of items.

    Args:
        function: defined at the top of a module.
        items: small things to send: names, numbers.
        workers: 0 does the work in this process.
        chunk: items sent at a time.

    Raises:
        SetupError: a worker died, as happens when memory runs out.
        Exception: whatever ``function`` raises.
    """
    if workers == 0:
        yield from map(function, items)
        return
    chunks = iter(_chunks(items, chunk))
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
        raise SetupError(
            "a process that reads pictures died, perhaps for want of memory",
            todo="Try SIGHTWORD_WORKERS=1, or 0 for none.",
        ) from None
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    iterator = iter(items)
    while part := list(itertools.islice(iterator, size)):
        yield part


def _apply(function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
    return [function(item) for item in items]


def _start() -> None:
    # Ctrl-C is for the parent, which then ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
