"""DVC's hashes of files and folders, computed as DVC computes them.

A file's hash is the MD5 of its bytes; a folder's is the MD5 of the JSON list of its files' hashes and relative paths,
followed by ``.dir``. Files that ``.dvcignore`` leaves out are not part of a folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from pipeline.pipelines import IGNORE

FOLDER = ".dir"
_ALWAYS = [".git/", ".hg/", ".dvc/"]
THREADS = 4
"""Hashing lets other threads run; disks gain little from more."""
Report = Callable[[int], object]
"""Called now and then with the number of bytes read, from several threads."""


@dataclass(frozen=True)
class Hashed:
    """A file or folder as it lies there."""

    md5: str
    """Hex, with ``.dir`` behind it for a folder."""
    files: dict[str, str] | None = None
    """Of a folder: the MD5 of each file by its path within, in order."""


class Ignored:
    """The files that ``.dvcignore`` leaves out, in the project's folder ``root`` and in folders below it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._specs: dict[Path, GitIgnoreSpec | None] = {}

    def covers(self, path: Path, *, folder: bool) -> bool:
        """Return whether a path below the root is left out; deeper files win over higher ones."""
        for place in path.parents:
            spec = self._spec(place)
            name = path.relative_to(place).as_posix() + ("/" if folder else "")
            if spec is not None and (included := spec.check_file(name).include) is not None:
                return included
            if place == self._root:
                break
        return False

    def _spec(self, place: Path) -> GitIgnoreSpec | None:
        if place not in self._specs:
            lines = list(_ALWAYS) if place == self._root else []
            with contextlib.suppress(FileNotFoundError):
                lines += (place / IGNORE).read_text(encoding="utf-8").splitlines()
            self._specs[place] = GitIgnoreSpec.from_lines(lines) if lines else None
        return self._specs[place]


def hash_path(path: Path, ignored: Ignored, report: Report | None = None) -> Hashed:
    """Return the hash of a file or folder at an absolute path; an OSError where it cannot be read."""
    if not path.is_dir():
        return Hashed(md5_of(path, report))
    paths = {file.relative_to(path).as_posix(): file for file in _files(path, ignored)}
    names = sorted(paths)
    with ThreadPoolExecutor(THREADS, thread_name_prefix="hash") as threads:
        found = dict(zip(names, threads.map(lambda name: md5_of(paths[name], report), names), strict=True))
    return Hashed(hash_listing(found), found)


def measure(path: Path, ignored: Ignored) -> int:
    """Return the bytes in a file or folder; no file is read."""
    return sum(file.stat().st_size for file in (_files(path, ignored) if path.is_dir() else [path]))


def stamp(path: Path, ignored: Ignored) -> str:
    """Return a hash of the name, size and time of each file in a file or folder; no file is read."""
    digest = hashlib.md5(usedforsecurity=False)
    for file in _files(path, ignored) if path.is_dir() else [path]:
        found = file.stat()
        digest.update(f"{file}\0{found.st_size}\0{found.st_mtime_ns}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()


def hash_listing(files: Mapping[str, str]) -> str:
    """Return the hash of a folder from the MD5 of each of its files by their relative paths."""
    entries = [{"md5": files[name], "relpath": name} for name in sorted(files)]
    return md5_of_text(json.dumps(entries, sort_keys=True).encode()) + FOLDER


def md5_of_text(text: bytes) -> str:
    """Return the MD5 of bytes."""
    return hashlib.md5(text, usedforsecurity=False).hexdigest()


def md5_of(path: Path, report: Report | None = None) -> str:
    """Return the MD5 of a file's bytes; an OSError where it cannot be read."""
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb", buffering=0) as file:
        while block := file.read(1 << 20):
            digest.update(block)
            if report is not None:
                report(len(block))
    return digest.hexdigest()


def _files(folder: Path, ignored: Ignored) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            path, is_folder = Path(entry.path), entry.is_dir()
            if not ignored.covers(path, folder=is_folder):
                yield from _files(path, ignored) if is_folder else [path]
