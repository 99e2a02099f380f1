"""Checks are independent, and programs have a time limit."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from pipeline.doctor.context import Context, Probe
from pipeline.doctor.findings import Check, examine, good
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


def probe(program: str, folder: Path, seconds: float = 60.0) -> Probe:
    return Probe([sys.executable, "-c", program], folder, seconds)


def test_facts_printed_before_a_program_died_are_known(tmp_path: Path) -> None:
    program = "import sys; print('{\"a\": 1}\\nnoise\\n{\"b\": 2}', flush=True); sys.exit('it broke')"
    assert probe(program, tmp_path).answer == {"a": 1, "b": 2, "failed": "it broke"}


def test_a_program_that_never_ends_is_killed_with_its_children(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        "print('{\"child\": %d}' % child.pid, flush=True); time.sleep(60)"
    )
    start = time.monotonic()
    answer = probe(program, tmp_path, 2.0).answer
    assert time.monotonic() - start < 20
    assert answer["late"] is True
    end = time.monotonic() + 5
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
    assert probe(program, tmp_path).answer == {"tty": False}


@pytest.mark.parametrize("text", ["[1]", "never json", ""])
def test_output_that_is_not_an_object_is_ignored(tmp_path: Path, text: str) -> None:
    assert probe(f"print({text!r})", tmp_path).answer == {}
