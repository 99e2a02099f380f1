"""One number across commits and experiments, with the changes between them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipeline.lineage import code_lists, metric_keys
from pipeline.lineage.cache import Cache
from pipeline.lineage.evidence import PROOFS, Records
from pipeline.lineage.lock import Entry, Lock, changes, is_code
from pipeline.lineage.locks import Snapshot, lock_of
from pipeline.lineage.repository import Commit, Repository
from pipeline.pipelines import LOCK, LOCKS
from sightword.errors import LineageError
from sightword.messages import did_you_mean, flat

_Chain = dict[str, Entry]
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
    foreign: list[str] = field(default_factory=list)
    """Those whose outputs are of a run with other inputs."""
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
    before: _Chain = {}
    with Repository(project) as repository:
        unknown = [SHALLOW] if repository.shallow else []
        states = _States(path, key, project, repository, facts)
        for commit in repository.commits([*LOCKS, path], everywhere=everywhere)[::-1]:
            point, chain = states.at(commit)
            if point.value is not None:
                points.append(states.compared(point, before, chain))
                if before and not chain:
                    unknown.append(f"what changed in {commit.name}: its {LOCK} cannot be read")
                before = chain or before
        for commit in repository.experiments():
            point, chain = states.at(commit)
            if point.value is not None and commit.baseline:
                _, base = states.at(Commit(commit.baseline, "", "", ""))
                near = [n for n, p in enumerate(points) if commit.baseline in (p.commit.sha, p.commit.baseline)]
                points.insert(max(near, default=len(points) - 1) + 1, states.compared(point, base, chain))
    if not points:
        seen = states.keys
        todo = did_you_mean(key, seen) if seen else f"`git ls-files metrics` lists the files; is {path} committed?"
        raise LineageError("no commit or experiment has this key", where=what, todo=todo)
    return History(path, key, points, unknown)


class _States:
    """The value and the chain of a key in each commit."""

    def __init__(self, path: str, key: str, project: Path, repository: Repository, facts: Sequence[Path]) -> None:
        self._path, self._key, self._project, self._repository = path, key, project, repository
        self._cache = Cache(project)
        self._records = Records(facts, project)
        self._found: dict[str, tuple[Point, _Chain]] = {}
        self.keys: list[str] = []
        """Of the last file that lacks the key."""

    def at(self, commit: Commit) -> tuple[Point, _Chain]:
        if commit.sha not in self._found:
            lock = lock_of(self._repository, commit) or Lock({})
            here = Snapshot(self._project, lock, commit, self._repository)
            maker = lock.producer(self._path)
            chain = {entry.name: entry for entry in lock.chain(maker.name)} if maker else {}
            weighed = {name: self._records.weigh(one) for name, one in chain.items()}
            doubted = {name: one.verdict for name, one in weighed.items() if one.doubted}
            contradicted, foreign = (
                [name for name, verdict in doubted.items() if verdict == wanted] for wanted in PROOFS
            )
            edited = here.edited(self._path, self._cache)
            point = Point(commit, self._value(here), edited, contradicted, foreign)
            self._found[commit.sha] = point, chain
        return self._found[commit.sha]

    def compared(self, point: Point, before: _Chain, after: _Chain) -> Point:
        """Return a point with the changes since a chain, if both chains are known."""
        if not before or not after:
            return point
        found = changes(_inputs(before), _inputs(after))
        code = {path for path in found if is_code(path)}
        for path in filter(code_lists.is_list, found):
            code = code - {path} | {*code_lists.changed(path, *found[path], self._project, self._repository)}
        data = sorted(path for path in found if not is_code(path))
        return replace(point, changed=changed_params(before, after), code=sorted(code), data=data)

    def _value(self, here: Snapshot) -> Any:
        try:
            values = json.loads(here.read(self._path) or b"null")
        except ValueError:
            return None
        if found := metric_keys.look_up(values, self._key.split(".")):
            return found[0]
        self.keys = list(flat(values)) if isinstance(values, Mapping) else self.keys
        return None


def changed_params(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> dict[str, tuple[Any, Any]]:
    """Return the parameters that differ between two chains, by full name; None stands for an absent one."""
    old, new = ({k: v for entry in chain.values() for k, v in entry.flat_params().items()} for chain in (before, after))
    return changes(old, new)


def _inputs(chain: Mapping[str, Entry]) -> dict[str, str]:
    """Return the hashes of the code and the raw data of a chain."""
    lock = Lock(chain)
    return {dep.path: dep.md5 for entry in chain.values() for dep in entry.deps if not lock.made(dep.path)}
