"""Two works at a time on a processor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

Result = TypeVar("Result")


def side_by_side(works: Sequence[Callable[[], Result]]) -> list[Result]:
    """The results of one or two works without gradients, each with half of torch's threads where there are two.

    Small operations gain little from a second thread, which must be woken for each; two
    works with threads of their own need not wait for each other.
    """
    threads = torch.get_num_threads()
    if len(works) == 1 or threads == 1:
        return [_without_gradients(work) for work in works]
    half = threads // 2
    with _threads(half), ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(threads - half,)) as other:
        later = other.submit(_without_gradients, works[1])
        return [_without_gradients(works[0]), later.result()]


def _without_gradients(work: Callable[[], Result]) -> Result:
    with torch.no_grad():  # a thread's own setting
        return work()


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
