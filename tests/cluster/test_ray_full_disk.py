"""Disks that fill up while Ray works: of a full store all that was stored stays, and a full /dev/shm stops nothing."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from ray_nodes import Project, segments
from small_disk import fill, run_on_a_disk

from sightword import machine
from sightword.cluster import opening
from sightword.cluster.nodes import Requirements
from sightword.cluster.workers import Size
from sightword.io.files import sync

PICTURES = 150
DISK = 8 << 20
ROOM = 400 << 10
"""Enough for some of the features, of 4 kB each with key and checksum, and not for all of them."""
PAGES = 1 << 23


def check(disk: Path, repository: Path) -> None:
    """Run on an empty disk, by a process that sees it alone."""
    with tempfile.TemporaryDirectory() as name:
        project = Project(Path(name) / "project", repository, PICTURES, python=sys.executable)
        project.run("resize", store=disk)
        store = disk / "store"
        store.mkdir()
        filler = fill(disk, ROOM)
        said = project.run("features", store=store, code=1, SIGHTWORD_ENGINE="ray")
        assert f"features: {store}: the store cannot be written (No space left on device). " in said, said
        kept = len(segments(store))
        assert kept
        assert not list(store.rglob("*.tmp"))
        filler.unlink()
        sync(disk)
        said = project.run("features", store=store)
        assert re.search(rf"{PICTURES} pictures: \d+ computed, \d+ from store\n$", said), said
    sys.stdout.write("done\n")


def check_memory() -> None:
    """Fill /dev/shm while a cluster is open; a process of Ray that takes a page there then is ended by SIGBUS."""
    free = opening.OBJECTS + (1 << 20)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={free}", "tmpfs", opening.SHARED], check=True)
    with opening.opened(machine.current(), Size()) as cluster:
        fill(Path(opening.SHARED), 0)
        work = cluster.each(Add, iter(range(3)), count=3, requirements=Requirements.here([]))
        np.testing.assert_array_equal(sorted(int(found[-1]) for found in work), [PAGES, PAGES + 1, PAGES + 2])
    sys.stdout.write("done\n")


class Add:
    """Adds a number to many."""

    def __init__(self) -> None:
        self._pages = np.arange(PAGES + 1)

    def __call__(self, number: int) -> np.ndarray:
        return self._pages + number


@pytest.mark.full
@pytest.mark.system
def test_a_full_disk(tmp_path, repository) -> None:
    run_on_a_disk(repository, tmp_path / "disk", DISK, __file__, str(repository))


@pytest.mark.full
@pytest.mark.system
def test_shared_memory_filled_by_others_in_the_middle_of_a_run_stops_nothing(tmp_path, repository, monkeypatch) -> None:
    monkeypatch.setenv("SIGHTWORD_WORKERS", "1")
    run_on_a_disk(repository, tmp_path / "disk", DISK, __file__)


if __name__ == "__main__":
    check(Path(sys.argv[1]), Path(sys.argv[2])) if sys.argv[2:] else check_memory()
