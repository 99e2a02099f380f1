"""The subject of an audit: a metric, a figure, a model, a feature file, a stage, or a bare hash."""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
from dataclasses import dataclass
from pathlib import Path

from pipeline.lineage import code_lists
from pipeline.lineage.cache import Cache
from pipeline.lineage.facts import OUTS, listed
from pipeline.lineage.lock import Entry, Lock, within
from pipeline.lineage.locks import Snapshot, lock_of
from pipeline.lineage.repository import Repository
from pipeline.pipelines import DVC_YAML, LOCK, LOCKS, pipelines
from sightword.errors import FileFormatError, LineageError
from sightword.messages import did_you_mean

_HASH = re.compile(r"[0-9a-f]{6,32}(\.dir)?")


@dataclass(frozen=True)
class Subject:
    """A result, found in a lock."""

    what: str
    """The user's words."""
    stage: Entry | None
    """The stage that made it; None for code and raw data."""
    path: str | None
    """Of the file or folder; None for a stage."""
    key: str = ""
    """Within a metrics file."""
    readers: tuple[str, ...] = ()
    """The stages that read a file of no stage."""


def resolve(what: str, lock: Lock, project: Path, *, start: Path | None = None) -> Subject | None:
    """Find a name in a lock; None for a hash that the lock does not have.

    Args:
        what: a path, with a key of a metrics file behind a colon where wanted; the name of a stage or of one of
            DVC's artifacts; or a hash of DVC's, or the first digits of one.
        lock: the lock.
        project: the folder with ``dvc.yaml``.
        start: where relative paths begin; default: the project.

    Raises:
        LineageError: nothing has this name; the message has the nearest names.
    """
    _, colon, key = what.partition(":")
    if what in lock.entries:
        return Subject(what, lock.entries[what], None)
    path, from_project = _path(what, project, start)
    for name in (from_project, path.strip("/")):
        if found := _named(what, name, key, lock, project):
            return found
    if _HASH.fullmatch(what):
        return _hashed(what, lock, project)
    known = sorted({one.path for entry in lock.entries.values() for one in (*entry.outs, *entry.deps)})
    stages = f"The stages are {', '.join(lock.entries)}." if lock.entries else "It has no stages: run `dvc repro`."
    todo = _not_run(what, project) or _not_run(from_project, project)
    todo = todo or did_you_mean(what, [*known, *lock.entries]) or did_you_mean(path, known) or stages
    raise LineageError(
        "nothing in dvc.lock has this name", where=path if colon and not path.endswith(DVC_YAML) else what, todo=todo
    )


def check_has_run(what: str, project: Path, *, start: Path | None = None) -> None:
    """Check that a pipeline of a project has run; LineageError with the command that makes a target otherwise."""
    if not any(one.has_run for one in pipelines(project)):
        todo = _not_run(what, project) or _not_run(_path(what, project, start)[1], project) or "`dvc repro` makes it."
        raise LineageError("does not exist: nothing was run here yet", where=project / LOCK, todo=todo)


def _path(what: str, project: Path, start: Path | None) -> tuple[str, str]:
    """Return the path of a target without its key, by the name of an artifact too; and the same from the project."""
    named = what.partition(":")[0]
    path = _artifacts(project).get(named, named)
    whole = Path(os.path.normpath((start or project) / path))
    return path, whole.relative_to(project).as_posix() if whole.is_relative_to(project) else whole.as_posix()


def _not_run(name: str, project: Path) -> str:
    """Return how to make a result, or the entry of a stage, of a pipeline that has not run; else an empty text."""
    for pipeline in (one for one in pipelines(project) if not one.has_run):
        with contextlib.suppress(FileFormatError):
            for entry, stage in pipeline.runs().items():
                if name == entry or any(within(name, out) for out, _ in listed(stage, OUTS)):
                    return f"The pipeline of the stage {entry} has not run: `{pipeline.command}`."
    return ""


def in_history(what: str, repository: Repository, project: Path) -> tuple[Snapshot, Subject] | None:
    """Look for a hash in the locks of earlier commits and of experiments, newest first."""
    for commit in [*repository.commits(LOCKS, everywhere=True), *reversed(repository.experiments())]:
        lock = lock_of(repository, commit)
        if lock and (found := _hashed(what, lock, project)):
            return Snapshot(project, lock, commit, repository), found
    return None


def _named(what: str, name: str, key: str, lock: Lock, project: Path) -> Subject | None:
    if maker := lock.producer(name):
        return Subject(what, maker, name, key)
    deps = {dep.path for entry in lock.entries.values() for dep in entry.deps}
    listed_in = {path: code_lists.read(project, path) if code_lists.is_list(path) else () for path in deps}
    found = {path for path in deps if within(name, path) or any(within(file, name) for file in listed_in[path])}
    readers = tuple(entry.name for entry in lock.entries.values() if found & {dep.path for dep in entry.deps})
    return Subject(what, None, name, key, readers) if readers else None


def _hashed(what: str, lock: Lock, project: Path) -> Subject | None:
    """Return the artefact of a hash, or the folder with a file of this hash.

    Raises:
        LineageError: several hashes begin with these digits.
    """
    found: dict[str, Subject] = {}
    cache = Cache(project)
    for entry in lock.entries.values():
        for out in entry.outs:
            files = {f"{out.path}/{name}": md5 for name, md5 in cache.files(out).items()} if out.folder else {}
            for path, md5 in {out.path: out.md5, **files}.items():
                if md5.startswith(what):
                    found.setdefault(md5, Subject(what, entry, path))
    for dep in (dep for entry in lock.entries.values() for dep in entry.deps if dep.md5.startswith(what)):
        if dep.md5 not in found and (subject := _named(what, dep.path, "", lock, project)):
            found[dep.md5] = subject
    if len(found) > 1:
        raise LineageError(f"{len(found)} hashes begin like this", where=what, expected="more of its digits")
    return next(iter(found.values()), None)


def _artifacts(project: Path) -> dict[str, str]:
    """Return the paths of DVC's artifacts by name, from the ``dvc.yaml`` of each pipeline."""
    found = {}
    for pipeline in pipelines(project):
        with contextlib.suppress(FileFormatError, AttributeError, KeyError, TypeError):  # the lock alone is enough
            for name, one in pipeline.document.get("artifacts", {}).items():
                found[name] = posixpath.normpath(posixpath.join(pipeline.folder, one["path"]))
    return found
