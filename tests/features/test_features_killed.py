"""The stage features as processes: killed, two at a time, on a damaged store, in parts; always the same bytes."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import fork_server
import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from ruamel.yaml import YAML

from sightword.features.tables.table import read_features
from sightword.images.resized import Source, write_resized
from sightword.images.settings import ResizeSettings
from sightword.io.files import write_table

PICTURES = 150


SIDE = 128


SHARDS = 36
"""As many row groups: enough for four reading processes."""


FEATURES = Path("data/features/features.h5")


def draw(path: Path, number: int) -> Source:
    blocks = np.random.default_rng(number).integers(0, 256, (4, 4 + number % 3, 3), np.uint8)
    Image.fromarray(blocks).resize((32 * blocks.shape[1], 128), Image.Resampling.BICUBIC).save(path)
    return Source(f"{number:04d}.png", str(path))


def prepare(folder: Path, sources: Sequence[Source]) -> None:
    """What the stages corpus and resize would write."""
    table = {"image_id": [source.image_id for source in sources], "path": [source.path for source in sources]}
    write_table(folder / "data/corpus/images.parquet", pa.table(table))
    write_resized(folder / "data/resized", sources, ResizeSettings(side=SIDE, shards=SHARDS, encoding="raw"))


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> list[Source]:
    folder = tmp_path_factory.mktemp("pictures")
    return [draw(folder / f"{number}.png", number) for number in range(PICTURES + 1)]


@dataclass
class Project:
    """A folder in which the stage can be run."""

    folder: Path
    repository: Path

    def start(self, store: Path, *arguments: str, threads: int = 1, workers: int = 0) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.repository),
            "SIGHTWORD_DEVICE": "cpu",
            "SIGHTWORD_STORE": str(store),
            "SIGHTWORD_THREADS": str(threads),
            "SIGHTWORD_WORKERS": str(workers),
        }
        environment.pop("DVC_STAGE", None)
        return subprocess.Popen(
            [fork_server.python(), "-m", "stages", "features", *arguments],
            cwd=self.folder, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def run(self, store: Path, *arguments: str, **options: int) -> str:
        """What the stage said on standard error."""
        return finish(self.start(store, *arguments, **options))

    def bytes(self) -> bytes:
        return (self.folder / FEATURES).read_bytes()

    def copy(self, folder: Path) -> Project:
        """Without the output."""
        shutil.copytree(self.folder, folder, ignore=lambda path, names: {"features"} & set(names))
        return Project(folder, self.repository)


def finish(process: subprocess.Popen[str]) -> str:
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    check_gone(process.pid)
    return said


def counts(said: str) -> tuple[int, ...]:
    """Pictures, computed, from the store, rejected, as the last line tells."""
    last = said.splitlines()[-1]
    total = re.match(r"features: (\d+) pictures: ", last)
    assert total, said
    kinds = ("computed", "from store", "rejected")
    found = [re.search(rf"(\d+) {kind}", last) for kind in kinds]
    return (int(total[1]), *(int(one[1]) if one else 0 for one in found))


def alive(group: int) -> list[str]:
    """The processes of a process group, without those that ended and were not yet fetched."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, rest = path.read_text().rpartition(")")
            state, _, its_group = rest.split()[:3]
            if int(its_group) == group and state not in "ZX":
                found.append(name)
    return found


def check_gone(group: int) -> None:
    """Helping processes notice that the one they helped is gone, and end."""
    patience = time.monotonic() + 10
    while left := alive(group):
        assert time.monotonic() < patience, f"left behind: {left}"
        time.sleep(0.02)


def segments(store: Path) -> list[Path]:
    return [path for path in (store / "features").glob("*/*.parquet") if not path.name.startswith(".")]


@pytest.fixture(scope="module")
def project(repository, sources, tmp_path_factory) -> Project:
    folder = tmp_path_factory.mktemp("project")
    prepare(folder, sources[:PICTURES])
    document = YAML(typ="safe", pure=True).load((repository / "params.yaml").read_text())
    document["resize"] |= {"side": SIDE, "shards": SHARDS}
    document["features"] |= {"backbone": "shufflenet_v2_x0_5", "weights": "random", "weights_sha256": "", "crop": SIDE}
    with (folder / "params.yaml").open("w") as stream:
        YAML().dump(document, stream)
    return Project(folder, repository)


@dataclass
class Undisturbed:
    """A run that nothing disturbed."""

    bytes: bytes
    store: Path
    seconds: float


@pytest.fixture(scope="module")
def undisturbed(project, tmp_path_factory) -> Undisturbed:
    store = tmp_path_factory.mktemp("stores") / "first"
    one = project.copy(tmp_path_factory.mktemp("undisturbed") / "project")
    started = time.monotonic()
    assert counts(one.run(store)) == (PICTURES, PICTURES, 0, 0)
    seconds = time.monotonic() - started
    found = read_features(one.folder / FEATURES)
    assert len(np.unique(found.features, axis=0)) == PICTURES  # else equal bytes would say little
    return Undisturbed(one.bytes(), store, seconds)


def kill_after(process: subprocess.Popen[str], seconds: float, project: Project, whole: bytes) -> str:
    """Kill a run, or let it end before; what is visible of its output is whole all the while."""
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(FileNotFoundError):
            assert project.bytes() == whole
        time.sleep(0.01)
    process.kill()
    said = process.communicate()[1]
    check_gone(process.pid)
    return said


def check_killed(project: Project, store: Path, undisturbed: Undisturbed, moments: Sequence[float], **options) -> None:
    """Killed at each moment, a part of the time that a whole run takes, and then no more."""
    for moment in moments:
        kill_after(project.start(store, **options), moment * undisturbed.seconds, project, undisturbed.bytes)
        if (project.folder / FEATURES).exists():  # it had enough in the store to end before
            assert project.bytes() == undisturbed.bytes
            (project.folder / FEATURES).unlink()
    if not segments(store):  # a slow machine: none came so far
        process = project.start(store, **options)
        while process.poll() is None and not segments(store):
            time.sleep(0.01)
        kill_after(process, 0.0, project, undisturbed.bytes)
    assert segments(store)
    pictures, computed, stored, rejected = counts(project.run(store, **options))
    assert (pictures, rejected) == (PICTURES, 0)
    assert computed + stored == PICTURES
    assert stored > 0
    assert project.bytes() == undisturbed.bytes


@pytest.mark.full
@pytest.mark.parametrize("workers", [0, 4])
def test_killed_at_random_moments_it_ends_with_the_same_bytes(project, undisturbed, tmp_path, workers) -> None:
    rng = random.Random(workers)
    moments = [rng.uniform(0.05, 0.9) for _ in range(4)]
    one = project.copy(tmp_path / "project")
    check_killed(one, tmp_path / "store", undisturbed, moments, threads=2, workers=workers)


@pytest.mark.full
def test_two_at_a_time_on_one_store(project, undisturbed, tmp_path) -> None:
    pair = [project.copy(tmp_path / name) for name in ("one", "other")]
    for process in [one.start(tmp_path / "store") for one in pair]:
        assert counts(finish(process))[0] == PICTURES
    assert [one.bytes() for one in pair] == [undisturbed.bytes] * 2
    assert not [path for path in tmp_path.rglob(".*") if path.is_file()]
