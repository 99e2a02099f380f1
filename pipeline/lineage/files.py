"""The files of a project: DVC's hashes, DVC's cache, the workspace, and the files of a commit.

A file's hash is the MD5 of its bytes; a folder's is the MD5 of the JSON list of its files' hashes and relative paths,
followed by ``.dir``. Files that ``.dvcignore`` leaves out are not part of a folder.
"""

from __future__ import annotations

import configparser
import contextlib
import functools
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pathspec import GitIgnoreSpec

from pipeline.lineage.lock import Artefact, Entry, Lock, changes, lock_here, within
from pipeline.lineage.repository import Commit, Repository
from pipeline.pipelines import IGNORE, pipelines
from sightword.errors import LineageError, SightwordError
from sightword.io import yaml_reader
from sightword.io.files import loads, read_text

FOLDER = ".dir"
THREADS = 4
"""Hashing lets other threads run; disks gain little from more."""
WORKSPACE = "workspace"
"""The name of the files that lie here, committed or not."""
_ALWAYS = [".git/", ".hg/", ".dvc/"]
State = Literal["ok", "changed since", "missing", "not checked out"]
"""``missing``: absent or unreadable. ``not checked out``: the output of another run that facts know lies here."""


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


def hash_path(path: Path, ignored: Ignored) -> Hashed:
    """Return the hash of a file or folder at an absolute path; an OSError where it cannot be read."""
    if not path.is_dir():
        return Hashed(md5_of(path))
    paths = {file.relative_to(path).as_posix(): file for file in _files(path, ignored)}
    names = sorted(paths)
    with ThreadPoolExecutor(THREADS, thread_name_prefix="hash") as threads:
        hashes = dict(zip(names, threads.map(lambda name: md5_of(paths[name]), names), strict=True))
    return Hashed(hash_listing(hashes), hashes)


def measure(path: Path, ignored: Ignored) -> int:
    """Return the bytes in a file or folder; no file is read."""
    return sum(file.stat().st_size for file in (_files(path, ignored) if path.is_dir() else [path]))


