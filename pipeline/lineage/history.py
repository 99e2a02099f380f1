"""One number across commits and experiments, with the changes between them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.lineage import metric_keys
from pipeline.lineage.cache import Cache
from pipeline.lineage.evidence import Records
from pipeline.lineage.lock import Entry, Lock, changes, is_code
from pipeline.lineage.locks import Snapshot, lock_of
from pipeline.lineage.repository import Commit, Repository
from pipeline.pipelines import LOCK, LOCKS
from sightword.errors import LineageError
from sightword.text import did_you_mean, flat

SHALLOW = "this clone is shallow: earlier commits are not known (`git fetch --unshallow`)"


@dataclass(frozen=True)
class Point:
    """A commit or experiment with its value."""

    commit: Commit
    value: Any
    edited: bool = False
    """Whether the file is not the one that its stage wrote, by ``dvc.lock``."""
    contradicted: list[str] = field(default_factory=list)
    """The stages of the chain whose entries a record of a run contradicts."""
    changed: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    """Parameters of the chain by full name: before and now. Before is the commit before; for an experiment, where it
    began."""
    code: list[str] = field(default_factory=list)
    """Code of the chain that changed."""
    data: list[str] = field(default_factory=list)
    """Raw data of the chain that changed."""


@dataclass(frozen=True)
class History:
    """All values of a key."""

    path: str
    key: str
    points: list[Point]
    """Oldest first; an experiment stands behind the commit it began from."""
    unknown: list[str]
    """Gaps, with their reasons."""


def history(what: str, project: Path, *, everywhere: bool = False, facts: Sequence[Path] = ()) -> History:
    """Return the values of a key of a metrics file.

    Args:
        what: a metrics file and a key, such as ``metrics/summary.json:image_r10``.
        project: the folder with ``dvc.lock``.
        everywhere: add the commits of all branches and tags.
        facts: folders with facts of runs.

    Raises:
        LineageError: no commit or experiment has this key.
    """
    path, _, key = what.partition(":")
    if not key:
        raise LineageError("names no key", where=what, expected="FILE:KEY, such as metrics/summary.json:image_r10")
    points: list[Point] = []
    before: _State | None = None
    with Repository(project) as repository:
        unknown = [SHALLOW] if repository.shallow else []
        states = _States(path, key, project, repository, facts)
        for commit in repository.commits([*LOCKS, path], everywhere=everywhere)[::-1]:
            state = states.at(commit)
            if state.value is not None:
                points.append(_point(commit, state, before))
                if not state.chain and before is not None:
                    unknown.append(f"what changed in {commit.name}: its {LOCK} cannot be read")
                else:
                    before = state
        for commit in repository.experiments():
            state = states.at(commit)
            if state.value is not None and commit.baseline:
                base = states.at(Commit(commit.baseline, "", "", ""))
                near = [n for n, p in enumerate(points) if commit.baseline in (p.commit.sha, p.commit.baseline)]
                points.insert(max(near, default=len(points) - 1) + 1, _point(commit, state, base))
    if not points:
        seen = states.keys
        todo = did_you_mean(key, seen) if seen else f"`dvc metrics show` lists the files; is {path} committed?"
        raise LineageError("no commit or experiment has this key", where=what, todo=todo)
    return History(path, key, points, unknown)


@dataclass(frozen=True)
class _State:
    value: Any
    edited: bool
    chain: dict[str, Entry]
    contradicted: list[str]


class _States:
    """The value and the chain of a key in each commit."""

    def __init__(self, path: str, key: str, project: Path, repository: Repository, facts: Sequence[Path]) -> None:
        self._path, self._key, self._project, self._repository = path, key, project, repository
        self._cache = Cache(project)
        self._records = Records(self._cache, facts, project)
        self._found: dict[str, _State] = {}
        self.keys: list[str] = []
        """Of the last file that lacks the key."""

    def at(self, commit: Commit) -> _State:
        if commit.sha not in self._found:
            lock = lock_of(self._repository, commit) or Lock({})
            here = Snapshot(self._project, lock, commit, self._repository)
            maker = lock.producer(self._path)
            chain = lock.chain(maker.name) if maker else []
            doubted = [entry.name for entry in chain if self._records.weigh(entry).verdict == "contradicted"]
            edited = here.edited(self._path, self._cache)
            chain_by_name = {entry.name: entry for entry in chain}
            self._found[commit.sha] = _State(self._value(here), edited, chain_by_name, doubted)
        return self._found[commit.sha]

    def _value(self, here: Snapshot) -> Any:
        try:
            values = json.loads(here.read(self._path) or b"null")
        except ValueError:
            return None
        if found := metric_keys.look_up(values, self._key.split(".")):
            return found[0]
        self.keys = list(flat(values)) if isinstance(values, Mapping) else self.keys
        return None


def _point(commit: Commit, state: _State, before: _State | None) -> Point:
    point = Point(commit, state.value, state.edited, state.contradicted)
    if before is not None and before.chain and state.chain:
        point.changed.update(changed_params(before.chain, state.chain))
        for path in sorted(changes(_inputs(before.chain), _inputs(state.chain))):
            (point.code if is_code(path) else point.data).append(path)
    return point


def changed_params(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> dict[str, tuple[Any, Any]]:
    """Return the parameters that differ between two chains, by full name; None stands for an absent one."""
    old, new = ({k: v for entry in chain.values() for k, v in entry.flat_params().items()} for chain in (before, after))
    return changes(old, new)


def _inputs(chain: Mapping[str, Entry]) -> dict[str, str]:
    """Return the hashes of the code and the raw data of a chain."""
    lock = Lock(chain)
    return {dep.path: dep.md5 for entry in chain.values() for dep in entry.deps if lock.producer(dep.path) is None}
