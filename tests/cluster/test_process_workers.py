"""The map over processes keeps the order, passes errors on, and reports a dead worker."""

from __future__ import annotations

import operator
import os

import pytest

from sightword.cluster.processes import ordered_map
from sightword.errors import SetupError


def test_without_workers_the_result_is_that_of_map() -> None:
    assert list(ordered_map(operator.neg, range(10), workers=0)) == [-n for n in range(10)]


@pytest.mark.slow
def test_order_is_kept_and_errors_and_dead_workers_are_reported(tmp_path) -> None:
    assert list(ordered_map(operator.neg, range(100), workers=2, chunk=3)) == [-n for n in range(100)]
    with pytest.raises(ZeroDivisionError):
        list(ordered_map((1).__truediv__, [1, 2, 0], workers=1))
    with pytest.raises(SetupError, match="SIGHTWORD_WORKERS"):
        list(ordered_map(os._exit, [3], workers=1))
