"""A sweep through DVC's queue: its terminal closes, its worker is killed, and no number differs from `dvc repro`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from checkout import environment
from ruamel.yaml import YAML

STAGE = """\
import json, os, sys, time
from pathlib import Path
from pydantic import Field
from ruamel.yaml import YAML
from sightword.settings import Settings

class SETTINGS(Settings):
    factor: int = 1
    seed: int = 0

if __name__ == "__main__":
    factor = YAML(typ="safe").load(Path("params.yaml"))["double"]["factor"]
    Path(os.environ["BEGUN"], str(factor)).touch()
    while not Path(os.environ["BEGUN"], "go").exists():
        time.sleep(0.05)
    if factor == 3:
        sys.exit("three cannot be doubled")
    Path("doubled.txt").write_text(str(2 * factor))
    Path("metrics/summary.json").write_text(json.dumps({"total": 2 * factor}))
"""
FILES = {
    "stages/__init__.py": "",
    "stages/double.py": STAGE,
    "metrics/.gitignore": "",
    "params.yaml": "double:\n  factor: 1\n  seed: 0\n",
    ".gitignore": "/doubled.txt\n__pycache__/\n",
    "dvc.yaml": """\
stages:
  double:
    cmd: python -m stages.double
    params: [double]
    deps: [stages/double.py]
    outs: [doubled.txt]
    metrics: [metrics/summary.json: {cache: false}]
""",
}
GRID = "name: g\nblocks: [{double.factor: [2, 3, 4]}]\n"


class Swept:
    """A project of one stage, which waits until a test lets it go on."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.begun = folder / "project", folder / "begun"
        self.environment = environment(folder / "store") | {"BEGUN": str(self.begun), "SIGHTWORD_DEVICE": "cpu"}
        self.begun.mkdir()
        for name, text in FILES.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)
        (folder / "g.yaml").write_text(GRID)
        for command in ("git init -q", "dvc init -q", "git add -A", "git commit -qm start"):
            self.run(*command.split())

    def run(self, *command: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, f"{command}:\n{done.stdout}\n{done.stderr}"
        return done

    def sweep_until_begun(self, factor: int) -> subprocess.Popen[bytes]:
        """Start a sweep in a session of its own, and wait until the experiment of a factor computes."""
        path = self.folder.parent / "said"
        with path.open("w") as said:
            process = subprocess.Popen(
                SWEEP, cwd=self.folder, env=self.environment, stdout=said, stderr=said,
                start_new_session=True,
            )  # fmt: skip
        limit = time.monotonic() + 300
        while not (self.begun / str(factor)).exists():
            if process.poll() is not None or time.monotonic() > limit:
                process.kill()
                process.wait()
                pytest.fail(f"no experiment began: exit code {process.returncode}\n{path.read_text()}")
            time.sleep(0.1)
        return process

    def kill_workers(self) -> None:
        """Kill the workers of the queue with all that they started, as a reboot does: at once."""
        limit = time.monotonic() + 300
        while some := self.workers():
            assert time.monotonic() < limit, some
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for process in some:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.send_signal(number)
            time.sleep(0.1)

    def workers(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                if Path(process.cwd()).is_relative_to(self.folder):
                    found.append(process)
            except psutil.Error:  # another user's, or ended
                continue
        return found


SWEEP = (sys.executable, "-m", "pipeline.cli", "sweep", "../g.yaml", "--slots", "2")


@pytest.fixture
def swept(tmp_path):
    found = Swept(tmp_path)
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # children would inherit that `nohup` ignores it
    yield found
    signal.signal(signal.SIGHUP, before)
    found.kill_workers()


READER = {
    "dvc.yaml": FILES["dvc.yaml"].replace("doubled.txt", "halves")
    + "  half: {cmd: python -m stages.half, params: [half], deps: [halves/first.txt]}\n",
    "stages/half.py": STAGE,
    "params.yaml": FILES["params.yaml"] + FILES["params.yaml"].replace("double", "half"),
}
"""A second stage, which reads a file of the first one's output."""
LOCK = """\
schema: '2.0'
stages:
  double:
    cmd: python -m stages.double
    outs: [{path: halves, hash: md5, md5: 00000000000000000000000000000000.dir, size: 2, nfiles: 1}]
"""


def test_sweep_where_the_lock_names_lost_outputs_is_refused(swept):
    for name, text in {**READER, "dvc.lock": LOCK}.items():
        (swept.folder / name).write_text(text)
    swept.run("git", "add", "-A")
    swept.run("git", "commit", "-qm", "a lock")
    assert "not in DVC's cache: halves." in swept.run(*SWEEP, "--dry-run", code=1).stderr
    swept.run("git", "rm", "-q", "dvc.lock")
    swept.run("git", "commit", "-qm", "no lock")
    swept.run(*SWEEP, "--dry-run")


@pytest.mark.full
def test_a_sweep_outlives_its_terminal_and_a_killed_worker(swept):
    process = swept.sweep_until_begun(2)
    os.killpg(process.pid, signal.SIGHUP)  # as a terminal that closes
    assert process.wait() == -signal.SIGHUP
    assert swept.workers()
    swept.kill_workers()
    swept.run("dvc", "queue", "stop")  # a message to no worker
    stranger = subprocess.Popen(["sleep", "600"])
    for path in (swept.folder / ".dvc/tmp/exps/run").glob("*/*.json"):  # after a reboot a number is another program's
        path.write_text(json.dumps(json.loads(path.read_text()) | {"pid": stranger.pid}))
    assert "g-factor2 (dead)" in swept.run(*SWEEP[:4]).stderr

    (swept.begun / "go").touch()
    again = swept.run(*SWEEP, code=1)
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()
    assert "FAILED   g-factor3" in again.stderr
    assert "three cannot be doubled" in again.stderr
    rows = [line.split() for line in again.stdout.splitlines()]
    assert rows == [
        ["factor", "runs", "total", "experiments"],
        ["2", "1", "4.000", "g-factor2"],
        ["4", "1", "8.000", "g-factor4"],
    ]
    assert not swept.run("git", "status", "--porcelain").stdout
    assert set(swept.run("dvc", "exp", "list", "--name-only").stdout.split()) == {"g-factor2", "g-factor4"}

    (swept.folder / "params.yaml").write_text("double:\n  factor: 4\n  seed: 0\n")
    swept.run("dvc", "repro")
    refs = swept.run("git", "for-each-ref", "--format=%(objectname)", "refs/exps/*/*/g-factor4").stdout
    kept = swept.run("git", "show", f"{refs.strip()}:dvc.lock").stdout
    assert YAML(typ="safe").load(kept) == YAML(typ="safe").load(swept.folder / "dvc.lock")
