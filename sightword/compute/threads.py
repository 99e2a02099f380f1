"""Works in threads side by side, without gradients."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import torch

from sightword.compute.devices import pool, thread_count, threads

Item = TypeVar("Item")
Result = TypeVar("Result")

WORTH_A_THREAD = 20_000
"""Numbers in one step of a work from which a second thread pays. Below, waking each other and handing over the
interpreter's lock takes more time than it saves."""


class _Second:
    """The second thread of the process; it is kept, because a start takes a millisecond, four times a training step."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="beside")


_second = _Second()


def _renew() -> None:
    global _second
    _second = _Second()


os.register_at_fork(after_in_child=_renew)


def side_by_side(works: Sequence[Callable[[], Result]], *, size: int) -> list[Result]:
    """Do one or two works without gradients, each with half of torch's threads where there are two or more.

    Two works with threads of their own need not wait for each other. Works that are too small for that are done one
    after the other, and so are all works while another thread uses the process's second thread: each with the same
    number of threads, so with the same bits.

    Args:
        works: none of which needs another's result.
        size: numbers that one step of a work computes.

    Returns:
        The results, in the order of the works.

    Raises:
        Exception: the exception of a work.
    """
    count = thread_count()
    if len(works) == 1 or count == 1:
        return [_without_gradients(work, count) for work in works]
    half, second = count // 2, _second
    with threads(half):
        if size < WORTH_A_THREAD or not second.turn.acquire(blocking=False):
            return [_without_gradients(works[0], half), _without_gradients(works[1], count - half)]
        try:
            other = second.pool.submit(_without_gradients, works[1], count - half)
            try:
                first = _without_gradients(works[0], half)
            finally:
                wait([other])  # after a failure of the first work too: no thread is left that still writes
            return [first, other.result()]
        finally:
            second.turn.release()


def spread(work: Callable[[Item], None], items: Iterable[Item], *, most: int | None = None) -> None:
    """Do a work without gradients for each item, as many at a time as torch has threads, each in one thread.

    Args:
        work: the work.
        items: the items; the order in which their works end is open.
        most: the most works at a time, where that is fewer.

    Raises:
        Exception: the exception of a work, the first in the order of the items.
    """

    def alone(item: Item) -> None:
        with torch.inference_mode():  # a thread's own setting
            work(item)

    items = list(items)
    count = min(thread_count(), len(items), len(items) if most is None else most)
    if count <= 1:
        with threads(1):
            for item in items:
                alone(item)
        return
    with pool(count) as workers:
        for _ in workers.map(alone, items):
            pass


def _without_gradients(work: Callable[[], Result], count: int) -> Result:
    """Do a work with a number of threads and no gradients, both of which are settings of the thread."""
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)
    with torch.no_grad():
        return work()
