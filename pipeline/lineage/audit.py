"""How a result was made: its chain of stages back to raw data, each compared with the workspace and the facts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipeline.lineage import code_lists
from pipeline.lineage.evidence import STORED, Evidence, KnownFacts, known_facts
from pipeline.lineage.facts import OUTS, Tally, listed, tallies
from pipeline.lineage.files import Snapshot, State, Workspace, snapshot
from pipeline.lineage.lock import Artefact, Entry, Lock, changes, is_code, joined, lock_here, within
from pipeline.lineage.repository import Commit, Repository
from pipeline.pipelines import DVC_YAML, LEDGER, LOCK, LOCKS, Pipeline, folder_of, pipelines
from pipeline.systems import published_by
from sightword.errors import FileFormatError, LineageError
from sightword.features.network_files import network_sha256
from sightword.io.files import loads
from sightword.messages import and_more, did_you_mean, flat
from sightword.report.departures import Departure, departures

SHALLOW = "this clone is shallow: earlier commits are not known (`git fetch --unshallow`)"


@dataclass(frozen=True)
class Subject:
    """A result: the stage that made it, its path (None: the stage itself), and a key in the file."""

    what: str
    stage: Entry
    path: str | None
    key: str = ""


def resolve(what: str, lock: Lock, project: Path, *, start: Path | None = None) -> Subject:
    """Find a path (with a key behind a colon) or a stage in a lock.

    Relative paths begin at ``start``, by default the project. A LineageError names what is near an unknown name.
    """
    _, colon, key = what.partition(":")
    if what in lock.entries:
        return Subject(what, lock.entries[what], None)
    path, from_project = path_of(what, project, start)
    for name in (from_project, path.strip("/")):
        if maker := lock.producer(name):
            return Subject(what, maker, name, key)
    entries = lock.entries.values()
    if readers := [one.name for one in entries if any(within(from_project, dep.path) for dep in one.deps)]:
        todo = f"`sightword audit --full {readers[0]}` has its hash."
        raise LineageError(f"is an input of {and_more(readers)}: no stage makes it", where=what, todo=todo)
    known = sorted({out.path for entry in entries for out in entry.outs})
    stages = f"The stages are {', '.join(lock.entries)}." if lock.entries else "It has no stages: run `dvc repro`."
    todo = _not_run(what, project) or _not_run(from_project, project)
    todo = todo or did_you_mean(what, [*known, *lock.entries]) or did_you_mean(path, known) or stages
    raise LineageError(
        "nothing in dvc.lock has this name", where=path if colon and not path.endswith(DVC_YAML) else what, todo=todo
    )


def check_has_run(what: str, project: Path, *, start: Path | None = None) -> None:
    """Check that a pipeline of a project has run; LineageError with the command that makes a target otherwise."""
    if not any(one.has_run for one in pipelines(project)):
        todo = _not_run(what, project) or _not_run(path_of(what, project, start)[1], project) or "`dvc repro` makes it."
        raise LineageError("does not exist: nothing was run here yet", where=project / LOCK, todo=todo)


def path_of(what: str, project: Path, start: Path | None) -> tuple[str, str]:
    """Return the path of a target without its key, as it is and from the project."""
    path = what.partition(":")[0]
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


@dataclass(frozen=True)
class Traced:
    """A file or folder that a stage read or wrote: ``code``, raw ``data``, or ``output`` of a ``stage``."""

    path: str
    kind: str
    md5: str
    size: int | None
    nfiles: int | None
    stage: str | None
    state: State
    files: dict[str, str] | None
    """Of an unchanged folder or list of code: the hash of each file."""
    differing: list[str] | None
    """Of a changed folder or list: the files that differ, where the cache or git has the earlier state."""


@dataclass
class Link:
    """One stage of a chain."""

    entry: Entry
    deps: list[Traced]
    outs: list[Traced]
    changed_params: dict[str, tuple[Any, Any]]
    unread: list[str]
    """Files of parameters, or ``dvc.yaml``, that are absent or cannot be read, so that nothing was compared."""
    run: dict[str, Any] | None
    evidence: Evidence
    reasons: list[str] = field(default_factory=list)
    """Other changes, in words."""
    weights: dict[str, str] = field(default_factory=dict)
    commit: Commit | None = None
    """The first one with this state, where there is one."""
    edited: bool = False
    """Whether the file that is traced is known to differ from the one that the stage wrote."""

    @property
    def status(self) -> str:
        """The worst of verdict and comparison in a word or two; ``ok`` where a run was seen, and all is as it was."""
        verdict = self.evidence.verdict
        if self.edited or self.evidence.doubted:
            return "edited" if self.edited else verdict
        return "not seen" if self.state == "ok" and verdict == "never seen to run" else self.state

    @property
    def state(self) -> State:
        """The worst state of its parts, parameters and command, compared with the workspace."""
        states: list[State] = ["changed since"] if self.changed_params or self.reasons else []
        states += ["missing"] if self.unread else []
        return _worst([*states, *(part.state for part in (*self.deps, *self.outs))])


@dataclass
class Audit:
    """How a result was made; the first link is the stage that made it, the last read raw data."""

    subject: Subject
    links: list[Link]
    value: Any = None
    revision: Commit | None = None
    """The commit of the lock; None for the workspace's own."""
    checked_out: bool = True
    """Whether the lock belongs to the workspace or to the commit that is checked out."""
    unknown: list[str] = field(default_factory=list)
    """Gaps, with their reasons."""
    scorings: list[Tally] = field(default_factory=list)
    departures: list[Departure] = field(default_factory=list)
    """The parameters of all stages that are not the published ones, in the order of a page."""

    @property
    def state(self) -> State:
        """The worst state of its stages."""
        return _worst([link.state for link in self.links])

    @property
    def edited(self) -> bool:
        """Whether the file that is traced was edited."""
        return any(link.edited for link in self.links)

    @property
    def broken(self) -> bool:
        """Whether the chain did not make what lies here: something was edited, contradicted, or changed since."""
        changed = self.checked_out and self.state == "changed since"
        return changed or any(link.edited or link.evidence.doubted for link in self.links)


