"""The stage features as processes: killed at any moment, or two at a time on one store; always the same bytes."""

from __future__ import annotations

import contextlib
import copy
import random
import re
import shutil
import time
from dataclasses import dataclass

import numpy as np
import pytest
from ray_nodes import FEATURES, Project, finish, members, segments, wait_for

from sightword.features.tables.table import read_features

pytestmark = pytest.mark.full
PICTURES = 150


@pytest.fixture(scope="module")
def project(repository, tmp_path_factory) -> Project:
    made = Project(tmp_path_factory.mktemp("killed") / "project", repository, PICTURES)
    text = (made.folder / "params.yaml").read_text()
    (made.folder / "params.yaml").write_text(text.replace("shards: 4", "shards: 36"))  # enough for four readers
    made.run("resize", store=made.folder)
    return made


@dataclass
class Undisturbed:
    """A run that nothing disturbed."""

    bytes: bytes
    seconds: float


@pytest.fixture(scope="module")
def undisturbed(project, tmp_path_factory) -> Undisturbed:
    started = time.monotonic()
    assert counts(project.run("features", store=tmp_path_factory.mktemp("stores") / "first")) == (PICTURES, 0)
    seconds = time.monotonic() - started
    features = read_features(project.folder / FEATURES).features
    assert len(np.unique(features, axis=0)) == PICTURES  # else equal bytes would say little
    return Undisturbed(project.taken(), seconds)


def counts(said: str) -> tuple[int, ...]:
    """Computed features, and those from the store, as the last line tells."""
    last = said.splitlines()[-1]
    assert last.startswith(f"features: {PICTURES} pictures: "), said
    found = [re.search(rf"(\d+) {kind}", last) for kind in ("computed", "from store")]
    return tuple(int(number[1]) if number else 0 for number in found)


@pytest.mark.parametrize("workers", [0, 4])
def test_killed_at_random_moments_it_ends_with_the_same_bytes(project, undisturbed, tmp_path, workers) -> None:
    """What is visible of the output is whole all the while, and no process stays behind."""
    rng, store, path = random.Random(workers), tmp_path / "store", project.folder / FEATURES
    options = {"SIGHTWORD_THREADS": "2", "SIGHTWORD_WORKERS": str(workers)}
    for moment in [rng.uniform(0.05, 0.9) for _ in range(4)]:
        process = project.start("features", store=store, **options)
        end = time.monotonic() + moment * undisturbed.seconds
        while process.poll() is None and time.monotonic() < end:
            with contextlib.suppress(FileNotFoundError):
                assert path.read_bytes() == undisturbed.bytes
            time.sleep(0.01)
        process.kill()
        process.communicate()
        wait_for(lambda process=process: not members(process.pid), 20)
        path.unlink(missing_ok=True)  # of a run that had enough in the store to end before
    if not segments(store):  # a slow machine: none came so far
        process = project.start("features", store=store, **options)
        wait_for(lambda: segments(store), 300, process)
        process.kill()
        process.communicate()
    computed, stored = counts(project.run("features", store=store, **options))
    assert computed + stored == PICTURES
    assert stored > 0
    assert project.taken() == undisturbed.bytes


def test_two_at_a_time_on_one_store(project, undisturbed, tmp_path) -> None:
    second = copy.copy(project)
    second.folder = tmp_path / "second"
    shutil.copytree(project.folder, second.folder)
    for process in [one.start("features", store=tmp_path / "store") for one in (project, second)]:
        finish(process)
    assert [one.taken() for one in (project, second)] == [undisturbed.bytes] * 2
    assert not [path for path in (tmp_path / "store").rglob(".*") if path.is_file()]
