"""One number across commits and experiments, with what changed between them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.lineage import metric_keys
from pipeline.lineage.cache import Cache
from pipeline.lineage.lock import Entry, Lock, within
from pipeline.lineage.locks import lock_of
from pipeline.lineage.repository import Commit, Repository
from pipeline.pipelines import LOCK, LOCKS
from sightword.errors import LineageError
from sightword.text import did_you_mean, flat

CODE = ("sightword", "pipeline", "stages")
"""Folders whose files are code; whatever else no stage made is data."""


@dataclass(frozen=True)
class Point:
    """A commit or experiment with its value."""

    commit: Commit
    value: Any
    changed: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    """Parameters of the chain by full name: before and now. Before is the commit before; for an experiment, where it
    began."""
    code: list[str] = field(default_factory=list)
    """Code of the chain that changed."""
    data: list[str] = field(default_factory=list)
    """Raw data of the chain that changed."""
    edited: bool = False
    """Whether the file is another one than ``dvc.lock`` says its stage wrote."""


@dataclass(frozen=True)
class History:
    """All of a key's values."""

    path: str
    key: str
    points: list[Point]
    """Oldest first; an experiment stands behind the commit it began from."""
    unknown: list[str]
    """What cannot be known here."""


def history(what: str, project: Path, *, everywhere: bool = False) -> History:
    """The values of a key of a metrics file.

    Args:
        what: a metrics file and a key, such as ``metrics/summary.json:image_r10``.
        project: the folder with ``dvc.lock``.
        everywhere: commits of all branches and tags too.

    Raises:
        LineageError: no commit or experiment has this key.
    """
    path, _, key = what.partition(":")
    if not key:
        raise LineageError("names no key", where=what, expected="FILE:KEY, such as metrics/summary.json:image_r10")
    with Repository(project) as repository:
        commits = repository.commits([*LOCKS, path], everywhere=everywhere)[::-1]
        experiments = repository.experiments()
        unknown = []
        cache = Cache(project)
        if repository.shallow:
            unknown.append("this clone is shallow: earlier commits are not known (`git fetch --unshallow`)")
        points: list[Point] = []
        states: dict[str, _State] = {}
        seen: list[str] = []
        before: _State | None = None
        for commit in commits:
            state = _state(repository, commit, cache, path, key, seen)
            states[commit.sha] = state
            if state.value is not None:
                points.append(_point(commit, state, before))
                if state.chain or before is None:
                    before = state
                else:
                    unknown.append(f"what changed in {commit.name}: its {LOCK} cannot be read")
        for commit in experiments:
            state = _state(repository, commit, cache, path, key, seen)
            if state.value is None:
                continue
            began = commit.baseline or ""
            if began and began not in states:
                states[began] = _state(repository, Commit(began, "", "", ""), cache, path, key, seen)
            base = states.get(began)
            place = max((n for n, p in enumerate(points) if commit.baseline in (p.commit.sha, p.commit.baseline)),
                        default=len(points) - 1)  # fmt: skip
            points.insert(place + 1, _point(commit, state, base))
    if not points:
        todo = did_you_mean(key, seen) if seen else f"`dvc metrics show` lists the files; is {path} committed?"
        raise LineageError("no commit or experiment has this key", where=what, todo=todo)
    return History(path, key, points, unknown)


@dataclass(frozen=True)
class _State:
    value: Any
    edited: bool
    chain: dict[str, Entry]


def _state(repository: Repository, commit: Commit, cache: Cache, path: str, key: str, seen: list[str]) -> _State:
    text = repository.read(commit.sha, path)
    value = None
    if text is not None:
        try:
            values = json.loads(text)
        except ValueError:
            values = None
        found = metric_keys.look_up(values, key)
        value = found[0] if found else None
        if found is None and isinstance(values, Mapping):
            seen[:] = flat(values)
    lock = lock_of(repository, commit)
    maker = lock.producer(path) if lock else None
    return _State(
        value,
        edited=text is not None and maker is not None and cache.edited(text, maker, path),
        chain={entry.name: entry for entry in lock.chain(maker.name)} if lock and maker else {},
    )


def _point(commit: Commit, state: _State, before: _State | None) -> Point:
    if before is None or not before.chain or not state.chain:
        return Point(commit, state.value, edited=state.edited)
    code, data = changed_inputs(before.chain, state.chain)
    return Point(commit, state.value, changed_params(before.chain, state.chain), code, data, state.edited)


def changed_params(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> dict[str, tuple[Any, Any]]:
    """Parameters that differ between two chains, by full name; None for what is not there."""
    old, new = ({k: v for entry in chain.values() for k, v in entry.flat_params().items()} for chain in (before, after))
    names = [*old, *(name for name in new if name not in old)]
    return {name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)}


def changed_inputs(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> tuple[list[str], list[str]]:
    """Paths of code, and of raw data, whose hashes differ between two chains."""
    old, new = _inputs(before), _inputs(after)
    changed = sorted(path for path in {*old, *new} if old.get(path) != new.get(path))
    code = [path for path in changed if any(within(path, folder) for folder in CODE)]
    return code, [path for path in changed if path not in code]


def _inputs(chain: Mapping[str, Entry]) -> dict[str, str]:
    lock = Lock(chain)
    return {dep.path: dep.md5 for entry in chain.values() for dep in entry.deps if lock.producer(dep.path) is None}
