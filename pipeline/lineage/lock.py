"""``dvc.lock``: for each stage the command, parameters, dependencies and outputs of its last run, with their hashes."""

from __future__ import annotations

import functools
import hashlib
import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.lineage import documents
from pipeline.pipelines import LOCK as LOCK
from sightword.errors import LineageError
from sightword.text import flat

_STAGE = re.compile(r"^  (\S.*):$")
_CONFLICT = re.compile(r"^(<<<<<<<|=======|>>>>>>>)( |$)")
RESOLVE = (
    f"Take one side whole (`git checkout --ours {LOCK}`, or `--theirs`), then run `dvc repro`: what either side has in "
    f"the cache is not computed again. Commit the {LOCK} that it writes."
)


@dataclass(frozen=True)
class Artefact:
    """A file or folder that a stage read or wrote."""

    path: str
    """From the project's folder, with slashes."""
    md5: str
    size: int | None
    """Bytes; None where the lock does not say."""
    files: int | None
    """Of a folder: how many files."""

    @property
    def folder(self) -> bool:
        """Whether it is a folder."""
        return self.md5.endswith(".dir")


@dataclass(frozen=True)
class Entry:
    """What the lock says of one stage."""

    name: str
    command: str
    params: Mapping[str, Any]
    """By file, such as ``params.yaml``, then by section."""
    deps: tuple[Artefact, ...]
    outs: tuple[Artefact, ...]

    @property
    def key(self) -> str:
        """The name of the facts of its runs: see :func:`entry_key`."""
        return entry_key(
            self.name,
            self.command,
            self.params,
            {dep.path: dep.md5 for dep in self.deps},
        )

    def flat_params(self) -> dict[str, Any]:
        """Parameters by their full names, such as ``train.margin``."""
        return {key: value for section in self.params.values() for key, value in flat(section).items()}


@dataclass(frozen=True)
class Lock:
    """The entries of all stages."""

    entries: Mapping[str, Entry]

    def producer(self, path: str) -> Entry | None:
        """The stage that wrote a path, or the folder it is in."""
        for place in _upwards(path):
            if place in self._makers:
                return self.entries[self._makers[place]]
        return None

    def sources(self, entry: Entry) -> list[Entry]:
        """The stages whose outputs one reads, or reads parts of."""
        found: set[str] = set()
        for dep in entry.deps:
            maker = self.producer(dep.path)
            found |= {maker.name} if maker else self._inside.get(dep.path, set())
        return [self.entries[name] for name in self.entries if name in found]

    @functools.cached_property
    def _makers(self) -> dict[str, str]:
        """The stage of each output."""
        return {out.path: entry.name for entry in self.entries.values() for out in entry.outs}

    @functools.cached_property
    def _inside(self) -> dict[str, set[str]]:
        """The stages with outputs in each folder, at any depth."""
        found: dict[str, set[str]] = {}
        for path, name in self._makers.items():
            for folder in list(_upwards(path))[1:]:
                found.setdefault(folder, set()).add(name)
        return found

    def chain(self, name: str) -> list[Entry]:
        """A stage and all that it builds on; each before those that it reads from.

        Raises:
            LineageError: there is no such stage, or the stages build on each other in a circle.
        """
        order: list[Entry] = []
        _visit(self, self.entries[name], [], order)
        return order[::-1]


def _visit(lock: Lock, entry: Entry, above: list[str], order: list[Entry]) -> None:
    if entry.name in above:
        raise LineageError(f"the stages {' -> '.join([*above, entry.name])} build on each other", where=LOCK)
    if entry not in order:
        for source in lock.sources(entry):
            _visit(lock, source, [*above, entry.name], order)
        order.append(entry)