def _worst(states: Sequence[State]) -> State:
    order: tuple[State, ...] = ("changed since", "missing", "not checked out")
    return next((state for state in order if state in states), "ok")


def audit(
    what: str,
    project: Path,
    *,
    revision: str = "",
    start: Path | None = None,
) -> Audit:
    """Trace a result back to raw data.

    Args:
        what: see :func:`resolve`.
        project: the folder with ``dvc.lock``.
        revision: a commit or experiment whose lock is read; empty: the workspace's.
        start: where relative paths begin; default: the project.

    Raises:
        LineageError: there is no lock, or nothing of this name.
        FileFormatError: a ledger of scorings was edited or damaged.
    """
    unknown: list[str] = []
    with contextlib.ExitStack() as stack:
        repository: Repository | None = None
        try:
            repository = stack.enter_context(Repository(project))
        except LineageError as error:
            if revision:
                raise
            unknown.append(f"commits: {error.what}")
        here = Workspace(project)
        if not revision:
            check_has_run(what, project, start=start)
        then = snapshot(revision, project, repository) if repository else Snapshot(project, lock_here(project))
        subject = resolve(what, then.lock, project, start=start)
        entries = then.lock.chain(subject.stage.name)
        known = known_facts(project)
        links = [_link(entry, then.lock, here, known, repository) for entry in entries]
        traced = Audit(subject, links, revision=then.commit, unknown=unknown)
        if repository is not None:
            head = repository.head()
            traced.checked_out = then.commit is None or (head is not None and head.sha == then.commit.sha)
            _find_commits(traced, repository, then.commit)
        _evaluate(traced, here, then)
        _add_unknown(traced, repository)
        _add_departures(traced)
        traced.scorings = tallies({link.entry.name: link.run for link in links}, project, known)
        return traced


