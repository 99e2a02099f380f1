"""The stage features on Ray, as processes: the bytes of one machine, whatever ends in the middle."""

from __future__ import annotations

import copy
import os
import re
import shutil
import signal
from collections.abc import Iterator

import pytest
from ray_nodes import FEATURES, Nodes, Project, finish, kill, members, segments, wait_for, workers

from sightword.images.shards import ResizedPicture, find_pictures, list_pictures, shard_path, write_shard

pytestmark = pytest.mark.full
PICTURES = 240
RAY = {"SIGHTWORD_ENGINE": "ray"}


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
    said = project.run("features", store=tmp_path, **RAY)
    assert project.taken() == expected
    assert "asked Ray for workers with 1 CPUs and 0 GPUs\n" in said
    assert total(said) == f"features: {PICTURES} pictures: {PICTURES} computed"
    said = project.run("features", store=tmp_path, **RAY)
    assert "Ray for" not in said
    assert project.taken() == expected


def test_a_damaged_picture_is_the_error_of_one_machine(project, nodes, tmp_path) -> None:
    damaged = tmp_path / "project"
    shutil.copytree(project.folder, damaged)
    path = shard_path(damaged / "data/resized", 2)
    rows = find_pictures(damaged / "data/resized", [one.image_id for one in list_pictures(damaged / "data/resized")])
    in_shard = [rows[one.image_id] for one in list_pictures(damaged / "data/resized") if one.group.path == str(path)]
    broken = ResizedPicture(**{**vars(in_shard[5]), "pixels": in_shard[5].pixels[:-100]})
    write_shard(path, [*in_shard[:5], broken, *in_shard[6:]], {"resize": 64, "interpolation": "lanczos", "exif": False})
    other = copy.copy(project)
    other.folder = damaged
    local, cluster = (
        total(other.run("features", store=tmp_path / str(number), code=1, **variables))
        for number, variables in enumerate(({}, {**RAY, **nodes.variables}))
    )
    assert f"picture {broken.image_id}: " in local
    assert cluster == local


def test_a_worker_that_is_killed_is_started_again(project, expected, tmp_path) -> None:
    process = project.start("features", store=tmp_path / "store", **RAY)
    wait_for(lambda: segments(tmp_path / "store"), 400, process)
    os.kill(workers(process.pid)[0], signal.SIGKILL)
    finish(process)
    assert project.taken() == expected


@pytest.mark.parametrize("send", [lambda pid: os.killpg(pid, signal.SIGINT), lambda pid: os.kill(pid, signal.SIGTERM)],
                         ids=["Ctrl-C", "SIGTERM"])  # fmt: skip
def test_interruption_ends_all_processes_and_keeps_the_store(project, expected, tmp_path, send) -> None:
    process = project.start("features", store=tmp_path / "store", **RAY)
    wait_for(lambda: segments(tmp_path / "store"), 400, process)
    send(process.pid)
    said = finish(process, 130)
    assert total(said) == "features: interrupted"
    assert not (project.folder / FEATURES).exists()
    said = project.run("features", store=tmp_path / "store")
    assert re.search(r"\d+ computed, \d+ from store$", total(said))
    assert project.taken() == expected


def test_a_driver_that_is_killed_leaves_the_cluster_to_the_next_run(project, nodes, expected, tmp_path) -> None:
    process = project.start("features", store=tmp_path / "store", **RAY, **nodes.variables)
    wait_for(lambda: segments(tmp_path / "store"), 400, process)
    process.kill()
    process.communicate()
    project.run("features", store=tmp_path / "store", **RAY, **nodes.variables)
    assert project.taken() == expected


def test_a_node_that_leaves_and_one_that_joins(project, nodes, expected, tmp_path) -> None:
    process = project.start("features", store=tmp_path / "store", **RAY, **nodes.variables)
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
