"""An HDF5 file that another process has open."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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
