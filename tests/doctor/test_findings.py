"""``sightword doctor`` as a user runs it: checks are independent, and programs have a time limit."""

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
from pipeline.doctor.findings import Check, Context, examine, good, probe
from pipeline.doctor.project import checks
from sightword.errors import SetupError


def broken(_: Context):
    yield good("so far")
    raise ZeroDivisionError("by nought\nsecond line")


def mistaken(_: Context):
    raise SetupError("is wrong", where="here", expected="right", todo="Fix it.")


def test_a_check_that_fails_is_a_problem_and_the_others_go_on(tmp_path: Path) -> None:
    checks = [Check("a", broken), Check("b", mistaken), Check("c", lambda _: [good("well")])]
    found = list(examine(checks, Context(tmp_path, None)))
    assert [(one.check, one.state) for one in found] == [("a", "problem"), ("b", "problem"), ("c", "ok")]
    assert "could not be checked (ZeroDivisionError: by nought)" in found[0].what
    assert (found[1].what, found[1].todo) == ("here: is wrong; expected right", "Fix it.")


def test_slow_checks_and_project_checks_are_left_out(tmp_path: Path) -> None:
    checks = [Check("p", lambda _: [good("")], needs_project=True), Check("s", lambda _: [good("")], slow=True)]
    assert [one.check for one in examine(checks, Context(tmp_path, None, quick=True))] == []
    assert [one.check for one in examine(checks, Context(tmp_path, tmp_path))] == ["p", "s"]


def ask(program: str, folder: Path, seconds: float = 60.0) -> dict[str, object]:
    return probe([sys.executable, "-c", program], folder, seconds)


def test_facts_printed_before_a_program_died_are_known(tmp_path: Path) -> None:
    program = "import sys; print('{\"a\": 1}\\nnoise\\n{\"b\": 2}', flush=True); sys.exit('it broke')"
    assert ask(program, tmp_path) == {"a": 1, "b": 2, "failed": "it broke"}


def test_a_program_that_never_ends_is_killed_with_its_children(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        "print('{\"child\": %d}' % child.pid, flush=True); time.sleep(60)"
    )
    start = time.monotonic()
    answer = ask(program, tmp_path, 2.0)
    assert time.monotonic() - start < 50
    assert answer["late"] is True
    end = time.monotonic() + 60
    while time.monotonic() < end and not _gone(answer["child"]):
        time.sleep(0.02)
    assert _gone(answer["child"])


def _gone(pid: int) -> bool:
    """Whether a process has ended; its parent may not have noticed yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_program_cannot_ask_the_user_for_a_password(tmp_path: Path) -> None:
    program = "try: open('/dev/tty'); print('{\"tty\": true}')\nexcept OSError: print('{\"tty\": false}')"
    assert ask(program, tmp_path) == {"tty": False}


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
    found = doctor(copy)
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
    assert main(["doctor", "--lock"]) == 1
    assert "this command needs a project" in capsys.readouterr().err
