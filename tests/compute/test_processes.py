"""The map over processes keeps the order, passes errors on, and reports a dead worker."""

from __future__ import annotations

import operator
import os

import pytest

from sightword.compute.processes import ordered_map
from sightword.errors import SetupError


def test_without_workers_the_result_is_that_of_map() -> None:
    assert list(ordered_map(operator.neg, range(10), workers=0)) == [-n for n in range(10)]


def test_few_items_start_no_process() -> None:
    own = list(ordered_map(lambda _: os.getpid(), range(10), workers=2, alone=60))  # a lambda cannot be sent
    assert own == 10 * [os.getpid()]


@pytest.mark.slow
def test_processes_start_after_the_time_alone() -> None:
    first, *others = ordered_map(eval, 3 * ["__import__('os').getpid()"], workers=1, alone=1e-9)
    assert first == os.getpid()
    assert os.getpid() not in others


@pytest.mark.slow
def test_order_is_kept_and_errors_and_dead_workers_are_reported(tmp_path) -> None:
    assert list(ordered_map(operator.neg, range(100), workers=2, chunk=3)) == [-n for n in range(100)]
    with pytest.raises(ZeroDivisionError):
        list(ordered_map((1).__truediv__, [1, 2, 0], workers=1))
    with pytest.raises(SetupError, match="SIGHTWORD_WORKERS"):
        list(ordered_map(os._exit, [3], workers=1))
