"""``dvc.lock``: the command, parameters, dependencies and outputs of each stage's last run, with their hashes."""

from __future__ import annotations

import functools
import hashlib
import json
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.pipelines import DVC_YAML, LOCK, full_name, parameter, pipelines
from sightword.errors import FileFormatError, LineageError
from sightword.io import yaml_reader
from sightword.io.files import read_text
from sightword.messages import flat

_STAGE = re.compile(r"(?m)^(?=  \S.*:$)")
_CONFLICT = re.compile(r"(?m)^(<<<<<<<|=======|>>>>>>>)( |$)")
RESOLVE = (
    f"Take one side whole (`git checkout --ours {LOCK}`, or `--theirs`), then run `dvc repro`: what either side has in "
    f"the cache is not computed again. Commit the {LOCK} that it writes."
)
LISTS = "code"
"""The folder of lists of code, in a project that has no copy of the code (:mod:`pipeline.lineage.code_lists`)."""
CODE = ("sightword", "pipeline", "stages", LISTS)
"""Folders of code; any other input that no stage made is data."""


@dataclass(frozen=True)
class Artefact:
    """A file or folder that a stage read or wrote."""

    path: str
    """From the project's folder, with slashes."""
    md5: str
    size: int | None
    """Bytes; None where the lock does not say."""
    files: int | None
    """The number of files in a folder."""

    @property
    def folder(self) -> bool:
        """Whether it is a folder."""
        return self.md5.endswith(".dir")