def stamp(path: Path, ignored: Ignored) -> str:
    """Return a hash of the name, size and time of each file in a file or folder; no file is read."""
    digest = hashlib.md5(usedforsecurity=False)
    for file in _files(path, ignored) if path.is_dir() else [path]:
        status = file.stat()
        digest.update(f"{file}\0{status.st_size}\0{status.st_mtime_ns}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()


def hash_listing(files: Mapping[str, str]) -> str:
    """Return the hash of a folder from the MD5 of each of its files by their relative paths."""
    entries = [{"md5": files[name], "relpath": name} for name in sorted(files)]
    return md5_of_text(json.dumps(entries, sort_keys=True).encode()) + FOLDER


def md5_of_text(text: bytes) -> str:
    """Return the MD5 of bytes."""
    return hashlib.md5(text, usedforsecurity=False).hexdigest()


def md5_of(path: Path) -> str:
    """Return the MD5 of a file's bytes; an OSError where it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, functools.partial(hashlib.md5, usedforsecurity=False)).hexdigest()


def _files(folder: Path, ignored: Ignored) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            path, is_folder = Path(entry.path), entry.is_dir()
            if not ignored.covers(path, folder=is_folder):
                yield from _files(path, ignored) if is_folder else [path]


class Cache:
    """DVC's cache, which several projects may share."""

    def __init__(self, project: Path) -> None:
        self.folder = _configured(project) / "files" / "md5"
        self._listings: dict[str, dict[str, str]] = {}

    def file(self, md5: str) -> Path | None:
        """Return the place of an object; None where the cache lacks it."""
        path = self.folder / md5[:2] / md5[2:]
        return path if len(md5) > 2 and path.is_file() else None

    def sound(self, md5: str) -> Path | None:
        """Return the place of an object whose bytes have its hash; None where it is absent or damaged."""
        path = self.file(md5)
        with contextlib.suppress(OSError):
            if path and md5_of(path) == md5.removesuffix(FOLDER):
                return path
        return None

    def files(self, artefact: Artefact) -> dict[str, str]:
        """Return the MD5 of each file of a folder, of a file by an empty path; nothing of an absent folder."""
        if not artefact.folder:
            return {"": artefact.md5}
        if artefact.md5 not in self._listings:
            path = self.sound(artefact.md5)
            try:
                items = loads(path.read_text(encoding="utf-8")) if path else []
                self._listings[artefact.md5] = {item["relpath"]: item["md5"] for item in items}
            except (OSError, ValueError, KeyError, TypeError):
                return {}
        return self._listings[artefact.md5]

    def differing(self, artefact: Artefact, now: Mapping[str, str] | None) -> list[str] | None:
        """Return the files of a folder that differ from a listing; None where one of both is not known."""
        before = self.files(artefact) if artefact.folder else {}
        return sorted(changes(before, now)) if before and now is not None else None

    def wrote(self, maker: Entry, path: str) -> str | None:
        """Return the hash of a stage's output, or of a file in it, as the stage wrote it; None where not known."""
        out = next(out for out in maker.outs if within(path, out.path))
        return out.md5 if out.path == path else self.files(out).get(path.removeprefix(f"{out.path}/"))

    def edited(self, text: bytes, maker: Entry, path: str) -> bool:
        """Return whether a file is known to differ from the one that a stage wrote."""
        return self.wrote(maker, path) not in (None, md5_of_text(text))


def _configured(project: Path) -> Path:
    """Return ``cache.dir`` of DVC's configuration; the project's own settings win over the user's and the machine's."""
    homes = ["/etc/xdg", os.environ.get("XDG_CONFIG_HOME") or "~/.config"]
    files = [*(Path(home, "dvc/config") for home in homes), project / ".dvc/config", project / ".dvc/config.local"]
    folder = project / ".dvc/cache"
    for file in files:
        parser = configparser.RawConfigParser(strict=False)
        # DVC itself reports a file that cannot be read.
        with contextlib.suppress(configparser.Error, UnicodeDecodeError, RuntimeError):
            file = file.expanduser()
            parser.read(file, encoding="utf-8")
            if named := parser.get("cache", "dir", fallback=""):
                folder = file.parent / Path(named).expanduser()
    return folder


class Workspace:
    """A project's folder; each path in it is hashed once."""

    def __init__(self, project: Path) -> None:
        self.project, self.cache = project, Cache(project)
        self._ignored = Ignored(project)
        self._hashed: dict[str, Hashed | None] = {}
        self._values: dict[str, Any] = {}
        self._broken: list[str] = []

    def hashed(self, path: str) -> Hashed | None:
        """Return the hash of a file or folder; None where it is not there, or cannot be read."""
        if path not in self._hashed:
            try:
                self._hashed[path] = hash_path(self.project / path, self._ignored)
            except OSError:
                self._hashed[path] = None
        return self._hashed.get(path)

    def files(self, path: str) -> dict[str, str] | None:
        """Return the MD5 of each file of a folder; None for a file, and where the folder cannot be read."""
        hashed = self.hashed(path)
        return hashed.files if hashed else None

    def state(self, artefact: Artefact) -> State:
        """Compare a file or folder with the lock."""
        hashed = self.hashed(artefact.path)
        return "missing" if hashed is None else "ok" if hashed.md5 == artefact.md5 else "changed since"

    @functools.cached_property
    def commands(self) -> dict[str, str]:
        """The command of each stage, and of each item of a matrix, as far as ``dvc.yaml`` can be read."""
        commands: dict[str, str] = {}
        for pipeline in pipelines(self.project):
            try:
                commands |= {name: one["cmd"] for name, one in pipeline.runs().items()}
            except (SightwordError, KeyError):
                self._broken.append(pipeline.dvc_yaml)
        return commands

    def unread(self, entry: Entry) -> list[str]:
        """Return the files with the parameters and the command of a stage that are absent or cannot be read."""
        files = [file for file in entry.params if self._params(file) is None]
        return files + ([] if entry.name in self.commands else self._broken)

    def changed_params(self, entry: Entry) -> dict[str, tuple[Any, Any]]:
        """Return the parameters that changed, by full name: then and now; None stands for an absent one."""
        changed: dict[str, tuple[Any, Any]] = {}
        for file in entry.params:
            if (now := self._params(file)) is not None:
                changed |= entry.changed_params(file, now)
        return changed

    def _params(self, file: str) -> Mapping[str, Any] | None:
        """Return the values of a parameter file; None where it cannot be read."""
        if file not in self._values:
            try:
                self._values[file] = yaml_reader.parse(read_text(self.project / file), file)
            except SightwordError:
                self._values[file] = None
        values = self._values.get(file)
        return values if isinstance(values, Mapping) else None


@dataclass(frozen=True)
class Snapshot:
    """The lock and the files of a commit or of the workspace."""

    project: Path
    lock: Lock
    commit: Commit | None = None
    """None for the workspace."""
    repository: Repository | None = None

    def read(self, path: str) -> bytes | None:
        """Return a file; None where it is absent or cannot be read."""
        if self.commit is not None and self.repository is not None:
            return self.repository.read(self.commit.sha, path)
        try:
            return (self.project / path).read_bytes()
        except OSError:
            return None

    def edited(self, path: str, cache: Cache) -> bool:
        """Return whether a file is known to differ from the one that its stage wrote."""
        text, maker = self.read(path), self.lock.producer(path)
        return text is not None and maker is not None and cache.edited(text, maker, path)


def snapshot(name: str, project: Path, repository: Repository) -> Snapshot:
    """Return the snapshot of a revision, or of the ``workspace`` (also: empty); LineageError without a lock."""
    if name in ("", WORKSPACE):
        return Snapshot(project, lock_here(project))
    commit = repository.commit(name)
    return Snapshot(project, repository.lock(commit, name), commit, repository)


def take_out(
    wanted: Sequence[str], folder: Path, *, lock: Lock, commit: Commit, cache: Cache, repository: Repository
) -> list[str]:
    """Put files and whole folders of a commit into a folder, with links to the cache; return those that nobody has.

    A LineageError names an object of the cache that does not have its hash.
    """
    missing = []
    for path in wanted:
        text = repository.read(commit.sha, path)
        files = {path: text} if text is not None else _cached(path, lock, cache, commit)
        put(files, folder)
        missing += [] if files else [path]
    return missing


def put(files: Mapping[str, Path | bytes], folder: Path) -> None:
    """Write texts and link files at their paths in a folder; an empty path is the folder itself.

    Code is copied, since Python may write into its folder.
    """
    for name, source in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, bytes):
            target.write_bytes(source)
        elif target.suffix == ".py":
            shutil.copyfile(source, target)
        else:
            target.symlink_to(source.resolve())


def _cached(path: str, lock: Lock, cache: Cache, commit: Commit) -> dict[str, Path]:
    """Return the objects of the files at or below a path; empty where the cache does not have all of them."""
    places: dict[str, Path] = {}
    for out in (out for entry in lock.entries.values() for out in entry.outs):
        if not within(path, out.path) and not within(out.path, path):
            continue
        files = {f"{out.path}/{name}".rstrip("/"): md5 for name, md5 in cache.files(out).items()}
        for name, md5 in files.items():
            if not within(name, path):
                continue
            if (place := cache.file(md5)) is None:
                return {}
            if cache.sound(md5) is None:
                raise LineageError(
                    f"is damaged in DVC's cache: {place} has other bytes than its name says",
                    where=f"{name} of {commit.name}",
                    todo="Remove that object; `dvc fetch` or `dvc repro` brings it back.",
                )
            places[name] = place
        if not files:
            return {}
    return places
