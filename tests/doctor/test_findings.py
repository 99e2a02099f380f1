"""Checks cannot take each other down, and nobody waits for ever."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from pipeline.doctor.context import Asked, Situation
from pipeline.doctor.findings import Check, examine, good
from sightword.errors import SetupError


def broken(_: Situation):
    yield good("so far")
    raise ZeroDivisionError("by nought\nsecond line")


def mistaken(_: Situation):
    raise SetupError("is wrong", where="here", expected="right", todo="Mend it.")


def test_a_check_that_fails_is_a_problem_and_the_others_go_on(tmp_path: Path) -> None:
    checks = [Check("a", broken), Check("b", mistaken), Check("c", lambda _: [good("well")])]
    found = list(examine(checks, Situation(tmp_path, None)))
    assert [(one.check, one.state) for one in found] == [("a", "problem"), ("b", "problem"), ("c", "ok")]
    assert "could not be checked (ZeroDivisionError: by nought)" in found[0].what
    assert (found[1].what, found[1].todo) == ("here: is wrong; expected right", "Mend it.")


def test_slow_checks_and_those_of_a_project_are_left_out_where_they_do_not_belong(tmp_path: Path) -> None:
    checks = [Check("p", lambda _: [good("")], needs_project=True), Check("s", lambda _: [good("")], slow=True)]
    assert [one.check for one in examine(checks, Situation(tmp_path, None, quick=True))] == []
    assert [one.check for one in examine(checks, Situation(tmp_path, tmp_path))] == ["p", "s"]


def asked(program: str, folder: Path, patience: float = 60.0) -> Asked:
    return Asked([sys.executable, "-c", program], "{}\n", folder, patience=patience)


def test_what_was_said_before_a_program_died_is_known(tmp_path: Path) -> None:
    program = "import sys; print('{\"a\": 1}\\nnoise\\n{\"b\": 2}', flush=True); sys.exit('it broke')"
    assert asked(program, tmp_path).answer == {"a": 1, "b": 2, "failed": "it broke"}


def test_a_program_that_never_ends_is_ended_with_all_it_started(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        "print('{\"child\": %d}' % child.pid, flush=True); time.sleep(60)"
    )
    start = time.monotonic()
    answer = asked(program, tmp_path, 2.0).answer
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
    assert asked(program, tmp_path).answer == {"tty": False}


@pytest.mark.parametrize("text", ["[1]", "never json", ""])
def test_an_answer_that_is_none_is_empty(tmp_path: Path, text: str) -> None:
    assert asked(f"print({text!r})", tmp_path).answer == {}
