"""What a run says of a cluster before its workers start."""

from __future__ import annotations

import logging

import pytest

from sightword.cluster import workers
from sightword.cluster.workers import Cluster, Size

NODES = [{"Alive": True, "Resources": {"CPU": 2.0}}, {"Alive": False, "Resources": {"CPU": 64.0}}]


class Busy:
    """A Ray that states these free resources, one after the other; the last one stays."""

    def __init__(self, *free: dict[str, float]) -> None:
        self.free = [*free]

    def nodes(self) -> list[dict[str, object]]:
        return NODES

    def available_resources(self) -> dict[str, float]:
        return self.free.pop(0) if len(self.free) > 1 else self.free[0]


@pytest.mark.parametrize(
    ("size", "free", "told"),
    [
        (Size(), [{"memory": 1e9}], True),  # Ray leaves out what is used up
        (Size(), [{"CPU": 0.5}], True),
        (Size(), [{"CPU": 1.0}], False),
        (Size(), [{}, {"CPU": 2.0}], False),
        (Size(2), [{"CPU": 1.0}], True),
        (Size(1, 0.5), [{"CPU": 2.0, "GPU": 0.25}], True),
        (Size(1, 0.5), [{"CPU": 2.0, "GPU": 0.5}], False),
    ],
)
def test_other_jobs_that_hold_the_cluster_are_named(monkeypatch, caplog, size, free, told) -> None:
    monkeypatch.setattr(workers, "FREE", 0.3)
    with caplog.at_level(logging.WARNING):
        Cluster(Busy(*free), "head:6379")._tell_of_others(size)
    expected = f"Ray at head:6379: other jobs hold what a worker needs ({size}), and this run waits until they end"
    assert [record.getMessage().startswith(expected) for record in caplog.records] == [True] * told
