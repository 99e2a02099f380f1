"""A sweep through DVC itself, on a small sample: killed, run again, and no number is another than without it."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from checkout import Checkout
from ruamel.yaml import YAML
from small_run import few_pairs
from swept_project import sections

GRID = """\
name: g
set: {train.epochs: 12, train.cycle: 12, train.hidden: 8}
blocks:
  - train.cell: [gru, lstm]
    train.batch: [8]
  - train.batch: [32]           # more than there are pictures, which only the stage can know
"""


@pytest.fixture
def copy(repository, tmp_path):
    """A copy of the project on few pictures, up to the training."""
    found = Checkout(repository, tmp_path / "copy", tmp_path / "store")
    found.run("sightword", "params", "--recipe", "sample", "--force")
    found.change("data/raw/sample/scenes.yaml", pictures__train=24, pictures__dev=8, pictures__test=8)
    few_pairs(found.folder)
    found.change("params.yaml", features__crops="one")
    yaml = YAML()
    pipeline = yaml.load(found.folder / "dvc.yaml")
    for name in ("select", "retrieval", "semantics", "epochs", "report"):
        del pipeline["stages"][name]
    for section in ("plots", "artifacts"):
        del pipeline[section]
    yaml.dump(pipeline, found.folder / "dvc.yaml")
    params = (found.folder / "params.yaml").read_text()
    (found.folder / "params.yaml").write_text(sections(params, (found.folder / "dvc.yaml").read_text()))
    (found.folder / "dvc.lock").write_text("schema: '2.0'\nstages: {}\n")  # some of its stages are gone
    found.run("git", "add", "-A")
    found.run("git", "commit", "-qm", "few pictures")
    (tmp_path / "g.yaml").write_text(GRID)
    return found


@pytest.mark.full
def test_a_killed_sweep_on_the_sample_goes_on_and_keeps_what_dvc_would_have(copy, tmp_path):
    command = ["-m", "pipeline.cli", "sweep", "../g.yaml", "--slots", "2", "--metric", "dev_r10.*"]
    machine = {"SIGHTWORD_DEVICE": "cpu", "SIGHTWORD_THREADS": "1"}
    environment = {**copy.environment, **machine}
    logs = copy.folder / ".dvc/tmp/sweeps/g/logs"
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=copy.folder, env=environment, stdout=said, stderr=said
        )
        limit = time.monotonic() + 300
        log = logs / "g-lstm-batch8.log"
        while not log.exists() or "epoch 3:" not in log.read_text():
            assert process.poll() is None, (tmp_path / "said").read_text()
            assert time.monotonic() < limit
            time.sleep(0.02)
        process.kill()
        process.wait()

    again = copy.run("python", *command, ok=False, **machine)
    assert again.returncode == 1
    assert "FAILED   g-batch32" in again.stderr
    assert "more than the 24 training pictures" in again.stderr
    assert "epoch 1:" not in log.read_text()  # it went on
    assert "epoch 12:" in log.read_text()
    assert [line.split()[-1] for line in again.stdout.splitlines()] == ["experiments", "g-gru-batch8", "g-lstm-batch8"]
    assert not copy.run("git", "status", "--porcelain").stdout
    assert set(copy.run("dvc", "exp", "list", "--name-only").stdout.split()) == {"g-gru-batch8", "g-lstm-batch8"}

    copy.change("params.yaml", train__epochs=12, train__cycle=12, train__hidden=8, train__cell="lstm", train__batch=8)
    copy.run("dvc", "repro", **machine)
    kept = copy.run("git", "show", f"{_commit(copy, 'g-lstm-batch8')}:dvc.lock").stdout
    yaml = YAML(typ="safe", pure=True)
    assert yaml.load(kept) == yaml.load(copy.folder / "dvc.lock")  # stages apart from each other run in any order
    assert os.listdir(copy.folder / "runs")


def _commit(copy, name):
    lines = copy.run("git", "for-each-ref", "--format=%(objectname) %(refname)", "refs/exps").stdout.splitlines()
    return next(line.split()[0] for line in lines if line.endswith(f"/{name}"))
