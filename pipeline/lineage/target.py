"""What an audit is about: a metric, a figure, a model, a feature file, a stage, or a bare hash."""

from __future__ import annotations

import contextlib
import posixpath
import re
from dataclasses import dataclass
from pathlib import Path

from pipeline.lineage.cache import Cache
from pipeline.lineage.lock import Entry, Lock, within
from pipeline.lineage.locks import lock_of
from pipeline.lineage.repository import Commit, Repository
from pipeline.pipelines import LOCKS, pipelines
from sightword.errors import FileFormatError, LineageError
from sightword.text import did_you_mean

_HASH = re.compile(r"[0-9a-f]{6,32}(\.dir)?")


@dataclass(frozen=True)
class Subject:
    """What was asked for, found in a lock."""

    what: str
    """As it was asked."""
    stage: Entry | None
    """That made it; None for what no stage made, such as code and raw data."""
    path: str | None
    """Of the file or folder; None where a stage was named."""
    key: str = ""
    """Within a metrics file."""
    readers: tuple[str, ...] = ()
    """The stages that read what no stage made."""


def resolve(what: str, lock: Lock, project: Path, *, start: Path | None = None) -> Subject | None:
    """Find a name in a lock; None for a hash that it does not have.

    Args:
        what: a path, with a key of a metrics file behind a colon where wanted; the name of a stage or of one of
            DVC's artifacts; or a hash of DVC's, or the first digits of one.
        lock: the lock.
        project: the folder with ``dvc.yaml``.
        start: where relative paths begin; default: the project.

    Raises:
        LineageError: nothing has this name; the message has the nearest names.
    """
    path, colon, key = what.partition(":")
    if what in lock.entries:
        return Subject(what, lock.entries[what], None)
    path = _artifacts(project).get(path, path)
    for name in dict.fromkeys([_from_project(path, project, start or project), path.strip("/")]):
        found = _named(what, name, key, lock)
        if found is not None:
            return found
    if _HASH.fullmatch(what):
        return _hashed(what, lock, project)
    known = sorted({one.path for entry in lock.entries.values() for one in (*entry.outs, *entry.deps)})
    stages = f"The stages are {', '.join(lock.entries)}." if lock.entries else "It has no stages: run `dvc repro`."
    todo = did_you_mean(path, [*known, *lock.entries]) or stages
    raise LineageError("nothing in dvc.lock has this name", where=path if colon else what, todo=todo)


def in_history(what: str, repository: Repository, project: Path) -> tuple[Commit, Lock, Subject] | None:
    """Look for a hash in the locks of earlier commits and of experiments, newest first."""
    for commit in [*repository.commits(LOCKS, everywhere=True), *reversed(repository.experiments())]:
        lock = lock_of(repository, commit)
        found = _hashed(what, lock, project) if lock else None
        if lock and found:
            return commit, lock, found
    return None


def _named(what: str, name: str, key: str, lock: Lock) -> Subject | None:
    maker = lock.producer(name)
    if maker is not None:
        return Subject(what, maker, name, key)
    readers = tuple(entry.name for entry in lock.entries.values() if any(within(name, d.path) for d in entry.deps))
    return Subject(what, None, name, key, readers) if readers else None


def _hashed(what: str, lock: Lock, project: Path) -> Subject | None:
    """The artefact of a hash, or the folder that has a file of this hash in it.

    Raises:
        LineageError: the first digits fit several.
    """
    found: dict[tuple[str, str], Subject] = {}
    cache = Cache(project)
    for entry in lock.entries.values():
        for out in entry.outs:
            if out.md5.startswith(what):
                found[out.md5, out.path] = Subject(what, entry, out.path)
            for name, md5 in cache.listing(out).items():
                if md5.startswith(what):
                    found[md5, f"{out.path}/{name}"] = Subject(what, entry, f"{out.path}/{name}")
    for entry in lock.entries.values():
        for dep in entry.deps:
            if dep.md5.startswith(what) and not any(md5 == dep.md5 for md5, _ in found):
                subject = _named(what, dep.path, "", lock)
                if subject is not None:
                    found[dep.md5, dep.path] = subject
    hashes = {md5 for md5, _ in found}
    if len(hashes) > 1:
        raise LineageError(f"{len(hashes)} hashes begin like this", where=what, expected="more of its digits")
    return next(iter(found.values()), None)


def _artifacts(project: Path) -> dict[str, str]:
    """Paths by the names that the ``dvc.yaml`` of each pipeline gives them, where they are from its folder."""
    found = {}
    for pipeline in pipelines(project):
        with contextlib.suppress(FileFormatError, AttributeError, KeyError, TypeError):  # the lock alone is enough
            for name, one in pipeline.document.get("artifacts", {}).items():
                found[name] = posixpath.normpath(posixpath.join(pipeline.folder, one["path"]))
    return found


def _from_project(path: str, project: Path, start: Path) -> str:
    """A path as the lock spells it."""
    place = Path(path) if Path(path).is_absolute() else start / path
    parts: list[str] = []
    for part in place.parts:
        if part == ".." and parts:
            parts.pop()
        elif part != ".":
            parts.append(part)
    whole = Path(*parts) if parts else place
    return whole.relative_to(project).as_posix() if whole.is_relative_to(project) else whole.as_posix()
