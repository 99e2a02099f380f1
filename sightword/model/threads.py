"""Several works at a time on a processor."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import torch

from sightword.devices import pool, threads

Item = TypeVar("Item")
Result = TypeVar("Result")

WORTH_A_THREAD = 20_000
"""A second thread pays where one step of a work computes at least so many numbers. Below, the threads lose more time
by waking each other and by handing over the interpreter's lock than they save."""


class _Helper:
    """The second thread, which is kept: a training step needs it four times, and making one takes a millisecond."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    def beside(self, later: Callable[[], Result], first: Callable[[], Result]) -> list[Result]:
        """Do one work in the second thread and one in the caller's; the caller holds the :attr:`turn`."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="beside")
        other = self._pool.submit(later)
        try:
            found = first()
        finally:
            wait([other])  # if the first work fails, no thread is left that still writes
        return [found, other.result()]


_helper = _Helper()


def _renew() -> None:
    global _helper
    _helper = _Helper()


os.register_at_fork(after_in_child=_renew)


def side_by_side(works: Sequence[Callable[[], Result]], *, size: int) -> list[Result]:
    """Do one or two works without gradients, each with half of torch's threads where there are two or more.

    Small operations gain little from a second thread, which must be woken for each; two
    works with threads of their own need not wait for each other. Works that are too small even for that are done
    one after the other, and so are all works while another thread keeps the process's second thread busy: each with
    the same number of threads as side by side, so with the same bits.

    Args:
        works: none of which needs another's result.
        size: numbers that one step of a work computes.

    Returns:
        The results, in the order of the works.

    Raises:
        Exception: what a work raises.
    """
    count = torch.get_num_threads()
    if len(works) == 1 or count == 1:
        return [_without_gradients(work, count) for work in works]
    half = count // 2

    def first() -> Result:
        return _without_gradients(works[0], half)

    def later() -> Result:
        return _without_gradients(works[1], count - half)

    helper = _helper
    with threads(half):
        if size < WORTH_A_THREAD or not helper.turn.acquire(blocking=False):
            return [first(), later()]
        try:
            return helper.beside(later, first)
        finally:
            helper.turn.release()


def spread(work: Callable[[Item], None], items: Iterable[Item]) -> None:
    """Do a work without gradients for each item, as many at a time as torch has threads, each in one thread.

    Raises:
        Exception: what a work raises, the first in the order of the items.
    """

    def alone(item: Item) -> None:
        with torch.inference_mode():  # a thread's own setting
            work(item)

    items = list(items)
    count = min(torch.get_num_threads(), len(items))
    with threads(1):  # the number that a thread of the pool sets is also that of later threads, so it is restored
        if count <= 1:
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