def within(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies below it."""
    return path == folder or path.startswith(f"{folder}/")


def _upwards(path: str) -> Iterator[str]:
    """A path, and each folder it is in."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def entry_key(name: str, command: str, params: Mapping[str, Any], deps: Mapping[str, str]) -> str:
    """Return the sha256 of a run's inputs, which DVC's run-cache uses as its key too: of the JSON, keys sorted.

    Args:
        name: of the stage.
        command: its command.
        params: by file and section.
        deps: DVC's hash by path.
    """
    record = {"stage": name, "cmd": command, "params": params, "deps": deps}
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def read_lock(text: str, where: object = LOCK) -> Lock:
    """Read a lock file.

    Args:
        text: of the file.
        where: what to call it in a message.

    Raises:
        LineageError: it has a merge conflict or a stage twice, or is not a lock file of DVC 1 or newer.
    """
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        if _CONFLICT.match(line):
            raise LineageError("has an unresolved merge conflict", where=f"{where}, line {number}", todo=RESOLVE)
    try:
        entries: dict[str, Entry] = {}
        for name, block in _blocks(lines):
            if name in entries:
                raise LineageError(f"has the stage {name} twice")
            entries[name] = _entry(name, block)
        if entries:
            return Lock(entries)
        found = documents.parse(text, where) or {}
        stages = found.get("stages") or {}
        return Lock({name: build_entry(name, stage) for name, stage in stages.items()})
    except (KeyError, TypeError, AttributeError) as error:
        raise LineageError(
            f"is no lock file ({type(error).__name__}: {error})", where=where, expected=f"a {LOCK} that DVC wrote"
        ) from None
    except LineageError as error:
        raise LineageError(error.what, where=where, todo="Have it back from git, then run `dvc repro`.") from None


def _blocks(lines: list[str]) -> Iterator[tuple[str, str]]:
    """The lines of each stage, where the file is laid out as DVC does it."""
    name, inside = "", False
    block: list[str] = []
    for line in lines:
        if not line.startswith(" "):
            inside, head = line.rstrip() == "stages:", None
        else:
            head = _STAGE.match(line) if inside else None
        if (head or not inside) and name:
            yield name, "".join(block)
            name = ""
        if head:
            name, block = head.group(1).strip("'\""), []
        elif name:
            block.append(line)
    if name:
        yield name, "".join(block)


@functools.lru_cache(maxsize=4096)
def _entry(name: str, block: str) -> Entry:
    """Most entries of a history are the same as in the commit before."""
    return build_entry(name, documents.parse(block, f"stage {name}"))


def build_entry(name: str, stage: Mapping[str, Any]) -> Entry:
    """The entry of a stage from what a lock file, or DVC's run-cache, has of it.

    Raises:
        KeyError, TypeError, AttributeError: that is not what DVC writes.
    """
    command, params = stage["cmd"], stage.get("params") or {}
    if not all(isinstance(section, Mapping) for section in params.values()):
        raise TypeError(f"the parameters of {name} have no names")
    return Entry(
        name,
        command if isinstance(command, str) else "\n".join(command),
        params,
        tuple(map(_artefact, stage.get("deps") or ())),
        tuple(map(_artefact, stage.get("outs") or ())),
    )


def _artefact(item: Mapping[str, Any]) -> Artefact:
    md5 = item.get("md5") or item.get(item.get("hash", "")) or item.get("etag") or ""
    return Artefact(str(item["path"]), str(md5), item.get("size"), item.get("nfiles"))


def tracked_hashes(text: str, name: str) -> dict[str, str]:
    """The hash of each path that a ``.dvc`` file tracks, by the path from the project's folder.

    Args:
        text: the file's text.
        name: the file's path from the project's folder.

    Returns:
        Empty where the file names no hash, as of an import that was not downloaded, or is not a file of DVC's.

    Raises:
        LineageError: the text is not valid YAML.
    """
    values = documents.parse(text, name)
    outs = values.get("outs") if isinstance(values, Mapping) else None
    folder = posixpath.join(posixpath.dirname(name), str(values.get("wdir", "."))) if outs else ""
    return {
        posixpath.normpath(posixpath.join(folder, str(out.get("path", "")))): str(out["md5"])
        for out in (outs if isinstance(outs, list) else ())
        if isinstance(out, Mapping) and out.get("md5")
    }