def _link(entry: Entry, lock: Lock, here: Workspace, known: KnownFacts, repository: Repository | None) -> Link:
    deps = [_with_files(_traced(dep, lock, here, known), here, repository) for dep in entry.deps]
    outs = [_traced(out, lock, here, known) for out in entry.outs]
    changed, unread = here.changed_params(entry), here.unread(entry)
    link = Link(entry, deps, outs, changed, unread, known.of(entry), known.weigh(entry))
    now = here.commands.get(entry.name)
    if now is not None and now != entry.command:
        link.reasons.append(f"dvc.yaml has another command now: {now}")
    elif now is None and not link.unread:
        link.reasons.append("dvc.yaml has no such stage any more")
    for dep in entry.deps:
        maker = lock.producer(dep.path)
        wrote = here.cache.wrote(maker, dep.path) if maker else None
        if maker and wrote not in (None, dep.md5):
            since = f"{maker.name} has since written {str(wrote)[:8]}"
            link.reasons.append(f"it read {dep.path} {dep.md5[:8]}, and {since}")
    link.weights = _weights(link)
    then, name = link.weights.get("network_sha256"), link.weights.get("backbone", "")
    extracted = link.weights.get("origin") == "extracted"  # of features made elsewhere the network may be elsewhere too
    if then and extracted and network_sha256(name, here.project) != then:
        again = f"`dvc repro --force --single-item {entry.name}`"
        link.reasons.append(f"the files of the network {name}, which DVC does not see, are others now: {again}")
    return link


def _traced(artefact: Artefact, lock: Lock, here: Workspace, known: KnownFacts) -> Traced:
    path, state, maker = artefact.path, here.state(artefact), lock.producer(artefact.path)
    if Path(path).name == LEDGER and state == "changed since":
        state = "ok"  # it grows by each scoring, and no number depends on it
    if maker and state == "changed since":
        out = next(out.path for out in maker.outs if within(path, out.path))
        if (hashed := here.hashed(out)) and known.wrote(maker.name, out, hashed.md5):
            state = "not checked out"
    kind = "output" if lock.made(path) else "code" if is_code(path) else "data"
    files = here.files(path) if kind == "code" and state == "ok" else None
    differing = here.cache.differing(artefact, here.files(path)) if state == "changed since" else None
    stage = maker.name if maker else None
    return Traced(path, kind, artefact.md5, artefact.size, artefact.files, stage, state, files, differing)


def _with_files(dep: Traced, here: Workspace, repository: Repository | None) -> Traced:
    """Return a list of code with its files, compared with the installed program; anything else as it is."""
    if not code_lists.is_list(dep.path) or dep.state == "missing":
        return dep
    then, now = code_lists.find(dep.path, dep.md5, here.project, repository), code_lists.installed(dep.path)
    if then == now:
        return replace(dep, state="ok", files=then)
    return replace(dep, state="changed since", files=None, differing=sorted(changes(then, now)) if then else None)


def _weights(link: Link) -> dict[str, str]:
    """Return the network's weights by the facts, else by the parameters."""
    if link.run and link.run.get("notes"):
        return {name: value for name, value in link.run["notes"].items() if name != STORED}
    wanted = link.entry.flat_params()
    chosen = ("backbone", "weights", "weights_sha256", "weights_seed")
    return {name: str(value) for name in chosen if (value := wanted.get(f"features.{name}")) not in (None, "")}


def _find_commits(traced: Audit, repository: Repository, revision: Commit | None) -> None:
    """Find the commit that recorded each link's state first: of the newest unbroken row of commits with this state."""
    waiting = {link.entry.name: link for link in traced.links}
    commits = repository.commits(LOCKS, start=revision.sha if revision else "HEAD")
    for commit, texts in zip(commits, repository.lock_texts(commits), strict=True):
        if not waiting:
            break
        recorded = joined(texts, lenient=True, wanted=[link.entry for link in waiting.values()]).entries
        for name, link in list(waiting.items()):
            if recorded.get(name) == link.entry:
                link.commit = revision if revision and revision.sha == commit.sha else commit
            elif link.commit is not None:
                del waiting[name]
    homeless = [link for link in traced.links if link.commit is None]
    experiments = repository.experiments() if homeless else []
    entries = [link.entry for link in homeless]
    locks = [joined(texts, lenient=True, wanted=entries) for texts in repository.lock_texts(experiments)]
    for link, entry in zip(homeless, entries, strict=True):
        both = zip(experiments, locks, strict=True)
        link.commit = next((one for one, lock in both if lock.entries.get(entry.name) == entry), None)


