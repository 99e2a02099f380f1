"""DVC's hashes of files and folders, computed as DVC computes them.

A file's is the MD5 of its bytes; a folder's is the MD5 of the JSON list of its files' hashes and relative
paths, with ``.dir`` behind it. What ``.dvcignore`` leaves out is not part of a folder.
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

FOLDER = ".dir"
IGNORE = ".dvcignore"
_ALWAYS = [".git/", ".hg/", ".dvc/"]
THREADS = 4
"""Hashing lets other threads run; disks have little from more."""


@dataclass(frozen=True)
class Hashed:
    """A file or folder as it lies there."""

    md5: str
    """Hex, with ``.dir`` behind it for a folder."""
    size: int
    """Bytes in all files."""
    files: dict[str, str] | None = None
    """Of a folder: the MD5 of each file by its path within, in order."""


class Ignored:
    """What ``.dvcignore`` files leave out.

    Args:
        root: of the project; files there and in folders below it count.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._specs: dict[Path, GitIgnoreSpec | None] = {}

    def covers(self, path: Path, *, folder: bool) -> bool:
        """Whether a path below the root is left out; deeper files speak before higher ones."""
        for place in path.parents:
            spec = self._spec(place)
            if spec is not None:
                name = path.relative_to(place).as_posix() + ("/" if folder else "")
                said = spec.check_file(name).include
                if said is not None:
                    return said
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


def hash_path(path: Path, ignored: Ignored, report: Callable[[int], object] | None = None) -> Hashed:
    """The hash of a file or folder.

    Args:
        path: absolute.
        ignored: the files that are not part of a folder.
        report: called now and then with the number of bytes read, from several threads.

    Raises:
        FileNotFoundError: it is not there.
        OSError: it cannot be read.
    """
    if not path.is_dir():
        return Hashed(*_md5_file(path, report))
    paths = {file.relative_to(path).as_posix(): file for file in _files(path, ignored)}
    names = sorted(paths)
    with ThreadPoolExecutor(THREADS, thread_name_prefix="hash") as threads:
        found = dict(zip(names, threads.map(lambda name: _md5_file(paths[name], report), names), strict=True))
    listing = {name: md5 for name, (md5, _) in found.items()}
    return Hashed(hash_listing(listing), sum(size for _, size in found.values()), listing)


def measure(path: Path, ignored: Ignored) -> tuple[int, int | None]:
    """Return the bytes in a file or folder, and how many files a folder has (None of a file); no file is read.

    Raises:
        OSError: as :func:`hash_path`.
    """
    if not path.is_dir():
        return path.stat().st_size, None
    sizes = [file.stat().st_size for file in _files(path, ignored)]
    return sum(sizes), len(sizes)


def hash_listing(files: Mapping[str, str]) -> str:
    """The hash of a folder from the MD5 of each of its files by their relative paths."""
    entries = [{"md5": files[name], "relpath": name} for name in sorted(files)]
    return hashlib.md5(json.dumps(entries, sort_keys=True).encode(), usedforsecurity=False).hexdigest() + FOLDER


def _files(folder: Path, ignored: Ignored) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            path, is_folder = Path(entry.path), entry.is_dir()
            if ignored.covers(path, folder=is_folder):
                continue
            if is_folder:
                yield from _files(path, ignored)
            else:
                yield path


def _md5_file(path: Path, report: Callable[[int], object] | None) -> tuple[str, int]:
    digest, size = hashlib.md5(usedforsecurity=False), 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(1 << 20):
            digest.update(block)
            size += len(block)
            if report is not None:
                report(len(block))
    return digest.hexdigest(), size
