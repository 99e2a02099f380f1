"""Why two results differ: parameters, code, data, packages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.lineage import code_lists
from pipeline.lineage.cache import Cache
from pipeline.lineage.evidence import Evidence, Records, in_words
from pipeline.lineage.lock import Entry, changes, hashes, is_code, within
from pipeline.lineage.locks import Snapshot, snapshot
from pipeline.lineage.repository import Repository
from pipeline.lineage.target import resolve
from sightword.errors import LineageError
from sightword.messages import flat, plural

_MACHINE = ("host", "platform", "processor", "device", "threads", "engine", "python")

Pair = tuple[Any, Any]
"""Of the first and of the second; None stands for an absent one."""


@dataclass
class StageDifference:
    """The differences of one stage."""

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
    """Whether the facts of both runs are here; True for equal entries."""

    @property
    def reasons(self) -> list[str]:
        """Its own differences in words, without those of its inputs."""
        texts = {
            "its command": self.command,
            f"parameters ({', '.join(self.params)})": self.params,
            f"code ({plural(len(self.code), 'file')})": self.code,
            f"raw data ({', '.join(self.data)})": self.data,
        }
        return [text for text, found in texts.items() if found]


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
    """The reasons, in words."""
    edited: list[str]
    """Metrics files that are not what their stage wrote, as ``FILE in REVISION``."""
    doubts: list[str]
    """Entries that disagree with the records of runs, with the reason."""


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
    path, _, key = what.partition(":")
    with Repository(project) as repository:
        sides = {name: snapshot(name, project, repository) for name in (first, second)}
        both = [sides[first], sides[second]]
        chains = [_chain(name, sides[name], what, start) for name in (first, second)]
        names = dict.fromkeys([*chains[0], *chains[1]])
        pairs = [(name, chains[0].get(name), chains[1].get(name)) for name in names]
        cache = Cache(project)
        records = Records(facts, project)
        stages = [_stage(*pair, both, repository, records) for pair in pairs if pair[1] != pair[2]]
        weighed = _doubted(dict(zip((first, second), chains, strict=True)), records)
        metrics = sorted({
            out.path for chain in chains for entry in chain.values() for out in entry.outs if out.path.endswith(".json")
        })  # fmt: skip
        metrics = [file for file in metrics if file == path] or metrics
        values = {
            f"{file}:{name}": pair
            for file in metrics
            for name, pair in changes(*(_numbers(side.read(file)) for side in both)).items()
            if not key or within(name.replace(".", "/"), key.replace(".", "/"))
        }
        edited = [f"{file} in {name}" for name, side in sides.items() for file in metrics if side.edited(file, cache)]
    doubts = [f"{name} in {side}: {in_words(one.verdict, one.why)}" for (name, side), one in weighed.items()]
    because = _because(stages, {name for name, _ in weighed})
    because += [*doubts, *(f"{one} was edited: it is not what its stage wrote" for one in edited)]
    return Difference(first, second, values, stages, because, edited, doubts)


def _doubted(chains: Mapping[str, Mapping[str, Entry]], records: Records) -> dict[tuple[str, str], Evidence]:
    """Return the evidence against entries of chains, by stage and side; ``both`` where two sides have one entry."""
    found: dict[tuple[str, str], Evidence] = {}
    for side, chain in chains.items():
        for name, entry in chain.items():
            if (weighed := records.weigh(entry)).doubted:
                alike = [other for other, entries in chains.items() if entries.get(name) == entry]
                found[name, side if alike == [side] else "both"] = weighed
    return found


def _chain(name: str, side: Snapshot, what: str, start: Path | None) -> dict[str, Entry]:
    """Return the entries by stage, raw data first."""
    stages = list(side.lock.entries)
    if what:
        subject = resolve(what, side.lock, side.project, start=start)
        if subject is None or subject.stage is None:
            raise LineageError("was made by no stage", where=f"{what} in {name}")
        stages = [subject.stage.name]
    return {entry.name: entry for stage in stages for entry in side.lock.chain(stage)[::-1]}


def _stage(
    name: str,
    old: Entry | None,
    new: Entry | None,
    sides: Sequence[Snapshot],
    repository: Repository,
    records: Records,
) -> StageDifference:
    found = StageDifference(name)
    if old is None or new is None or old.command != new.command:
        found.command = (old.command if old else None, new.command if new else None)
    if old is None or new is None:
        return found
    found.params = changes(old.flat_params(), new.flat_params())
    for path in sorted(changes(hashes(old.deps), hashes(new.deps))):
        if any(side.lock.made(path) for side in sides):
            found.inputs.append(path)
        elif code_lists.is_list(path):
            then, now = (hashes(one.deps).get(path) for one in (old, new))
            found.code += code_lists.changed(path, then, now, sides[0].project, repository)
        elif is_code(path):
            revisions = [side.commit.sha for side in sides if side.commit]
            found.code += (repository.changed_files(revisions, path) if revisions else []) or [path]
        else:
            found.data.append(path)
    found.code = sorted(set(found.code))
    found.outs = sorted(changes(hashes(old.outs), hashes(new.outs)))
    before, after = (records.facts.of(entry) for entry in (old, new))
    found.facts_known = None not in (before, after) and (before != after or not found.outs)
    if before and after and found.facts_known:
        found.run = {name: pair for name, pair in changes(before, after).items() if name in _MACHINE}
        found.packages = changes(before["packages"], after["packages"])
    return found


def _numbers(text: bytes | None) -> Mapping[str, Any]:
    try:
        return flat(json.loads(text)) if text else {}
    except (ValueError, AttributeError):
        return {}


def _because(stages: Sequence[StageDifference], doubted: Set[str]) -> list[str]:
    """Return what made outputs differ, first stages first; then the differences without an effect.

    Nobody knows whether the differences of a doubted stage have an effect.
    """
    lines, idle = [], []
    for stage in stages:
        reasons = " and ".join(stage.reasons)
        if stage.command and None in stage.command:
            lines.append(f"{stage.name} is only in the {'second' if stage.command[0] is None else 'first'}")
        elif reasons and stage.outs:
            lines.append(f"{stage.name} differs by {reasons}")
        elif reasons and stage.name not in doubted:
            idle.append(f"{stage.name} by {reasons}")
        elif stage.outs and not stage.inputs:
            known = [f"{word} ({', '.join(own)})"
                     for word, own in (("packages", stage.packages), ("machine", stage.run)) if own]  # fmt: skip
            known += [] if stage.facts_known else ["the facts of the runs are not known"]
            why = " and ".join(known) or "on the same machine with the same packages"
            lines.append(f"{stage.name} gave other bytes for the same command, parameters, code and data: {why}")
    if idle:
        lines.append(f"these differ too, with the same outputs: {'; '.join(idle)}")
    return lines
