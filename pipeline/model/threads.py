"""Several works at a time on a processor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from pipeline.devices import threads

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(works: Sequence[Callable[[], Result]]) -> list[Result]:
    """The results of one or two works without gradients, each with half of torch's threads where there are two.

    Small operations gain little from a second thread, which must be woken for each; two
    works with threads of their own need not wait for each other.
    """
    count = torch.get_num_threads()
    if len(works) == 1 or count == 1:
        return [_without_gradients(work) for work in works]
    half = count // 2
    with threads(half), ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(count - half,)) as other:
        later = other.submit(_without_gradients, works[1])
        return [_without_gradients(works[0]), later.result()]


def spread(work: Callable[[Item], None], items: Iterable[Item]) -> None:
    """Do a work without gradients for each item, as many at a time as torch has threads, each in one thread.

    Raises:
        Exception: what a work raises, the first in the order of the items.
    """

    def alone(item: Item) -> None:
        with torch.inference_mode():  # a thread's own setting
            work(item)

    count = torch.get_num_threads()
    if count == 1:
        for item in items:
            alone(item)
        return
    with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for _ in pool.map(alone, items):
            pass


def _without_gradients(work: Callable[[], Result]) -> Result:
    with torch.no_grad():  # a thread's own setting
        return work()
