"""Checks that a node has the versions, the folder and the store of the process that gives it work."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

import sightword
from sightword.errors import SetupError
from sightword.machine import processor

PACKAGES = ("ray", "torch", "torchvision", "numpy", "pillow", "pyarrow", "simplejpeg")
"""Packages whose version may change an output, and Ray."""
SAME_VERSIONS = "Install the same versions on all nodes, and start Ray there again."

LOOKED_AT = 16
"""The most files that a worker compares."""
END = 1 << 16
"""Bytes at each end of a file that are compared: those at the end of a shard hold its table of contents."""

Stamp = tuple[int, str]
"""The size of a file, and a hash of its first and last bytes; -1 without a file."""


@dataclass(frozen=True)
class Requirements:
    """The requirements of a run; made where the run was started, and checked on the nodes."""

    versions: tuple[tuple[str, str], ...]
    folder: str
    """The folder in which the run was started."""
    inputs: tuple[tuple[str, Stamp], ...]
    """Files that are read, or some of them: a node may have copies of its own."""
    probe: str | None = None
    """A file in the folder into which workers write."""

    @classmethod
    def here(cls, inputs: Sequence[str], probe: Path | None = None) -> Requirements:
        """Return what this process has: its versions and folder, and some of the files as it sees them."""
        some = inputs[:: -(-len(inputs) // LOOKED_AT) or 1]
        own, stamps = tuple(versions().items()), tuple((path, stamp(path)) for path in some)
        return cls(own, str(Path.cwd()), stamps, str(probe) if probe else None)

    def check(self) -> str:
        """Enter the folder on a worker, compare all, and return the node's kind of processor.

        Raises:
            SetupError: the worker has other versions, or does not see the files.
        """
        node = f"node {socket.gethostname()}"
        wanted = dict(self.versions)
        for name, found in versions().items():
            if found != wanted.get(name):
                expected = f"{wanted.get(name)}, as where the run was started"
                raise SetupError(f"has {name} {found}", where=node, expected=expected, todo=SAME_VERSIONS)
        todo = (
            "All nodes need the project's files (shared, or copies by `dvc pull`) and the store, under the same names."
        )
        try:
            os.chdir(self.folder)
        except OSError as error:
            what = f"cannot enter the project's folder {self.folder} ({error.strerror})"
            raise SetupError(what, where=node, todo=todo) from None
        for path, expected_stamp in self.inputs:
            if stamp(path) != expected_stamp:
                raise SetupError(f"does not see the same file {path}", where=node, todo=todo)
        if self.probe is not None and not Path(self.probe).is_file():
            what = f"does not see the store {Path(self.probe).parent}"
            raise SetupError(what, where=node, todo=f"{todo} SIGHTWORD_STORE names the store.")
        return processor()


def stamp(path: str) -> Stamp:
    """Return the size of a file and a hash of its ends."""
    try:
        with open(path, "rb") as file:
            size, digest = os.fstat(file.fileno()).st_size, hashlib.sha256(file.read(END))
            file.seek(max(size - END, 0))
            digest.update(file.read())
    except OSError:
        return -1, ""
    return size, digest.hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of Python, of :data:`PACKAGES`, and of Sightword with a hash of its code."""
    found = {"Python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found | {"Sightword": f"{sightword.__version__} (code {_code()[:12]})"}


@cache
def _code() -> str:
    """Return the sha256 of the library's code: versions under development have the same number."""
    place = Path(sightword.__path__[0])
    digest = hashlib.sha256()
    for path in sorted(place.rglob("*.py")):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(place).as_posix()} {len(data)}\n".encode() + data)
    return digest.hexdigest()
