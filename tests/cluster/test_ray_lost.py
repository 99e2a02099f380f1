"""Work on Ray, when workers, nodes and the run itself go: nothing is lost, each piece has one result, and one line."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray_nodes import FEATURES, Nodes, Project, finish, kill, members, segments, wait_for, workers

from sightword import machine
from sightword.cluster.nodes import Requirements
from sightword.cluster.opening import opened
from sightword.cluster.workers import Size

pytestmark = pytest.mark.full
RAY = {"SIGHTWORD_ENGINE": "ray"}
LOST = "a worker was lost, and its work is done again\n"
PIECES = 40


class Square:
    """A worker that waits while a file exists, and perhaps dies of a piece."""

    def __init__(self, hold: Path, dies: int) -> None:
        self._hold, self._dies = hold, dies

    def __call__(self, number: int) -> int:
        time.sleep(0.2)
        while self._hold.exists():
            time.sleep(0.1)
        if number == self._dies:
            os._exit(1)
        return number * number


def main(done: Path, dies: int) -> None:
    """Square numbers on the cluster, a line in a file each."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with opened(machine.current(), Size()) as cluster, done.open("w") as file:
        pieces, requirements = iter(range(PIECES)), Requirements.here([])

        def make() -> Square:
            return Square(done.with_name("hold"), dies)

        for square in cluster.each(make, pieces, count=PIECES, requirements=requirements):
            file.write(f"{square}\n")
            file.flush()


class Run:
    """The work of :func:`main` in a process, and what it has done."""

    def __init__(self, repository: Path, done: Path, dies: int = -1, **variables: str) -> None:
        self._done = done
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        environment = {"PYTHONPATH": f"{repository}:{repository}/tests/support", "SIGHTWORD_WORKERS": "2"}
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(done), str(dies)], env=inherited | environment | variables,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def wait_for(self, count: int) -> None:
        """Wait until some pieces are done."""
        wait_for(lambda: len(self.done()) >= count, 200, self.process)

    def done(self) -> list[int]:
        return [int(line) for line in self._done.read_text().splitlines()] if self._done.exists() else []

    def said(self) -> str:
        """What the run said, when all is done, once each."""
        said = finish(self.process)
        assert sorted(self.done()) == [number * number for number in range(PIECES)]
        return said


def working(session: int) -> list[int]:
    return [number for number, title in members(session).items() if title.startswith("ray::_Actor.work")]


@pytest.fixture(scope="module")
def nodes(repository) -> Iterator[Nodes]:
    """A cluster with one node, which the last test of the cluster ends."""
    with Nodes(repository, 1) as made:
        yield made


def test_a_run_on_a_head_without_nodes_waits_for_one(repository, tmp_path) -> None:
    with Nodes(repository) as nodes:
        run = Run(repository, tmp_path / "done", **nodes.variables)
        assert run.process.stderr is not None
        assert next(run.process.stderr) == f"Ray at {nodes.address}, with room for 0 workers\n"
        assert next(run.process.stderr).startswith(f"Ray at {nodes.address}: waiting for a node with 1 CPU; ")
        nodes.add()
        run.said()


def test_the_driver_killed_leaves_the_cluster_to_the_next_run(repository, nodes, tmp_path) -> None:
    run = Run(repository, tmp_path / "done", **nodes.variables)
    run.wait_for(2)
    run.process.kill()
    run.process.communicate()
    assert (
        Run(repository, tmp_path / "again", **nodes.variables).said().count("\n") <= 2
    )  # the room, and perhaps that it waited


def test_a_piece_that_ends_its_worker_each_time_is_an_error(repository, nodes, tmp_path) -> None:
    run = Run(repository, tmp_path / "done", dies=1, **nodes.variables)
    said = finish(run.process, 1)
    assert "SetupError: a worker was lost 4 times, the last time so: " in said.splitlines()[-1]
    assert "\x1b[" not in said


def test_a_wrong_token_is_told(repository, nodes, tmp_path) -> None:
    run = Run(repository, tmp_path / "done", **nodes.variables | {"RAY_AUTH_TOKEN": "0" * 64})
    said = finish(run.process, 1)
    assert f"SetupError: RAY_ADDRESS={nodes.address}: the cluster refuses the token of this process" in said


def test_a_node_that_leaves_and_one_that_joins(repository, nodes, tmp_path) -> None:
    first, hold = nodes.started[-1], tmp_path / "hold"
    hold.touch()
    run = Run(repository, tmp_path / "done", **nodes.variables)
    wait_for(lambda: working(first.pid), 200, run.process)
    second = nodes.add()
    wait_for(lambda: working(second.pid), 200, run.process)
    kill(first)
    hold.unlink()
    said = run.said()
    assert said.endswith(LOST)
    assert "\x1b[" not in said


@pytest.fixture(scope="module")
def slow(repository, tmp_path_factory) -> tuple[Project, bytes]:
    """A project with a larger network, and what one machine computes."""
    made = Project(tmp_path_factory.mktemp("slow") / "project", repository, 240, backbone="resnet18")
    made.run("resize", store=made.folder)
    made.run("features", store=tmp_path_factory.mktemp("stores") / "slow")
    return made, made.taken()


def test_features_with_a_worker_killed_in_the_middle(slow, tmp_path) -> None:
    project, expected = slow
    process = project.start("features", store=tmp_path / "store", **RAY)
    wait_for(lambda: segments(tmp_path / "store"), 400, process)
    os.kill(workers(process.pid)[0], signal.SIGKILL)
    said = finish(process)
    assert LOST in said
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


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
