"""``sightword doctor`` as a user runs it."""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from pathlib import Path

import pytest
from checkout import Checkout

from pipeline.cli import main
from pipeline.doctor.checks import checks

CHECKS = checks(Path(__file__))
MACHINE = {check.name for check in CHECKS if not check.needs_project}


@pytest.fixture
def copy(repository: Path, tmp_path: Path) -> Checkout:
    found = Checkout(repository, tmp_path / "copy", tmp_path / "store", forked=False)
    for name in [*found.environment]:
        if name.startswith("SIGHTWORD_") and name not in ("SIGHTWORD_STORE", "SIGHTWORD_CACHE", "SIGHTWORD_SCRATCH"):
            del found.environment[name]
    return found


def doctor(copy: Checkout, *options: str, ok: bool = True) -> list[dict[str, str]]:
    done = copy.run(sys.executable, "-m", "pipeline.cli", "doctor", "--json", *options, ok=False)
    found: list[dict[str, str]] = json.loads(done.stdout)
    bad = [finding for finding in found if finding["state"] == "problem"]
    assert done.stderr == ""
    assert done.returncode == (1 if bad else 0)
    assert bool(bad) is not ok, bad
    assert all(finding["todo"] for finding in found if finding["state"] != "ok"), found
    return found


@pytest.mark.slow
def test_a_healthy_checkout(copy: Checkout) -> None:
    start = time.monotonic()
    found = doctor(copy)
    assert time.monotonic() - start < 60  # 4 s alone on two cores; the other tests may have them
    assert list(found[0]) == ["check", "state", "what", "todo"]
    assert {finding["check"] for finding in found} == {check.name for check in CHECKS}
    # What is not ok is so: no remote, perhaps other versions than the pinned ones, a busy machine.
    warned = {finding["check"] for finding in found if finding["state"] == "warning"}
    assert "remote" in warned
    assert warned <= {"remote", "packages", "settings", "device", "disk"}, found
    done = copy.run(sys.executable, "-m", "pipeline.cli", "doctor", "--quick", ok=False)
    assert done.returncode == 0
    assert re.search(r"0 problems, \d+ warnings?, \d+ ok$", done.stdout.strip())
    assert copy.run("git", "status", "--porcelain").stdout == ""  # nothing was changed


@pytest.mark.slow
def test_everything_broken_at_once(copy: Checkout, tmp_path: Path) -> None:
    """Each defect is reported, without a traceback."""
    (copy.folder / "params.yaml").write_text("a: [\n")
    (copy.folder / "dvc.yaml").write_text("stages: [\n")
    (copy.folder / "dvc.lock").write_text("<<<<<<< HEAD\n")
    (copy.folder / ".dvc/config").write_text("[core\n")
    shutil.rmtree(copy.folder / ".git")
    found = doctor(copy, ok=False)
    problems = [finding["what"] for finding in found if finding["state"] == "problem"]
    for words in ("params.yaml", "dvc.yaml", "dvc.lock", "DVC cannot work here"):
        assert any(words in what for what in problems), words
    assert not any("could not be checked" in what for what in problems), problems
    assert any("not a git repository" in finding["what"] for finding in found)
    done = copy.run(sys.executable, "-m", "pipeline.cli", "doctor", "--lock", ok=False)
    assert (done.returncode, done.stderr) == (1, "")


def test_outside_a_project(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    main(["doctor", "--quick", "--json"])
    checks = {finding["check"] for finding in json.loads(capsys.readouterr().out)}
    assert checks <= MACHINE
    assert {"python", "packages", "settings", "disk"} <= checks
    main(["doctor", "--quick"])
    assert "there is no project here" in capsys.readouterr().out
    assert main(["doctor", "--lock"]) == 1
    assert "this command needs a project" in capsys.readouterr().err


def test_options_that_cannot_be_combined(capsys) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["doctor", "--lock", "--quick"])
    assert stopped.value.code == 2


def test_every_check_stands_on_its_page(repository) -> None:
    page = (repository / "docs/machine.md").read_text()
    assert not [check.name for check in CHECKS if f"| `{check.name}` |" not in page]
