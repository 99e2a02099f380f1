"""One number across commits and experiments, and why two results differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipeline.lineage import code_lists
from pipeline.lineage.audit import SHALLOW, look_up, path_of, resolve
from pipeline.lineage.evidence import Evidence, KnownFacts, in_words, known_facts
from pipeline.lineage.files import Cache, Snapshot, snapshot
from pipeline.lineage.lock import Entry, Lock, changes, hashes, is_code, within
from pipeline.lineage.repository import Commit, Repository
from pipeline.pipelines import LEDGER, LOCK, LOCKS
from sightword.errors import LineageError
from sightword.io.files import loads
from sightword.messages import did_you_mean, flat, plural

_Chain = dict[str, Entry]
_MACHINE = ("host", "platform", "processor", "device", "threads", "engine", "python")

Pair = tuple[Any, Any]
"""Of the first and of the second; None stands for an absent one."""


@dataclass(frozen=True)
class Point:
    """A commit or experiment with its value, and what changed since the commit before, or where it began."""

    commit: Commit
    value: Any
    edited: bool = False
    contradicted: list[str] = field(default_factory=list)
    """The stages of the chain whose entries the facts of a run contradict."""
    changed: dict[str, Pair] = field(default_factory=dict)
    """Parameters of the chain by full name."""
    code: list[str] = field(default_factory=list)
    data: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class History:
    """All values of a key, oldest first; an experiment stands behind the commit it began from."""

    path: str
    key: str
    points: list[Point]
    unknown: list[str]
    """Gaps, with their reasons."""


def history(what: str, project: Path, *, start: Path | None = None, everywhere: bool = False) -> History:
    """Return the values of a key, such as ``metrics/summary.json:image_r10``, over commits, or ``everywhere``.

    Raises:
        LineageError: no commit or experiment has this key.
    """
    path, key = _file(what, project, start), what.partition(":")[2]
    if not key:
        raise LineageError("names no key", where=what, expected="FILE:KEY, such as metrics/summary.json:image_r10")
    points: list[Point] = []
    before: _Chain = {}
    with Repository(project) as repository:
        unknown = [SHALLOW] if repository.shallow else []
        states = _States(path, key, project, repository)
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
                _, base = states.at(Commit(commit.baseline))
                near = [n for n, p in enumerate(points) if commit.baseline in (p.commit.sha, p.commit.baseline)]
                points.insert(max(near, default=len(points) - 1) + 1, states.compared(point, base, chain))
    if not points:
        seen = states.keys
        todo = did_you_mean(key, seen) if seen else f"`git ls-files metrics` lists the files; is {path} committed?"
        raise LineageError("no commit or experiment has this key", where=what, todo=todo)
    return History(path, key, points, unknown)


def _file(what: str, project: Path, start: Path | None) -> str:
    """Return the file of a key by its path from the project; a path is from ``start``, or else from the project."""
    given, inner = path_of(what, project, start)
    return inner if (project / inner).exists() or given.startswith((".", "/")) else given


class _States:
    """The value and the chain of a key in each commit."""

    def __init__(self, path: str, key: str, project: Path, repository: Repository) -> None:
        self._path, self._key, self._project, self._repository = path, key, project, repository
        self._cache = Cache(project)
        self._known = known_facts(project)
        self._found: dict[str, tuple[Point, _Chain]] = {}
        self.keys: list[str] = []
        """Of the last file that lacks the key."""

    def at(self, commit: Commit) -> tuple[Point, _Chain]:
        if commit.sha not in self._found:
            lock = self._repository.lock_or_none(commit) or Lock({})
            here = Snapshot(self._project, lock, commit, self._repository)
            maker = lock.producer(self._path)
            chain = {entry.name: entry for entry in lock.chain(maker.name)} if maker else {}
            contradicted = [name for name, one in chain.items() if self._known.weigh(one).doubted]
            edited = here.edited(self._path, self._cache)
            point = Point(commit, self._value(here), edited, contradicted)
            self._found[commit.sha] = point, chain
        return self._found[commit.sha]

    def compared(self, point: Point, before: _Chain, after: _Chain) -> Point:
        """Return a point with the changes since a chain, if both chains are known."""
        if not before or not after:
            return point
        inputs = changes(_inputs(before), _inputs(after))
        code = {path for path in inputs if is_code(path)}
        for path in filter(code_lists.is_list, inputs):
            code = code - {path} | {*code_lists.changed(path, *inputs[path], self._project, self._repository)}
        data = sorted(path for path in inputs if not is_code(path))
        return replace(point, changed=changed_params(before, after), code=sorted(code), data=data)

    def _value(self, here: Snapshot) -> Any:
        try:
            values = loads(here.read(self._path) or b"null")
        except ValueError:
            return None
        if entry := look_up(values, self._key.split(".")):
            return entry[0]
        self.keys = list(flat(values)) if isinstance(values, Mapping) else self.keys
        return None


def changed_params(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> dict[str, tuple[Any, Any]]:
    """Return the parameters that differ between two chains, by full name; None stands for an absent one."""
    old, new = ({k: v for entry in chain.values() for k, v in entry.flat_params().items()} for chain in (before, after))
    return changes(old, new)


def _inputs(chain: Mapping[str, Entry]) -> dict[str, str]:
    """Return the hashes of the code and the raw data of a chain; a ledger, which grows by each scoring, is neither."""
    lock, deps = Lock(chain), [dep for entry in chain.values() for dep in entry.deps]
    return {dep.path: dep.md5 for dep in deps if not lock.made(dep.path) and Path(dep.path).name != LEDGER}


@dataclass
class StageDifference:
    """The differences of one stage; ``inputs`` are outputs of others and ledgers, ``run`` is machine and device."""

    name: str
    command: Pair | None = None
    params: dict[str, Pair] = field(default_factory=dict)
    code: list[str] = field(default_factory=list)
    data: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outs: list[str] = field(default_factory=list)
    run: dict[str, Pair] = field(default_factory=dict)
    packages: dict[str, Pair] = field(default_factory=dict)
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
        return [text for text, differs in texts.items() if differs]


@dataclass
class Difference:
    """Two results side by side: ``values`` of metrics as ``FILE:KEY`` and ``stages`` that differ, raw data first."""

    first: str
    second: str
    values: dict[str, Pair]
    stages: list[StageDifference]
    because: list[str]
    """The reasons, in words."""
    edited: list[str]
    """Metrics files that are not what their stage wrote, as ``FILE in REVISION``."""
    doubts: list[str]
    """Entries that the facts of runs contradict, with the reason."""


def difference(first: str, second: str, project: Path, *, what: str = "", start: Path | None = None) -> Difference:
    """Compare two commits, branches or experiments, or the ``workspace``: all stages, or the chain of ``what``.

    Raises:
        LineageError: there is no such revision, or nothing of this name in either.
    """
    path, key = _file(what, project, start), what.partition(":")[2]
    with Repository(project) as repository:
        sides = {name: snapshot(name, project, repository) for name in (first, second)}
        both = [sides[first], sides[second]]
        chains = [_chain(side, what, start) for side in both]
        names = dict.fromkeys([*chains[0], *chains[1]])
        pairs = [(name, chains[0].get(name), chains[1].get(name)) for name in names]
        cache = Cache(project)
        known = known_facts(project)
        stages = [_stage(*pair, both, repository, known) for pair in pairs if pair[1] != pair[2]]
        weighed = _doubted(dict(zip((first, second), chains, strict=True)), known)
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


def _doubted(chains: Mapping[str, Mapping[str, Entry]], known: KnownFacts) -> dict[tuple[str, str], Evidence]:
    """Return the evidence against entries of chains, by stage and side; ``both`` where two sides have one entry."""
    doubted: dict[tuple[str, str], Evidence] = {}
    for side, chain in chains.items():
        for name, entry in chain.items():
            if (weighed := known.weigh(entry)).doubted:
                alike = [other for other, entries in chains.items() if entries.get(name) == entry]
                doubted[name, side if alike == [side] else "both"] = weighed
    return doubted


def _chain(side: Snapshot, what: str, start: Path | None) -> dict[str, Entry]:
    """Return the entries by stage, raw data first."""
    stages = list(side.lock.entries)
    if what:
        stages = [resolve(what, side.lock, side.project, start=start).stage.name]
    return {entry.name: entry for stage in stages for entry in side.lock.chain(stage)[::-1]}


def _stage(
    name: str,
    old: Entry | None,
    new: Entry | None,
    sides: Sequence[Snapshot],
    repository: Repository,
    known: KnownFacts,
) -> StageDifference:
    differing = StageDifference(name)
    if old is None or new is None or old.command != new.command:
        differing.command = (old.command if old else None, new.command if new else None)
    if old is None or new is None:
        return differing
    differing.params = changes(old.flat_params(), new.flat_params())
    for path in sorted(changes(hashes(old.deps), hashes(new.deps))):
        if Path(path).name == LEDGER or any(side.lock.made(path) for side in sides):
            differing.inputs.append(path)
        elif code_lists.is_list(path):
            then, now = (hashes(one.deps).get(path) for one in (old, new))
            differing.code += code_lists.changed(path, then, now, sides[0].project, repository)
        elif is_code(path):
            revisions = [side.commit.sha for side in sides if side.commit]
            differing.code += (repository.changed_files(revisions, path) if revisions else []) or [path]
        else:
            differing.data.append(path)
    differing.code = sorted(set(differing.code))
    differing.outs = sorted(changes(hashes(old.outs), hashes(new.outs)))
    before, after = (known.of(entry) for entry in (old, new))
    differing.facts_known = None not in (before, after) and (before != after or not differing.outs)
    if before and after and differing.facts_known:
        differing.run = {name: pair for name, pair in changes(before, after).items() if name in _MACHINE}
        differing.packages = changes(before["packages"], after["packages"])
    return differing


def _numbers(text: bytes | None) -> Mapping[str, Any]:
    try:
        return flat(loads(text)) if text else {}
    except (ValueError, AttributeError):
        return {}


def _because(stages: Sequence[StageDifference], doubted: Set[str]) -> list[str]:
    """Return what made outputs differ, first stages first; then the differences without an effect."""
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
            known = [f"{word} ({', '.join(names)})"
                     for word, names in (("packages", stage.packages), ("machine", stage.run)) if names]  # fmt: skip
            known += [] if stage.facts_known else ["the facts of the runs are not known"]
            why = " and ".join(known) or "on the same machine with the same packages"
            lines.append(f"{stage.name} gave other bytes for the same command, parameters, code and data: {why}")
    if idle:
        lines.append(f"these differ too, with the same outputs: {'; '.join(idle)}")
    return lines
