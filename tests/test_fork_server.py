"""Programs whose commands run as copies of a loaded process end as the copies do."""

from __future__ import annotations

import signal
import subprocess
import sys

import fork_server
import pytest


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_program_of_a_copy_that_a_signal_ended_ends_by_it_and_prints_nothing(tmp_path, number) -> None:
    (tmp_path / "ends.py").write_text(f"import os\nos.kill(os.getpid(), {int(number)})\n")
    done = subprocess.run(
        [fork_server.python(), "-m", "ends"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (-number, "")


def test_process_of_tests_is_pythons_own_where_none_can_be_copied(tmp_path) -> None:
    server = fork_server.begin(tmp_path / "a folder", 0, ())  # no process has this number: the server does not start
    assert server.wait() > 0
    code = "import sys; print(sys.executable)"
    command = [tmp_path / "a folder/bin" / fork_server.WORKER, "-u", "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == sys.executable


def test_command_of_a_program_runs_as_a_copy(tmp_path) -> None:
    (tmp_path / "names.py").write_text("import sys\nprint(sys.executable)\n")
    done = subprocess.run(
        [fork_server.python(), "-m", "names"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == fork_server.python(), "the server has ended: commands load all packages themselves"
