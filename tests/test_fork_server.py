"""Programs whose commands run as copies of a loaded process end as the copies do."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

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


def write_packages(folder: Path, *names: str, code: str) -> None:
    for name in names:
        package = folder / name.replace(".", "/")
        package.mkdir(parents=True)
        for file, text in (("__init__.py", ""), ("__main__.py", code)):
            (package / file).write_text(text)


def said(folder: Path, module: str) -> str:
    command = [fork_server.python(), "-m", module]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("module", ["pipeline.cli", "stages"])
def test_command_where_a_clone_lies_runs_the_code_of_the_clone(tmp_path, module) -> None:
    code = "import sightword; print(sightword.__file__)"
    write_packages(tmp_path, "pipeline", "pipeline.cli", "sightword", "stages", code=code)
    assert said(tmp_path, module) == f"{tmp_path}/sightword/__init__.py\n"


def test_command_elsewhere_finds_the_modules_of_this_project_loaded(tmp_path, monkeypatch) -> None:
    code = "import sys; print(*{'pipeline.lineage.audit', 'stages.train'} & sys.modules.keys())"
    write_packages(tmp_path, "stages", code=code)
    assert said(tmp_path, "stages") == "pipeline.lineage.audit\n"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))  # which may have other modules
    assert said(tmp_path, "stages") == "\n"