def _evaluate(traced: Audit, here: Workspace, then: Snapshot) -> None:
    """Find the value of the subject, and whether its file is the one that its stage wrote."""
    path, key, maker = traced.subject.path, traced.subject.key, traced.subject.stage
    if path is None:
        return
    out = next(out for out in maker.outs if within(path, out.path))
    files = here.cache.files(out) or (here.files(out.path) if here.state(out) == "ok" else None) or {}
    name = path.removeprefix(out.path).strip("/")
    if name and files and not any(within(file, name) for file in files):
        todo = did_you_mean(path, [f"{out.path}/{file}" for file in files])
        raise LineageError(f"is not a file of {out.path}, which {maker.name} wrote", where=path, todo=todo)
    if key and not path.endswith(".json"):
        raise LineageError("is not a JSON file: it has no keys", where=path)
    text = then.read(path)
    traced.links[0].edited = text is not None and here.cache.edited(text, maker, path)
    if not key:
        return
    where = f"{path} in {then.commit.name}" if then.commit else path
    if text is None:
        traced.unknown.append(f"{where} is absent or cannot be read: its values are not known")
        return
    try:
        traced.value = find_entry(loads(text), key, path)
    except ValueError as error:
        raise LineageError(f"is not valid JSON ({error})", where=where) from None


def _add_unknown(traced: Audit, repository: Repository | None) -> None:
    """Add the gaps of the audit, and their reasons."""
    links = traced.links
    missing = [part.path for link in links for part in link.outs if part.state == "missing"]
    homeless = [link.entry.name for link in links if link.commit is None] if repository else []
    locks = dict.fromkeys(Pipeline(Path(), folder_of(name)).lock for name in homeless)
    gaps = {
        "not here, so not compared: {} (`dvc pull` fetches what was pushed)": missing,
        "{} (what lies here is of another run; `dvc checkout` brings that of the lock)":
            [part.path for link in links for part in link.outs if part.state == "not checked out"],
        "{} is not here or cannot be read: what the stages have from it was not compared":
            dict.fromkeys(file for link in links for file in link.unread),
        "machine, versions and duration of {}: no facts of these runs are here":
            [link.entry.name for link in links if link.run is None],
        f"whether {{}} ever ran as {LOCK} says: no facts of such a run are here (`sightword audit --verify` shows it)":
            [link.entry.name for link in links if link.evidence.verdict == "never seen to run"],
        f"no commit has this state of {{}}: commit {' and '.join(locks)}": homeless,
    }  # fmt: skip
    traced.unknown += [text.format(", ".join(names)) for text, names in gaps.items() if names]
    if repository is not None and repository.shallow:
        traced.unknown.append(SHALLOW)


def _add_departures(traced: Audit) -> None:
    """Add the parameters that are not the published ones, and why the published values of a stage are not known."""
    values: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for link in reversed(traced.links):
        of_stage = link.entry.flat_params()
        values |= of_stage
        try:
            defaults |= published_by(link.entry.name, of_stage)
        except LineageError as error:
            traced.unknown.append(f"published parameters of {error}")
    traced.departures = departures(values, defaults)


def find_entry(values: Any, key: str, where: object) -> Any:
    """Return the entry of a name such as ``STS15.surprise.OnWN.pearson``, whose parts may have dots themselves.

    Of several ways to cut the name, the one with the longest first key that leads to an entry counts. An empty name
    stands for all values. A LineageError names the nearest entries of the file ``where``.
    """
    if entry := look_up(values, key.split(".") if key else []):
        return entry[0]
    names = flat(values) if isinstance(values, Mapping) else {}
    raise LineageError(f"has no entry {key}", where=where, todo=did_you_mean(key, names))


def look_up(values: Any, parts: Sequence[str]) -> tuple[Any] | None:
    """Return the entry of a name in parts, in a tuple of one; None where there is none."""
    if not parts:
        return (values,)
    for count in range(len(parts), 0, -1) if isinstance(values, Mapping) else ():
        first = ".".join(parts[:count])
        if first in values and (inner := look_up(values[first], parts[count:])):
            return inner
    return None
