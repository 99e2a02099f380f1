"""A store that fills up while workers of Ray write into it: what was stored stays, and a run on one machine goes on."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

import pytest
from ray_nodes import Project, segments
from small_disk import fill, run_on_a_disk

from sightword.io.files import sync

PICTURES = 150
DISK = 8 << 20
ROOM = 400 << 10
"""Enough for some of the features, of 4 kB each with key and checksum, and not for all of them."""


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


@pytest.mark.full
@pytest.mark.system
def test_a_full_disk(tmp_path, repository) -> None:
    run_on_a_disk(repository, tmp_path / "disk", DISK, __file__, str(repository))


if __name__ == "__main__":
    check(Path(sys.argv[1]), Path(sys.argv[2]))
