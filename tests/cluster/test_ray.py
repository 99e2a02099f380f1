"""The stages resize and features on Ray, as processes: the bytes of one machine, and clear errors."""

from __future__ import annotations

import copy
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from ray_nodes import Project, finish, segments
from small_disk import apart, on_a_disk

from sightword import machine
from sightword.cluster import opening
from sightword.cluster.opening import opened
from sightword.cluster.workers import Size
from sightword.errors import SetupError
from sightword.images.resized import corpus_sources, write_resized
from sightword.images.settings import ResizeSettings
from sightword.images.shards import ResizedPicture, find_pictures, list_pictures, shard_path, write_shard
from sightword.messages import install_extra

PICTURES = 150
RAY = {"SIGHTWORD_ENGINE": "ray"}
SPEED = re.compile(
    r"^features: [\d.]+ s for (\d+) pictures, [\d.]+ a second "
    r"\(read [\d.]+ s, infer [\d.]+ s, write [\d.]+ s, side by side\)$",
    re.MULTILINE,
)


def total(said: str) -> str:
    return said.splitlines()[-1]


def run_changed(
    script: str, project: Project, store: Path, variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run the stage features after lines of Python; the run fails."""
    done = subprocess.run(
        [sys.executable, "-c", f"{script}runpy.run_module('stages', run_name='__main__')", "features"],
        cwd=project.folder, capture_output=True, text=True, check=False,
        env={**os.environ, **RAY, **variables, "SIGHTWORD_STORE": str(store), "PYTHONPATH": str(project.repository)},
    )  # fmt: skip
    assert done.returncode == 1
    return done


@pytest.mark.slow
def test_resize_on_a_local_cluster_gives_the_same_bytes(repository, tmp_path, monkeypatch) -> None:
    project = Project(tmp_path / "project", repository, 40)
    said = project.run("resize", store=tmp_path, **RAY)
    assert said == "Ray on this machine, with room for 2 workers\nresize: 40 pictures in 4 shards\n"
    monkeypatch.chdir(project.folder)
    sources = corpus_sources("data/corpus/images.parquet")
    write_resized("here", sources, ResizeSettings(side=64, shards=4, encoding="raw"))
    here, there = ({path.name: path.read_bytes() for path in Path(name).iterdir()} for name in ("here", "data/resized"))
    assert there == here


@pytest.mark.full
def test_ray_half_warm_store_gives_equal_bytes_and_warm_store_no_worker(project, expected, tmp_path) -> None:
    """One worker is in tests/storage/test_stage_on_objects.py, two are in the other files of this room."""
    part = total(project.run("features", "--part", "1/2", store=tmp_path / "half"))
    computed = int(re.search(r"(\d+) computed", part)[1])
    assert 0 < computed < PICTURES
    said = project.run("features", store=tmp_path / "half", SIGHTWORD_WORKERS="3", **RAY)
    assert project.taken() == expected
    assert "Ray on this machine, with room for 3 workers\n" in said
    assert int(SPEED.search(said)[1]) == PICTURES - computed
    assert total(said) == f"features: {PICTURES} pictures: {PICTURES - computed} computed, {computed} from store"
    said = project.run("features", store=tmp_path / "half", **RAY)
    assert "Ray on this machine" not in said  # nothing is to be computed
    assert total(said) == f"features: {PICTURES} pictures: {PICTURES} from store"
    assert project.taken() == expected


@pytest.mark.full
def test_resize_gives_the_same_bytes_and_rejects(repository, nodes, tmp_path) -> None:
    project = Project(tmp_path / "project", repository, 60)
    (project.folder / "pictures/00007.png").write_bytes(b"no picture")
    folder = project.folder / "data/resized"
    said = {}
    found = {}
    for name, variables in {"local": {}, "cluster": {**RAY, **nodes.variables}}.items():
        said[name] = project.run("resize", store=tmp_path, **variables)
        found[name] = {path.name: path.read_bytes() for path in folder.iterdir()}
        shutil.rmtree(folder)
    assert found["cluster"] == found["local"]
    reject = [line for line in said["local"].splitlines() if "00007.png rejected" in line]
    assert len(reject) == 1
    assert reject[0] in said["cluster"].splitlines()


@pytest.mark.full
def test_a_picture_that_a_worker_cannot_decode(project, nodes, tmp_path) -> None:
    damaged = tmp_path / "project"
    shutil.copytree(project.folder, damaged)
    path = shard_path(damaged / "data/resized", 2)
    rows = find_pictures(damaged / "data/resized", [one.image_id for one in list_pictures(damaged / "data/resized")])
    in_shard = [rows[one.image_id] for one in list_pictures(damaged / "data/resized") if one.group.path == str(path)]
    broken = ResizedPicture(**{**vars(in_shard[5]), "pixels": in_shard[5].pixels[:-100]})
    write_shard(path, [*in_shard[:5], broken, *in_shard[6:]], {"resize": 64, "interpolation": "lanczos", "exif": False})
    other = copy.copy(project)
    other.folder = damaged
    said = {
        name: total(other.run("features", store=tmp_path / name, code=1, **variables))
        for name, variables in {"local": {}, "cluster": {**RAY, **nodes.variables}}.items()
    }
    assert f"picture {broken.image_id}: " in said["local"]
    assert said["cluster"] == said["local"]


@pytest.mark.full
def test_another_ray_where_the_run_starts(project, nodes, tmp_path) -> None:
    done = run_changed("import ray, runpy; ray.__version__ = '2.1.0'; ", project, tmp_path, nodes.variables)
    own = r"expected Ray 2\.1\.0 and Python 3\S+, as here\. Install the same"
    assert re.search(rf": the cluster has Ray \d\S+ and Python 3\S+; {own}", total(done.stderr))


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://head:10001", "head"])
def test_an_address_that_is_none(address, monkeypatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(SetupError, match=f"RAY_ADDRESS={address}: "), opened(machine.current(), Size()):
        pass


def test_a_local_cluster_without_room_for_its_shared_memory_is_told_before_it_starts(monkeypatch) -> None:
    monkeypatch.setattr(os, "environ", {name: os.environ[name] for name in os.environ.keys() - {"RAY_ADDRESS"}})
    monkeypatch.setattr(opening, "_imported", lambda: None)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2e8))
    said = "Ray on this machine: .* has 200 MB free; expected 268 MB in one of them"
    with pytest.raises(SetupError, match=said), opened(machine.current(), Size()):
        pass


@pytest.mark.parametrize("ends", [True, False])
def test_sigterm_interrupts_while_ray_starts_and_has_its_own_handler_later(ends, monkeypatch) -> None:
    """Ray takes the signal over when it starts."""

    def start(**_: object) -> None:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(number))
        if ends:
            os.kill(os.getpid(), signal.SIGTERM)

    errors = SimpleNamespace(RayError=OSError)
    ray = SimpleNamespace(init=start, shutdown=lambda: None, nodes=list, exceptions=errors)
    monkeypatch.setattr(opening, "_imported", lambda: ray)
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(KeyboardInterrupt) if ends else nullcontext(), opened(machine.current(), Size()):
            assert signal.getsignal(signal.SIGTERM) == before
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.full
def test_an_address_that_is_silent(project, tmp_path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        last = total(project.run("features", store=tmp_path / "store", code=1, RAY_ADDRESS=address, **RAY))
    assert last.startswith(f"features: RAY_ADDRESS={address}: ")


HOLDER = """
import os, time, ray
ray.init(address=os.environ["RAY_ADDRESS"], logging_level="ERROR", log_to_driver=False)
held = [ray.remote(lambda: time.sleep(120)).options(num_cpus=1).remote() for _ in range(2)]
while ray.available_resources().get("CPU"):
    time.sleep(0.1)
print("held", flush=True)
ray.get(held)
"""


@pytest.mark.full
def test_other_jobs_that_hold_all_cpus_are_told_and_waited_for(project, nodes, expected, tmp_path) -> None:
    environment = {**os.environ, **nodes.variables}
    with subprocess.Popen([sys.executable, "-c", HOLDER], env=environment, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            run = project.start("features", store=tmp_path / "store", **RAY, **nodes.variables)
            assert run.stderr is not None
            said = next((line for line in run.stderr if "waiting" in line), "")
        finally:
            holder.kill()
    finish(run)
    what = (
        r": waiting for 1 CPU, since work of others holds ([12]) of \1 CPUs; "  # the second node may still be joining
    )
    assert re.match(re.escape(f"Ray at {nodes.address}") + what, said)
    assert project.taken() == expected


@pytest.mark.slow
def test_without_the_extra(repository, tmp_path) -> None:
    project = Project(tmp_path / "project", repository, 1)
    script = "import sys, runpy; sys.modules['ray'] = None; runpy.run_module('stages', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", script, "resize"],
        cwd=project.folder, capture_output=True, text=True, check=False,
        env={**os.environ, **RAY, "PYTHONPATH": str(project.repository)},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == f"resize: the engine ray: Ray is not installed. {install_extra('ray')}\n"


OWN_COPY = 'cp -r "$0" "$1" && mount --bind "$1" "$0" && shift && exec "$@"'


@pytest.mark.full
@pytest.mark.system
def test_a_node_with_a_copy_of_its_own_computes_the_same_bytes(project, nodes, expected, tmp_path) -> None:
    """The node that is added stays, as the only one with four CPUs."""
    resized = str(project.folder / "data/resized")
    nodes.add(*apart(), "sh", "-c", OWN_COPY, resized, str(tmp_path / "copy"), cpus=4)
    variables = {**RAY, **nodes.variables, "SIGHTWORD_RAY_CPUS": "4"}
    said = project.run("features", store=tmp_path / "store", **variables)
    assert f"{PICTURES} computed" in total(said)
    assert (tmp_path / "copy/shard-00.parquet").stat().st_ino != (Path(resized) / "shard-00.parquet").stat().st_ino
    assert project.taken() == expected


@pytest.mark.full
@pytest.mark.system
def test_a_store_that_a_node_does_not_see(project, nodes, tmp_path) -> None:
    """The node that is added stays, with more CPUs than those of the tests before."""
    store = tmp_path / "store"
    store.mkdir()
    nodes.add(*on_a_disk(store, 1 << 24), cpus=2)
    last = total(project.run("features", store=store, code=1, SIGHTWORD_RAY_CPUS="2", **RAY, **nodes.variables))
    assert "does not see the store" in last
    assert not segments(store)
    assert not list(store.rglob("*.tmp"))


@pytest.mark.full
def test_another_sightword_on_a_node(repository, project, nodes, tmp_path) -> None:
    """After all other tests of these nodes: the one that is added stays, and is the only one with three CPUs."""
    other = tmp_path / "other"
    shutil.copytree(repository / "sightword", other / "sightword")
    with (other / "sightword/errors.py").open("a") as file:
        file.write("# changed\n")
    nodes.add(cpus=3, PYTHONPATH=str(other))
    variables = {**RAY, **nodes.variables, "SIGHTWORD_RAY_CPUS": "3"}
    last = total(project.run("features", store=tmp_path / "store", code=1, **variables))
    assert re.fullmatch(
        r"features: node \S+: has Sightword \S+ \(code \w{12}\); expected \S+ \(code \w{12}\), as where the run was "
        r"started\. Install the same versions on all nodes, and start Ray there again\.",
        last,
    )
