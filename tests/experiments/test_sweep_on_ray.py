"""Sweeps on a cluster of Ray, with a stand-in for DVC: the experiments of one machine, also when nodes go."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray_nodes import Nodes, kill, members, wait_for
from small_disk import on_a_disk
from swept_project import Project

GRID = "name: {}\nblocks:\n  - train.margin: [{}]\n"
SECONDS = 100


@pytest.fixture(scope="module")
def nodes(repository) -> Iterator[Nodes]:
    """Two nodes with a CPU each."""
    with Nodes(repository, 2) as made:
        yield made


@pytest.fixture
def cluster(nodes, monkeypatch) -> Nodes:
    """The nodes, named in the environment."""
    use(nodes, monkeypatch)
    return nodes


def use(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in nodes.variables.items():
        monkeypatch.setenv(name, value)


def start(project: Project, margins: str, *options: str) -> subprocess.Popen[str]:
    return project.start(project.grid(GRID.format("g", margins)), "--engine", "ray", *options)


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
    said = process.communicate(timeout=SECONDS)[1]
    assert process.returncode == code, said
    return said


def begun(project: Project, count: int, process: subprocess.Popen[str]) -> list[dict]:
    """So many calls; the shared stages of several experiments are the first one."""
    wait_for(lambda: len(project.calls("begun")) == count, SECONDS, process)
    return project.calls("begun")


def go(project: Project) -> None:
    (project.calls_folder / "go").touch()


def worker(call: dict) -> int:
    """The worker of Ray that has started a call."""
    return int(Path(f"/proc/{call['process']}/stat").read_text().rpartition(")")[2].split()[1])


def left(project: Project) -> list[str]:
    """What runs of all calls, and what the sweep has left in its folder."""
    running = [title for call in project.calls("begun") for title in members(call["process"]).values()]
    files = {path.name for path in (project.folder / ".dvc/tmp/sweeps/g").iterdir()}
    return running + sorted(files - {"lock", "logs", "state.json"})


@pytest.mark.full
def test_a_grid_gives_the_experiments_of_one_machine(project, cluster, monkeypatch):
    monkeypatch.setenv("SIGHTWORD_ENGINE", "ray")
    finish(project.start(project.grid(GRID.format("h", "0.1, 0.3")), "--slots", "2"))
    local = project.experiments()
    calls = len(project.calls("ended"))
    said = finish(start(project, "0.1, 0.3, 0.9"), 1)
    assert re.search(
        rf"3 at a time on Ray at {cluster.address} \(room for [12] with 1 CPU each\), threads each: 1;", said
    )
    assert "FAILED   g-margin0.9" in said
    found = project.experiments()
    for margin in (0.1, 0.3):
        assert project.git("rev-parse", f"{found[f'g-margin{margin}']}^{{tree}}") == project.git(
            "rev-parse", f"{local[f'h-margin{margin}']}^{{tree}}"
        )
    shared, *rest = project.calls("ended")[calls:]
    assert (shared["ended"], shared["stages"]) == ("g.shared-1", ["corpus", "features", "captions"])
    assert all(call["began"] >= shared["end"] for call in rest)
    for call in project.calls("begun")[calls:]:
        assert not [name for name in call if name.startswith("RAY_")]
        assert {name: call[f"SIGHTWORD_{name}"] for name in ("ENGINE", "DEVICE", "THREADS", "WORKERS")} == {
            "ENGINE": "local", "DEVICE": "cpu", "THREADS": "1", "WORKERS": "1"
        }  # fmt: skip
    log = (project.folder / ".dvc/tmp/sweeps/g/logs/g-margin0.9.log").read_text().splitlines()
    assert log[0].startswith("node ")
    assert log[1:] == ["Running g-margin0.9", "train: the loss explodes", "ERROR: failed to reproduce 'train'"]
    assert not left(project)


@pytest.mark.full
def test_a_job_whose_worker_is_killed_is_taken_up_again(project, cluster):
    process = start(project, "0.45")
    (call,) = begun(project, 1, process)
    os.kill(worker(call), signal.SIGKILL)
    wait_for(lambda: not members(call["process"]), SECONDS, process)
    go(project)
    said = finish(process)
    assert "waits    g-margin0.45: its worker is lost" in said
    assert set(project.experiments()) == {"g-margin0.45"}
    assert (project.folder / ".dvc/tmp/sweeps/g/logs/g-margin0.45.log").read_text().count("Running") == 2
    assert not left(project)


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_sweep_leaves_nothing_on_the_nodes(project, cluster, number):
    process = start(project, "0.45, 0.46")
    begun(project, 3, process)
    process.send_signal(number)
    said = finish(process, 130)
    assert said.splitlines()[-1] == "stopped; nothing is left running. The same command resumes the sweep."
    assert not left(project)


@pytest.mark.full
def test_a_killed_sweep_ends_on_the_nodes_and_the_same_command_resumes(project, cluster):
    process = start(project, "0.1, 0.45", "--slots", "1")
    begun(project, 2, process)
    process.kill()
    process.communicate()
    go(project)
    said = finish(start(project, "0.1, 0.45", "--slots", "1"))
    assert "1 done already, 1 to run" in said
    killed, again = project.calls("begun")[1:]
    assert not members(killed["process"])
    assert again["begun"] == killed["begun"]
    assert [call["ended"] for call in project.calls("ended")] == ["g-margin0.1", "g-margin0.45"]
    assert not left(project)


@pytest.mark.full
def test_a_node_that_joins_and_one_that_leaves(repository, project, monkeypatch):
    with Nodes(repository) as nodes:
        use(nodes, monkeypatch)
        first = nodes.add()
        process = start(project, "0.45, 0.46")
        begun(project, 2, process)
        nodes.add()
        begun(project, 3, process)
        kill(first)
        go(project)
        said = finish(process)
    assert said.count("its worker is lost") == 1
    assert set(project.experiments()) == {"g-margin0.45", "g-margin0.46"}
    assert not left(project)


@pytest.mark.full
def test_no_node_is_large_enough(project, cluster, monkeypatch):
    monkeypatch.setenv("SIGHTWORD_RAY_CPUS", "3")
    before = "from sightword.compute import workers; workers.JOINING = 1"
    process = project.start(project.grid(GRID.format("g", "0.1")), "--engine", "ray", before=before)
    assert finish(process, 1).splitlines()[-1] == (
        f"sightword: Ray at {cluster.address}: no node has 3 CPUs for a worker. "
        "Add such a node, or set SIGHTWORD_RAY_CPUS and SIGHTWORD_RAY_GPUS."
    )
    assert not project.calls("begun")


@pytest.mark.slow
def test_no_cluster_and_no_ray(project, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    processes = [
        project.start(project.grid(GRID.format("g", "0.1")), "--engine", "ray", before=before)
        for before in ("pass", "sys.modules['ray'] = None")
    ]
    silent, without = (finish(process, 1).splitlines()[-1] for process in processes)
    assert silent.startswith("sightword: RAY_ADDRESS=127.0.0.1:1: no cluster of Ray answers (Connection refused)")
    assert without.endswith("the engine ray: Ray is not installed. Install the extra: pip install 'sightword[ray]'.")
    assert not project.calls("begun")


@pytest.mark.full
@pytest.mark.system
def test_a_folder_that_a_node_does_not_see(project, nodes, monkeypatch, tmp_path):
    """The last test of these nodes: the one that is added stays."""
    places = {"STORE": "does not see the store", "SCRATCH": "does not see the same file"}
    for name in places:
        (tmp_path / name).mkdir()
    nodes.add(*(word for name in places for word in on_a_disk(tmp_path / name, 1 << 24)), cpus=2)
    use(nodes, monkeypatch)
    monkeypatch.setenv("SIGHTWORD_RAY_CPUS", "2")
    for name, said in places.items():
        with monkeypatch.context() as patch:
            patch.setenv(f"SIGHTWORD_{name}", str(tmp_path / name))
            last = finish(start(project, "0.1"), 1).splitlines()[-1]
        assert f"{said} {tmp_path / name}" in last
        assert not list((tmp_path / name).iterdir())
    assert not project.calls("begun")
