"""Stages on a real disk without room: one message with the file, the hint how outputs come back, nothing left over."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import fork_server
import numpy as np
import pytest
from odd_files import fill, run_on_a_disk
from ruamel.yaml import YAML
from small_project import PICTURES, name, write_corpus, write_pictures

REPOSITORY = Path(__file__).resolve().parent.parent.parent
DISK = 8 << 20
WIDTH = 8192
"""Numbers of a picture: 400 kB of features."""
PARAMS = {
    "features": {"source": "precomputed", "precomputed": "f.npy", "precomputed_ids": "f.txt"},
    "train": {"embedding": 20, "hidden": 64, "attention": 8, "batch": 4, "epochs": 2, "cycle": 1},
}


def prepare(folder: Path) -> None:
    """What the stages before features write, and precomputed features."""
    os.chdir(folder)
    shutil.copy(REPOSITORY / "dvc.yaml", "dvc.yaml")
    stages = ", ".join(f"{name}: {{cmd: x}}" for name in ("features", "train", "select"))  # they ran before
    Path("dvc.lock").write_text(f"schema: '2.0'\nstages: {{{stages}}}\n")
    document = YAML(typ="safe", pure=True).load((REPOSITORY / "params.yaml").read_text())
    for section, entries in PARAMS.items():
        document[section] |= entries
    with Path("params.yaml").open("w") as stream:
        YAML().dump(document, stream)
    write_corpus()
    inputs = Path(document["features"]["inputs"])
    inputs.mkdir(parents=True)
    np.save(inputs / "f.npy", np.random.default_rng(0).standard_normal((PICTURES, WIDTH)).astype(np.float32))
    (inputs / "f.txt").write_text("\n".join(map(name, range(PICTURES))))


def run(stage: str, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {"PYTHONPATH": str(REPOSITORY), "SIGHTWORD_DEVICE": "cpu", "SIGHTWORD_THREADS": "1"}
    return subprocess.run(
        [fork_server.python(), "-m", "stages", stage],
        env={**os.environ, **settings, **environment}, check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def files() -> list[Path]:
    """All files but the curves of a training, which grow by the epoch."""
    return sorted(
        path for path in Path.cwd().rglob("*") if path.is_file() and not path.is_relative_to(Path.cwd() / "plots/train")
    )


def refused(stage: str, where: str, outputs: str, **environment: str) -> None:
    """The stage ends with one message, and leaves nothing."""
    before = files()
    done = run(stage, DVC_STAGE=stage, **environment)
    assert done.returncode == 1, (done.returncode, done.stderr)
    assert f"{stage}: No space left on device ({where}" in done.stderr, done.stderr
    assert "Nothing half-written is left. `sightword doctor` checks the folders" in done.stderr
    assert f"To have them back: `dvc checkout {outputs}`" in done.stderr
    assert "Traceback" not in done.stderr
    assert files() == before


def with_room(stage: str, **environment: str) -> None:
    (Path.cwd().parent / "filler").unlink()
    done = run(stage, **environment)
    assert done.returncode == 0, done.stderr


def run_features(disk: Path, scratch: Path) -> None:
    for free in (0, 20_000, 300_000):
        fill(disk, free)
        refused("features", "data/features/", "data/features")
    with_room("features")


def run_training(disk: Path, scratch: Path) -> None:
    write_pictures()
    fill(disk, 60_000)
    # Half-done work lies on the same disk, and then on one with room.
    here = str(disk / "scratch")
    outputs = "--force models/snapshots plots/train"  # the curves begin with the untrained encoders
    refused("train", here, outputs, SIGHTWORD_SCRATCH=here)
    assert not list(Path(here).rglob("*.tmp"))
    shutil.rmtree(here)
    refused("train", "models/snapshots/epoch-001", outputs, SIGHTWORD_SCRATCH=str(scratch))
    with_room("train", SIGHTWORD_SCRATCH=str(scratch))
    fill(disk, 60_000)
    refused("select", "models/encoder/part-1", "models/encoder")
    with_room("select")


@pytest.mark.full
@pytest.mark.system
def test_a_full_disk_gives_one_message(tmp_path) -> None:
    run_on_a_disk(REPOSITORY, tmp_path / "disk", DISK, __file__, str(tmp_path / "scratch"))


if __name__ == "__main__":
    place, elsewhere = map(Path, sys.argv[1:])
    for each in (run_features, run_training):  # by one process, from which all stages are copied
        (place / "project").mkdir()
        elsewhere.mkdir()
        prepare(place / "project")
        each(place, elsewhere)
        os.chdir(elsewhere.parent)
        for left in (*place.iterdir(), elsewhere):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    sys.stdout.write("done\n")