@dataclass(frozen=True)
class Entry:
    """The lock's record of one stage."""

    name: str
    """Its address: DVC's, from the project's folder."""
    command: str
    params: Mapping[str, Any]
    """By file, such as ``params.yaml``, then by section."""
    deps: tuple[Artefact, ...]
    outs: tuple[Artefact, ...]

    @functools.cached_property
    def key(self) -> str:
        """The name of the facts of its runs: see :func:`entry_key`."""
        return entry_key(self.name, self.command, self.params, hashes(self.deps))

    def flat_params(self) -> dict[str, Any]:
        """Return the parameters by their full names, such as ``train.margin``; see :func:`pipelines.full_name`."""
        return {full_name(file, key): one for file, part in self.params.items() for key, one in flat(part).items()}

    def changed_params(self, file: str, now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Return the parameters of a file that differ from these values: then and now (None: absent), by full name."""
        then = self.params[file]
        changed = changes(flat(then), flat({name: parameter(now, name, None) for name in then}))
        return {full_name(file, name): pair for name, pair in changed.items()}


@dataclass(frozen=True)
class Lock:
    """The entries of all stages."""

    entries: Mapping[str, Entry]

    def producer(self, path: str) -> Entry | None:
        """Return the stage that wrote a path, or the folder that contains it."""
        return next((self.entries[self._makers[one]] for one in _upwards(path) if one in self._makers), None)

    def made(self, path: str) -> bool:
        """Return whether stages wrote a path, the folder that contains it, or something in it."""
        return self.producer(path) is not None or path in self._inside

    def sources(self, entry: Entry) -> list[Entry]:
        """Return the stages whose outputs, or parts of outputs, an entry reads."""
        makers: set[str] = set()
        for dep in entry.deps:
            maker = self.producer(dep.path)
            makers |= {maker.name} if maker else self._inside.get(dep.path, set())
        return [self.entries[name] for name in self.entries if name in makers]

    @functools.cached_property
    def _makers(self) -> dict[str, str]:
        """The stage of each output."""
        return {out.path: entry.name for entry in self.entries.values() for out in entry.outs}

    @functools.cached_property
    def _inside(self) -> dict[str, set[str]]:
        """The stages with outputs in each folder, at any depth."""
        makers: dict[str, set[str]] = {}
        for path, name in self._makers.items():
            for folder in _upwards(posixpath.dirname(path)):
                makers.setdefault(folder, set()).add(name)
        return makers

    def chain(self, name: str) -> list[Entry]:
        """Return a stage and all that it builds on, each before those that it reads; LineageError for a circle."""
        order: dict[str, Entry] = {}

        def visit(entry: Entry, above: list[str]) -> None:
            if entry.name in above:
                raise LineageError(f"the stages {' -> '.join([*above, entry.name])} build on each other", where=LOCK)
            if entry.name not in order:
                for source in self.sources(entry):
                    visit(source, [*above, entry.name])
                order[entry.name] = entry

        visit(self.entries[name], [])
        return list(order.values())[::-1]


def hashes(artefacts: tuple[Artefact, ...]) -> dict[str, str]:
    """Return the hashes of artefacts by their paths."""
    return {one.path: one.md5 for one in artefacts}


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the entries that differ between two mappings, before and after; None stands for an absent one."""
    pairs = ((name, (before.get(name), after.get(name))) for name in dict.fromkeys([*before, *after]))
    return {name: pair for name, pair in pairs if pair[0] != pair[1]}


def within(path: str, folder: str) -> bool:
    """Return whether a path is a folder or lies below it."""
    return path == folder or path.startswith(f"{folder}/")


def overlaps(path: str, paths: Collection[str]) -> bool:
    """Return whether a path is one of the paths, or above or below one."""
    return any(within(path, one) or within(one, path) for one in paths)


def is_code(path: str) -> bool:
    """Return whether a path is in a folder of code."""
    return any(within(path, folder) for folder in CODE)


def _upwards(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition("/")[0]


def entry_key(name: str, command: str, params: Mapping[str, Any], deps: Mapping[str, str]) -> str:
    """Return the sha256 of a run's inputs; ``params`` are by file and section, ``deps`` are DVC's hashes by path."""
    return sha256({"stage": name, "cmd": command, "params": params, "deps": deps})


def sha256(value: Mapping[str, Any]) -> str:
    """Return the sha256 of the JSON (keys sorted) of plain values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def lock_here(project: Path) -> Lock:
    """Return the locks of all pipelines in a project; LineageError or FileFormatError without a readable one."""
    paths = [one.lock for one in pipelines(project) if (project / one.lock).exists()]
    if not paths:
        todo = "`dvc repro` makes it."
        raise LineageError("does not exist: nothing was run here yet", where=project / LOCK, todo=todo)
    return joined({path: read_text(project / path) for path in paths})


def joined(
    texts: Mapping[str, str], *, of: str = "", lenient: bool = False, wanted: Sequence[Entry] | None = None
) -> Lock:
    """Return one lock from the texts of several by their paths; ``lenient`` leaves out those that cannot be read.

    With ``wanted`` only entries that may equal one of these are read.
    """
    entries: dict[str, Entry] = {}
    for path, text in texts.items():
        folder = path.rpartition("/")[0]
        try:
            entries |= read_lock(text, f"{path}{of}", f"{folder}/{DVC_YAML}:" if folder else "", wanted).entries
        except LineageError:
            if not lenient:
                raise
    return Lock(entries)


def read_lock(text: str, where: object = LOCK, pipeline: str = "", wanted: Sequence[Entry] | None = None) -> Lock:
    """Read the text of a lock file; ``where`` is its name in messages.

    The addresses of its stages begin with ``pipeline``, such as ``hypernyms/dvc.yaml:``; ``wanted`` as :func:`joined`.

    Raises:
        LineageError: it has a merge conflict or a stage twice, or is not a lock file.
    """
    if mark := _CONFLICT.search(text):
        number = text.count("\n", 0, mark.start()) + 1
        raise LineageError("has an unresolved merge conflict", where=f"{where}, line {number}", todo=RESOLVE)
    entries: dict[str, Entry] = {}
    parts = _STAGE.split(text)  # in pieces: an earlier commit had most of them
    if wanted is not None:
        starts = [(f"  {entry.name.removeprefix(pipeline)}:\n", entry.outs) for entry in wanted]
        parts = [
            one
            for one in parts  # what begins otherwise is the start, or all of another layout
            if one[:2] != "  " or any(one.startswith(s) and all(out.md5 in one for out in outs) for s, outs in starts)
        ]
    try:
        for entry in (entry for part in parts for entry in _entries(part, pipeline)):
            if entry.name in entries:
                raise LineageError(f"has the stage {entry.name} twice")
            entries[entry.name] = entry
    except (KeyError, TypeError, AttributeError) as error:
        what = f"is not a lock file ({type(error).__name__}: {error})"
        raise LineageError(what, where=where, expected=f"a {LOCK} that DVC wrote") from None
    except (LineageError, FileFormatError) as error:
        raise LineageError(error.what, where=where, todo="Have it back from git, then run `dvc repro`.") from None
    return Lock(entries)


@functools.lru_cache(maxsize=4096)
def _entries(part: str, pipeline: str) -> tuple[Entry, ...]:
    """Return the entries of a part of a lock; most entries of a history are those of the commit before."""
    entries = yaml_reader.parse(part, LOCK) or {}
    stages = entries if part.startswith(" ") else entries.get("stages") or {}
    return tuple(build_entry(f"{pipeline}{name}", stage) for name, stage in stages.items())


def build_entry(name: str, stage: Mapping[str, Any]) -> Entry:
    """Return an entry from the values of a lock; KeyError, TypeError or AttributeError for what DVC did not write."""
    command, params = stage["cmd"], stage.get("params") or {}
    if not all(isinstance(section, Mapping) for section in params.values()):
        raise TypeError(f"the parameters of {name} have no names")
    deps, outs = (tuple(map(_artefact, stage.get(kind) or ())) for kind in ("deps", "outs"))
    return Entry(name, command if isinstance(command, str) else "\n".join(command), params, deps, outs)


def _artefact(item: Mapping[str, Any]) -> Artefact:
    md5 = item.get("md5") or item.get(item.get("hash", "")) or item.get("etag") or ""
    return Artefact(str(item["path"]), str(md5), item.get("size"), item.get("nfiles"))


def tracked_hashes(text: str, name: str) -> dict[str, str]:
    """Return the hash of each path that a ``.dvc`` file tracks, by the path from the project's folder, as ``name`` is.

    The result is empty where the file names no hash, as of an import that was not downloaded, or is not DVC's.

    Raises:
        FileFormatError: the text is not valid YAML.
    """
    values = yaml_reader.parse(text, name)
    outs = values.get("outs") if isinstance(values, Mapping) else None
    folder = posixpath.join(posixpath.dirname(name), str(values.get("wdir", "."))) if outs else ""
    return {
        posixpath.normpath(posixpath.join(folder, str(out.get("path", "")))): str(out["md5"])
        for out in (outs if isinstance(outs, list) else ())
        if isinstance(out, Mapping) and out.get("md5")
    }
