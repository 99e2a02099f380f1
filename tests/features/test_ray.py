"""The stage features on Ray, as processes, and by the lab page's steps: the bytes of one machine, whatever ends."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from blocks import blocks
from ray_nodes import FEATURES, RAY, Nodes, Project, finish, kill, members, segments, wait_for, workers

pytestmark = pytest.mark.full


PICTURES = 240


ENGINE = {"SIGHTWORD_ENGINE": "ray"}


@pytest.fixture(scope="module")
def project(repository, tmp_path_factory) -> Project:
    made = Project(tmp_path_factory.mktemp("cluster") / "project", repository, PICTURES, backbone="resnet18")
    made.run("resize", store=made.folder)
    return made


@pytest.fixture(scope="module")
def expected(project, tmp_path_factory) -> bytes:
    """What one machine computes."""
    project.run("features", store=tmp_path_factory.mktemp("stores") / "local")
    return project.taken()


@pytest.fixture(scope="module")
def nodes(repository) -> Iterator[Nodes]:
    """A cluster of two nodes, the second of which the last test ends."""
    with Nodes(repository, 2) as made:
        yield made


def total(said: str) -> str:
    return said.splitlines()[-1]


def test_a_warm_store_starts_no_ray(project, expected, tmp_path) -> None:
    said = project.run("features", store=tmp_path, **ENGINE)
    assert project.taken() == expected
    assert "asked Ray for workers with 1 CPUs and 0 GPUs\n" in said
    assert total(said) == f"features: {PICTURES} pictures: {PICTURES} computed"
    said = project.run("features", store=tmp_path, **ENGINE)
    assert "Ray for" not in said
    assert project.taken() == expected


def test_a_worker_that_is_killed_is_started_again(project, expected, tmp_path) -> None:
    process = project.start("features", store=tmp_path / "store", **ENGINE)
    wait_for(lambda: segments(tmp_path / "store"), 400, process)
    os.kill(workers(process.pid)[0], signal.SIGKILL)
    finish(process)
    assert project.taken() == expected


def test_interruption_ends_all_processes_and_keeps_the_store(project, expected, tmp_path) -> None:
    process = project.start("features", store=tmp_path / "store", **ENGINE)
    wait_for(lambda: segments(tmp_path / "store"), 400, process)
    os.kill(process.pid, signal.SIGTERM)
    said = finish(process, 130)
    assert total(said) == "features: interrupted"
    assert not (project.folder / FEATURES).exists()
    said = project.run("features", store=tmp_path / "store")
    assert re.search(r"\d+ computed, \d+ from store$", total(said))
    assert project.taken() == expected


def test_a_driver_that_is_killed_leaves_the_cluster_to_the_next_run(project, nodes, expected, tmp_path) -> None:
    process = project.start("features", store=tmp_path / "store", **ENGINE, **nodes.variables)
    wait_for(lambda: segments(tmp_path / "store"), 400, process)
    process.kill()
    process.communicate()
    project.run("features", store=tmp_path / "store", **ENGINE, **nodes.variables)
    assert project.taken() == expected


def test_a_node_that_leaves_and_one_that_joins(project, nodes, expected, tmp_path) -> None:
    process = project.start("features", store=tmp_path / "store", **ENGINE, **nodes.variables)
    busy = [node for node in nodes.started if node is not nodes.started[0]]
    wait_for(
        lambda: (
            segments(tmp_path / "store") and any("ray::Worker" in title for title in members(busy[-1].pid).values())
        ),
        400,
        process,
    )
    nodes.add()
    kill(busy[-1])
    finish(process)
    assert project.taken() == expected


class Shell:
    """A reader's shell on one machine: `dvc repro STAGE` runs the stage, and Ray takes little of the machine."""

    def __init__(self, project: Project, folder: Path) -> None:
        self.project, self.store = project, folder / "store"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = str(probe.getsockname()[1])
        self._temporary = tempfile.mkdtemp(prefix="ray-")  # a short name: sockets lie below
        little = "--min-worker-port=0 --max-worker-port=0 --object-store-memory=104857600 --disable-usage-stats"
        little += " --include-log-monitor=false"
        head = f"--temp-dir={self._temporary} --include-dashboard=false --no-monitor"
        programs = {
            "dvc": f'[ "$1" = repro ] && exec {shlex.quote(sys.executable)} -m stages "$2"',
            "ray": f'[ "$1" = start ] || exec {shlex.quote(RAY)} "$@"\n'
            f'case "$*" in *--head*) set -- "$@" {head};; esac\n'
            'case "$*" in *--num-cpus*) ;; *) set -- "$@" --num-cpus=1;; esac\n'
            f'for each in 1 2 3 4 5; do {shlex.quote(RAY)} "$@" {little} && exit; done; exit 1',
            "scontrol": "echo 127.0.0.1; echo other",
            "srun": 'while [ "$1" != ray ] && [ "$1" != dvc ]; do shift; done; exec "$@"',
        }
        for name, text in programs.items():
            path = folder / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "DVC_STAGE"))}
        self.environment = kept | {
            "HOME": str(folder),
            "PATH": f"{folder / 'bin'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(project.repository),
            "RAY_worker_niceness": "0",
            "SIGHTWORD_DEVICE": "cpu",
            "SIGHTWORD_STORE": str(self.store),
            "SIGHTWORD_THREADS": "1",
        }
        self._begun: list[subprocess.Popen[bytes]] = []

    def start(self, text: str, **variables: str) -> subprocess.Popen[bytes]:
        """Type commands in a session of their own; names and ports are those of this machine."""
        text = re.sub(r"(?<!\$)\bhead:", "127.0.0.1:", text).replace("6379", self.port)
        with (self.store.parent / "said").open("ab") as said:
            begun = subprocess.Popen(
                ["bash", "-e", "-c", text], cwd=self.project.folder, env=self.environment | variables,
                stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip
        self._begun.append(begun)
        return begun

    def run(self, text: str, **variables: str) -> None:
        assert self.start(text, **variables).wait(timeout=300) == 0, self.said()

    def said(self) -> str:
        return (self.store.parent / "said").read_text()

    def end(self) -> None:
        for begun in self._begun:
            kill(begun)
        shutil.rmtree(self._temporary, ignore_errors=True)


@pytest.fixture
def shell(project, tmp_path) -> Iterator[Shell]:
    made = Shell(project, tmp_path)
    try:
        yield made
    finally:
        made.end()


def typed(repository: Path, heading: str) -> list[str]:
    """The blocks below a heading of the page."""
    page = repository / "docs/lab.md"
    lines = page.read_text().splitlines()
    first = lines.index(heading)
    last = next((row for row in range(first + 1, len(lines)) if re.match("#{2,3} ", lines[row])), len(lines))
    return [one.text for one in blocks(page) if first < one.line <= last]


def test_by_hand(repository, project, expected, shell) -> None:
    _, token, head, other, run, _ = typed(repository, "### By hand")
    for step in (token, head, other, run.replace("/shared/store", str(shell.store))):
        shell.run(step)
    assert project.taken() == expected
    assert "features: asked Ray for workers with 1 CPUs" in shell.said()
    assert f"{PICTURES} computed" in shell.said()


def test_slurm(repository, project, expected, shell) -> None:
    (script, *_) = typed(repository, "### Slurm")
    for there, here in (("DEVICE=cuda", "DEVICE=cpu"), ("16", "1"), ("20000 + SLURM_JOB_ID % 10000", shell.port)):
        assert there in script
        script = script.replace(there, here)
    script = script.replace(" --num-gpus 1", "")
    shell.run(script, SLURM_JOB_NODELIST="nodes", SLURM_JOB_NUM_NODES="2")
    assert project.taken() == expected
