"""A small file system of its own, for a process that sees it alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def apart() -> list[str]:
    """The beginning of a command that runs the rest with mounts of its own; else the test is skipped."""
    able = shutil.which("unshare") and shutil.which("mount")
    for command in (["unshare", "-m"], ["unshare", "-rm"]) if able else ():
        tried = subprocess.run(
            [*command, "mount", "-t", "tmpfs", "tmpfs", "/tmp"], check=False, capture_output=True, timeout=20
        )
        if tried.returncode == 0:
            return command
    pytest.skip("mounts of its own are not permitted here (unshare -m as root, or unshare -rm)")


def on_a_disk(disk: Path, size: int) -> list[str]:
    """Return the beginning of a command that runs the rest with a new file system, of some bytes, in a folder.

    The test is skipped where no file system can be mounted.
    """
    mount = f'mount -t tmpfs -o size={size} tmpfs "$1" && shift && exec "$@"'
    return [*apart(), "sh", "-c", mount, "sh", str(disk)]


def run_on_a_disk(repository: Path, disk: Path, size: int, script: str, *arguments: str) -> None:
    """Run a Python file with the disk as its first argument; it prints ``done`` when all was as expected.

    The test is skipped where no file system can be mounted.
    """
    beginning = on_a_disk(disk, size)
    disk.mkdir()
    done = subprocess.run(
        [*beginning, sys.executable, script, str(disk), *arguments],
        env={**os.environ, "PYTHONPATH": f"{repository}:{repository}/tests/support"},
        check=False, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("done\n")
    assert list(disk.iterdir()) == []  # it was the other disk that was written


def fill(disk: Path, free: int) -> Path:
    """Leave only so many bytes free; the file that takes the rest."""
    filler = disk / "filler"
    filler.unlink(missing_ok=True)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(disk).free - free)
    return filler
