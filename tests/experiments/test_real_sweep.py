"""A sweep through DVC itself, on a small sample: killed, run again, and no number is another than without it."""

from __future__ import annotations

import os
import signal
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
def test_a_sweep_outlives_its_terminal_and_keeps_what_dvc_would_have(copy, tmp_path):
    command = ["-m", "pipeline.cli", "sweep", "../g.yaml", "--slots", "2", "--metric", "dev_r10.*"]
    machine = {"SIGHTWORD_DEVICE": "cpu", "SIGHTWORD_THREADS": "1"}
    environment = {**copy.environment, **machine}
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=copy.folder, env=environment, stdout=said, stderr=said,
            start_new_session=True,
        )  # fmt: skip
        limit = time.monotonic() + 300
        while "running  g-lstm-batch8" not in (tmp_path / "said").read_text():
            assert process.poll() is None, (tmp_path / "said").read_text()
            assert time.monotonic() < limit
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGHUP)  # as a terminal that closes
        process.wait()

    again = copy.run("python", *command, ok=False, **machine)
    assert again.returncode == 1
    assert "FAILED   g-batch32" in again.stderr
    assert "more than the 24 training pictures" in again.stderr
    rows = [line.split()[-1] for line in again.stdout.splitlines()]
    assert rows == ["experiments", "g-gru-batch8", "g-lstm-batch8"], again.stderr
    assert not copy.run("git", "status", "--porcelain").stdout
    assert set(copy.run("dvc", "exp", "list", "--name-only").stdout.split()) == {"g-gru-batch8", "g-lstm-batch8"}

    # A worker that is killed, as by a reboot: DVC takes its experiment for running, and the command tries it again.
    copy.run("dvc", "exp", "remove", "g-lstm-batch8")
    copy.run("rm", "-rf", ".dvc/cache/runs")
    process = subprocess.Popen([sys.executable, *command], cwd=copy.folder, env=environment, stderr=subprocess.PIPE)
    limit = time.monotonic() + 120
    while not (worker := _worker(copy.folder)):
        assert time.monotonic() < limit
        time.sleep(0.1)
    process.kill()
    process.communicate()
    for pid in worker:
        os.kill(pid, signal.SIGKILL)
    assert copy.run("python", *command, ok=False, **machine).returncode == 1
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


def _worker(folder):
    """The processes of DVC's queue that are at work on an experiment, with the worker."""
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout.splitlines()
    own = {int(line.split()[0]): line for line in listed[1:] if _cwd(int(line.split()[0]), folder) if "dvc" in line}
    return list(own) if any("exec-run" in line for line in own.values()) else []


def _cwd(pid, folder):
    try:
        return os.readlink(f"/proc/{pid}/cwd").startswith(str(folder / ".dvc/tmp/exps"))
    except OSError:
        return False
