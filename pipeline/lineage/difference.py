"""Why two results differ: parameters, code, data, packages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.lineage.cache import Cache
from pipeline.lineage.facts import read_facts
from pipeline.lineage.history import CODE, changed_params
from pipeline.lineage.lock import Entry, Lock, within
from pipeline.lineage.locks import lock_at, lock_here
from pipeline.lineage.repository import Commit, Repository
from pipeline.lineage.target import resolve
from sightword.errors import LineageError
from sightword.text import flat

WORKSPACE = "workspace"
"""The name of what lies here, committed or not."""
_MACHINE = ("host", "platform", "processor", "device", "threads", "python")

Pair = tuple[Any, Any]
"""Of the first and of the second; None for what is not there."""


@dataclass(frozen=True)
class Side:
    """One of the two."""

    name: str
    commit: Commit | None
    """None for the workspace."""
    lock: Lock


@dataclass
class StageDifference:
    """What differs in one stage."""

    name: str
    command: Pair | None = None
    params: dict[str, Pair] = field(default_factory=dict)
    code: list[str] = field(default_factory=list)
    """Files; a folder where git does not know its files."""
    data: list[str] = field(default_factory=list)
    """Raw data."""
    inputs: list[str] = field(default_factory=list)
    """Outputs of other stages that it read."""
    outs: list[str] = field(default_factory=list)
    run: dict[str, Pair] = field(default_factory=dict)
    """Machine and device of the runs."""
    packages: dict[str, Pair] = field(default_factory=dict)
    """Versions."""
    facts_known: bool = True
    """Whether the facts of both runs are here; where the entries are equal they are not asked for."""

    @property
    def own(self) -> bool:
        """Whether it differs by itself, and not only by what it read."""
        return bool(self.command or self.params or self.code or self.data)


@dataclass
class Difference:
    """Two results side by side."""

    first: str
    second: str
    values: dict[str, Pair]
    """Entries of metrics files that differ, as ``FILE:KEY``."""
    stages: list[StageDifference]
    """Those that differ; raw data first."""
    because: list[str]
    """What explains it, in words."""
    edited: list[str]
    """Metrics files that are not what their stage wrote, as ``FILE in REVISION``."""


def difference(
    first: str, second: str, project: Path, *, what: str = "", facts: Sequence[Path] = (), start: Path | None = None
) -> Difference:
    """Compare two revisions.

    Args:
        first: a commit, branch or experiment, or ``workspace``.
        second: the same.
        project: the folder with ``dvc.lock``.
        what: only the chain that made this, see :func:`pipeline.lineage.target.resolve`; empty: all stages.
        facts: folders with facts of runs.
        start: where relative paths begin; default: the project.

    Raises:
        LineageError: there is no such revision, or nothing of this name in either.
    """
    with Repository(project) as repository:
        sides = [_side(name, project, repository) for name in (first, second)]
        chains = [_chain(side, what, project, start) for side in sides]
        names = list(dict.fromkeys(name for chain in chains for name in chain))
        stages = [
            found
            for name in names
            if (found := _stage(name, chains[0].get(name), chains[1].get(name), sides, repository, facts))
        ]
        files = _metrics(chains, what)
        texts = [{file: _text(side, file, project, repository) for file in files} for side in sides]
        cache = Cache(project)
        edited = [
            f"{file} in {side.name}"
            for side, own in zip(sides, texts, strict=True)
            for file, text in own.items()
            if text and (maker := side.lock.producer(file)) and cache.edited(text, maker, file)
        ]
    because = [*_because(stages), *(f"{one} was edited: it is not what its stage wrote" for one in edited)]
    return Difference(first, second, _values(texts, what), stages, because, edited)


def _side(name: str, project: Path, repository: Repository) -> Side:
    if name == WORKSPACE:
        return Side(name, None, lock_here(project))
    commit = repository.commit(name)
    return Side(name, commit, lock_at(repository, commit))


def _chain(side: Side, what: str, project: Path, start: Path | None) -> dict[str, Entry]:
    """Entries by stage, raw data first."""
    if what:
        subject = resolve(what, side.lock, project, start=start)
        if subject is None or subject.stage is None:
            raise LineageError("was made by no stage", where=f"{what} in {side.name}")
        return {entry.name: entry for entry in side.lock.chain(subject.stage.name)[::-1]}
    order: dict[str, Entry] = {}
    for name in side.lock.entries:
        order |= {entry.name: entry for entry in side.lock.chain(name)[::-1]}
    return order


def _stage(
    name: str,
    old: Entry | None,
    new: Entry | None,
    sides: Sequence[Side],
    repository: Repository,
    facts: Sequence[Path],
) -> StageDifference | None:
    if old == new:
        return None
    found = StageDifference(name)
    if old is None or new is None:
        found.command = (old.command if old else None, new.command if new else None)
        return found
    if old.command != new.command:
        found.command = (old.command, new.command)
    found.params = changed_params({name: old}, {name: new})
    for path in _changed({dep.path: dep.md5 for dep in old.deps}, {dep.path: dep.md5 for dep in new.deps}):
        if any(side.lock.producer(path) for side in sides):
            found.inputs.append(path)
        elif any(within(path, folder) for folder in CODE):
            found.code += _files(path, sides, repository)
        else:
            found.data.append(path)
    found.code = sorted(set(found.code))
    found.outs = _changed({out.path: out.md5 for out in old.outs}, {out.path: out.md5 for out in new.outs})
    runs = [read_facts(entry, facts) for entry in (old, new)]
    before, after = runs if runs[0] != runs[1] or not found.outs else (None, None)
    found.facts_known = before is not None and after is not None
    if before is not None and after is not None:
        found.run = _pairs(before, after, _MACHINE)
        packages = before.get("packages", {}), after.get("packages", {})
        found.packages = _pairs(*packages, sorted({*packages[0], *packages[1]}))
    return found


def _files(path: str, sides: Sequence[Side], repository: Repository) -> list[str]:
    """The files that differ below a path that does."""
    revisions = [side.commit.sha for side in sides if side.commit]
    turned = sides[0].commit is None
    found = repository.changed_files(revisions[::-1] if turned else revisions, path) if revisions else []
    return found or [path]


def _pairs(old: Mapping[str, Any], new: Mapping[str, Any], names: Iterable[str]) -> dict[str, Pair]:
    return {name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)}


def _changed(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    return sorted(path for path in {*old, *new} if old.get(path) != new.get(path))


def _metrics(chains: Sequence[Mapping[str, Entry]], what: str) -> list[str]:
    """The files whose numbers are compared; with a subject that is one of them, only that."""
    files = sorted({
        out.path for chain in chains for entry in chain.values() for out in entry.outs if out.path.endswith(".json")
    })  # fmt: skip
    path = what.partition(":")[0]
    return [file for file in files if file == path] or files


def _text(side: Side, file: str, project: Path, repository: Repository) -> bytes | None:
    if side.commit is not None:
        return repository.read(side.commit.sha, file)
    try:
        return (project / file).read_bytes()
    except OSError:
        return None


def _values(texts: Sequence[Mapping[str, bytes | None]], what: str) -> dict[str, Pair]:
    """The numbers that differ; with a subject, only those below its key."""
    key = what.partition(":")[2]
    found: dict[str, Pair] = {}
    for file in texts[0]:
        old, new = (_numbers(own[file]) for own in texts)
        names = [*old, *(name for name in new if name not in old)]
        found |= {
            f"{file}:{name}": (old.get(name), new.get(name))
            for name in names
            if old.get(name) != new.get(name) and (not key or within(name.replace(".", "/"), key.replace(".", "/")))
        }
    return found


def _numbers(text: bytes | None) -> dict[str, Any]:
    try:
        return flat(json.loads(text)) if text else {}
    except (ValueError, AttributeError):
        return {}


def _because(stages: Sequence[StageDifference]) -> list[str]:
    """What made outputs differ, first stages first; and what differs and made no difference."""
    lines, idle = [], []
    for stage in stages:
        if stage.command and None in stage.command:
            lines.append(f"{stage.name} is only in the {'second' if stage.command[0] is None else 'first'}")
        elif stage.own and stage.outs:
            lines.append(f"{stage.name} differs by {' and '.join(_reasons(stage))}")
        elif stage.own:
            idle.append(f"{stage.name} by {' and '.join(_reasons(stage))}")
        elif stage.outs and not stage.inputs:
            known = [f"packages ({', '.join(stage.packages)})"] if stage.packages else []
            known += [f"machine ({', '.join(stage.run)})"] if stage.run else []
            why = " and ".join(known) or (
                "on the same machine with the same packages"
                if stage.facts_known
                else "the facts of the runs are not known"
            )
            lines.append(f"{stage.name} gave other bytes for the same command, parameters, code and data: {why}")
    if idle:
        lines.append(f"these differ too, with the same outputs: {'; '.join(idle)}")
    return lines


def _reasons(stage: StageDifference) -> list[str]:
    found = ["its command"] if stage.command else []
    found += [f"parameters ({', '.join(stage.params)})"] if stage.params else []
    found += [f"code ({_count(stage.code, 'file')})"] if stage.code else []
    return found + ([f"raw data ({', '.join(stage.data)})"] if stage.data else [])


def _count(items: Sequence[str], noun: str) -> str:
    return f"{len(items)} {noun}{'' if len(items) == 1 else 's'}"
