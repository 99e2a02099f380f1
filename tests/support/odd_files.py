"""Small disks, pipes without a writer, and files that another process has open."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
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


def fill(disk: Path, free: int) -> Path:
    """Leave only so many bytes free; the file that takes the rest."""
    filler = disk / "filler"
    filler.unlink(missing_ok=True)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(disk).free - free)
    return filler


@contextlib.contextmanager
def silent_pipe(path: Path) -> Iterator[None]:
    """Make a pipe; a reader that waits for it is let go at once, and the block then fails."""
    os.mkfifo(path)
    waited, done = threading.Event(), threading.Event()

    def let_go() -> None:
        while not done.wait(0.02):
            with contextlib.suppress(OSError):  # nobody reads, or the pipe was removed
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                waited.set()

    thread = threading.Thread(target=let_go)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    assert not waited.is_set(), f"{path} was opened, and waited for"


CODE = """
import sys, h5py
with h5py.File(sys.argv[1], sys.argv[2]) as file:
    exec(sys.argv[3])
    print("open", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def held_open(path: Path, mode: str, change: str = "", *, killed: bool = False) -> Iterator[None]:
    """Open a file in another process, which may change it, until the end of the block; it may be killed then."""
    command = [sys.executable, "-c", CODE, str(path), mode, change]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "open\n"
        yield
        if killed:
            process.kill()
        process.communicate()
    assert process.returncode == (-9 if killed else 0)
