"""The stage features on Ray, as processes, and by the lab page's steps: the bytes of one machine, whatever ends."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from blocks import blocks
from ray_nodes import FEATURES, Project, Shell, finish, kill, segments, wait_for, workers
from ruamel.yaml import YAML

pytestmark = pytest.mark.full
PICTURES = 160
ENGINE = {"SIGHTWORD_ENGINE": "ray"}


@pytest.fixture(scope="module")
def project(repository, tmp_path_factory) -> Project:
    made = Project(tmp_path_factory.mktemp("cluster") / "a project", repository, PICTURES)
    made.run("resize", store=made.folder)
    return made


@pytest.fixture(scope="module")
def expected(project, tmp_path_factory) -> bytes:
    """What one machine computes."""
    project.run("features", store=tmp_path_factory.mktemp("stores") / "local")
    return project.taken()


@pytest.fixture
def shell(project, tmp_path) -> Iterator[Shell]:
    with contextlib.closing(Shell(project, tmp_path)) as made:
        yield made


def total(said: str) -> str:
    return said.splitlines()[-1]


def test_a_killed_worker_starts_again_and_a_warm_store_starts_no_ray(project, expected, tmp_path) -> None:
    process = project.start("features", store=tmp_path / "store", **ENGINE)
    wait_for(lambda: segments(tmp_path / "store"), 400, process)
    os.kill(workers(process.pid)[0], signal.SIGKILL)
    said = finish(process)
    assert project.taken() == expected
    assert "asked Ray for workers with 1 CPUs and 0 GPUs\n" in said
    assert total(said) == f"features: {PICTURES} pictures: {PICTURES} computed"
    assert "Ray for" not in project.run("features", store=tmp_path / "store", **ENGINE)
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


def test_a_cluster_by_hand_outlives_a_killed_driver_and_a_lost_node(repository, project, expected, shell) -> None:
    named = f"tests/features/{Path(__file__).name} types these"
    token, head, other, run = (one.text for one in blocks(repository / "docs/lab.md") if one.why == named)
    for step in (token, head):
        shell.run(step)
    joined = shell.start(other)
    assert joined.wait(timeout=300) == 0, shell.said()
    run = run.replace("/shared/store", str(shell.store))
    driver = shell.start(run)
    wait_for(lambda: segments(shell.store), 400, driver)
    kill(driver)
    before = len(segments(shell.store))
    driver = shell.start(run)
    wait_for(lambda: len(segments(shell.store)) > before and workers(joined.pid), 400, driver)
    kill(joined)
    shell.run(other)
    assert driver.wait(timeout=400) == 0, shell.said()
    assert project.taken() == expected
    assert re.search(r"\d+ computed, \d+ from store$", shell.said(), re.MULTILINE)


def test_the_job_of_slurm_ends_with_its_stage_or_its_head(repository, tmp_path) -> None:
    """Four jobs share the nodes; `srun`, `ray` and `dvc` are scripts that do what the job's variables say."""
    from ray.scripts.scripts import start

    port = "import sys, time, socket; s = socket.create_server(('localhost', int(sys.argv[1]))); time.sleep(60)"
    programs = {
        "scontrol": "echo localhost; echo other",
        "srun": 'while [ "$1" != -w ]; do shift; done; shift 2; exec "$@"',
        "ray": 'echo "$*" >> started; case "$*" in *--head*) eval "$HEAD";; *) eval "$OTHER";; esac',
        "dvc": 'echo "$*" >> ran; eval "$STAGE"',
        "listen": f'exec {shlex.quote(sys.executable)} -c "{port}" $4',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    jobs, listen = [], "exec listen $@"
    for number, (head, other, stage, code) in enumerate(
        [
            (listen, "sleep 60", "sleep 2", 0),
            (listen, "exit 1", "until grep -c address started | grep -q 2; do sleep 1; done", 0),
            ("exit 3", "sleep 60", "sleep 60", 1),
            ("listen $@ & until [ -e ran ]; do sleep 1; done; kill $!", "sleep 60", "sleep 60", 1),
        ]
    ):
        (folder := tmp_path / f"job {number}").mkdir()
        variables = {
            "HEAD": head,
            "OTHER": other,
            "STAGE": stage,
            "SLURM_JOB_ID": str(number),
            "SLURM_JOB_NODELIST": "all",
        }
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        command = ["bash", str(repository / "docs/cluster/features.sbatch")]
        job = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **variables, "PATH": path}, start_new_session=True
        )
        jobs.append((job, folder, code))
    for job, folder, code in jobs:
        try:
            assert job.wait(timeout=100) == code, folder
        finally:
            kill(job)
        assert (folder / "ran").exists() == (folder.name != "job 2")
        for line in (folder / "started").read_text().splitlines():
            options = start.make_context("start", line.split()[1:]).params  # Ray reads what the job gives
            assert options["temp_dir"] == f"/tmp/ray-{folder.name[-1]}"


def test_the_jobs_of_kubernetes_run_in_turn(repository, tmp_path) -> None:
    project = Project(tmp_path / "0", repository, 4)
    shell = Shell(project, tmp_path)
    text = (repository / "docs/cluster/kubernetes.yaml").read_text().replace("/projects", shlex.quote(str(tmp_path)))
    for document in YAML(typ="safe", pure=True).load_all(text):
        spec = document["spec"]
        ray = spec.get("rayClusterSpec", {}).get("headGroupSpec")
        container = (ray or spec)["template"]["spec"]["containers"][0]
        limits = container["resources"]["limits"]
        assert limits == container["resources"]["requests"]
        variables = {one["name"]: str(one.get("value", limits["cpu"])) for one in container["env"]}
        command = spec["entrypoint"] if ray else container["command"][2]
        shell.run(command, JOB_COMPLETION_INDEX="0", **variables)
    shell.close()
    assert "4 pictures: 4 computed" in shell.said()
    assert total(shell.said()) == "features: 4 pictures: 4 from store"
