"""The stage features on Ray, when workers, nodes and the run itself go: nothing is lost, and no byte changes."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

import pytest
from ray_nodes import FEATURES, Nodes, Project, finish, kill, segments, wait_for, workers

pytestmark = pytest.mark.full
RAY = {"SIGHTWORD_ENGINE": "ray"}


@pytest.fixture(scope="module")
def slow(repository, tmp_path_factory) -> tuple[Project, bytes]:
    """A project with a larger network, and what one machine computes."""
    made = Project(tmp_path_factory.mktemp("slow") / "project", repository, 240, backbone="resnet18")
    made.run("resize", store=made.folder)
    made.run("features", store=tmp_path_factory.mktemp("stores") / "slow")
    return made, made.taken()


@pytest.fixture(scope="module")
def nodes(repository) -> Iterator[Nodes]:
    """A cluster with one node, which the last test of the cluster ends."""
    with Nodes(repository, 1) as made:
        yield made


def test_a_worker_killed_in_the_middle(slow, tmp_path) -> None:
    project, expected = slow
    process = project.start("features", store=tmp_path / "store", **RAY)
    wait_for(lambda: segments(tmp_path / "store"), 400, process)
    os.kill(workers(process.pid)[0], signal.SIGKILL)
    said = finish(process)
    assert "a worker is lost, and its work is done again elsewhere\n" in said
    assert project.taken() == expected


def test_the_driver_killed_and_run_again(slow, nodes, tmp_path) -> None:
    project, expected = slow
    variables = RAY | nodes.variables
    process = project.start("features", store=tmp_path / "store", **variables)
    wait_for(lambda: segments(tmp_path / "store"), 400, process)
    process.kill()
    process.communicate()
    said = project.run("features", store=tmp_path / "store", **variables)
    assert re.search(r"\d+ computed, \d+ from store$", said.splitlines()[-1])
    assert project.taken() == expected


def test_a_node_that_leaves_and_one_that_joins(slow, nodes, tmp_path) -> None:
    project, expected = slow
    first = nodes.started[-1]
    process = project.start("features", store=tmp_path / "store", **RAY, **nodes.variables)
    wait_for(lambda: workers(first.pid), 400, process)
    held = workers(first.pid)  # else the first node may have done all before the second one starts
    for worker in held:
        os.kill(worker, signal.SIGSTOP)
    second = nodes.add()
    wait_for(lambda: workers(second.pid), 400, process)
    for worker in held:
        os.kill(worker, signal.SIGCONT)
    wait_for(lambda: segments(tmp_path / "store"), 400, process)
    kill(first)
    said = finish(process)
    assert "a worker is lost, and its work is done again elsewhere\n" in said
    assert project.taken() == expected


@pytest.mark.parametrize("send", [lambda pid: os.killpg(pid, signal.SIGINT), lambda pid: os.kill(pid, signal.SIGTERM)],
                         ids=["Ctrl-C", "SIGTERM"])  # fmt: skip
def test_interruption_ends_all_processes_and_keeps_the_store(slow, tmp_path, send) -> None:
    project, expected = slow
    process = project.start("features", store=tmp_path / "store", **RAY)
    wait_for(lambda: segments(tmp_path / "store"), 400, process)
    send(process.pid)
    said = finish(process, 130)
    assert said.splitlines()[-1] == "features: interrupted"
    assert "SIGTERM received" not in said
    assert not (project.folder / FEATURES).exists()
    said = project.run("features", store=tmp_path / "store")
    assert re.search(r"\d+ computed, \d+ from store$", said.splitlines()[-1])
    assert project.taken() == expected
