"""What a run says of a cluster before its workers start."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from sightword.cluster import workers
from sightword.cluster.workers import Cluster, Size
from sightword.errors import SetupError

NODES = [{"Alive": True, "Resources": {"CPU": 2.0}}, {"Alive": False, "Resources": {"CPU": 64.0}}]


class Ray:
    """A Ray that states these free resources, one after the other; the last one stays."""

    def __init__(self, *free: dict[str, float], nodes: list[dict[str, object]] = NODES) -> None:
        self.free, self.nodes = [*free], lambda: nodes

    def available_resources(self) -> dict[str, float]:
        return self.free.pop(0) if len(self.free) > 1 else self.free[0]

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0}

    def wait(self, references: list[object], **_: object) -> tuple[list[object], list[object]]:
        return [], references  # as after a look's time


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
def test_a_cluster_without_room_is_told_at_once(monkeypatch, caplog, size, free, told) -> None:
    monkeypatch.setattr(workers, "FREE", 0.3)
    cluster = Cluster(Ray(*free), "head:6379", size, 8)
    with caplog.at_level(logging.WARNING):
        cluster.begin()
        cluster.first([object()])
    expected = f"Ray at head:6379: waiting for {'a node with ' * (size.gpus > 0)}{size}"
    assert [record.getMessage().startswith(expected) for record in caplog.records] == [True] * told


def test_a_run_that_waits_tells_of_others_each_minute(monkeypatch, caplog) -> None:
    monkeypatch.setattr(workers, "FREE", 0.0)
    cluster = Cluster(Ray({"CPU": 0.5}), "head:6379", Size(), 8)
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(workers, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    cluster.begin()
    counts = []
    for later in (5, 50, 20, 50, 20):
        sleep(later)
        assert cluster.first([object()]) == []
        counts.append(len(caplog.records))
    assert counts == [1, 1, 2, 2, 3]
    said = "waiting for 1 CPU, since work of others holds 1.5 of 2 CPUs; `ray status` shows nodes and demands"
    assert {record.getMessage() for record in caplog.records} == {f"Ray at head:6379: {said}"}


def test_more_workers_than_a_cluster_takes_are_asked_for_and_no_more_of_a_local_one() -> None:
    assert Cluster(Ray({}), "head:6379", Size(), 8).asked(100) == 8
    assert Cluster(Ray({}), "head:6379", Size(), 8).asked(3) == 3
    assert Cluster(Ray({}), "", Size(), 8).asked(100) == 2


def test_a_worker_larger_than_this_machine_is_an_error() -> None:
    with pytest.raises(SetupError, match="Ray on this machine: has no 3 CPUs for a worker"):
        Cluster(Ray({"CPU": 2.0}), "", Size(3), 8).asked(100)
