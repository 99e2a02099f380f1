"""The chain that made a result: stage by stage back to raw data, each beside what lies in the workspace."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.lineage import metric_keys
from pipeline.lineage.evidence import FETCH, Evidence, Records, Verdict
from pipeline.lineage.facts import read_facts
from pipeline.lineage.history import CODE
from pipeline.lineage.lock import Artefact, Entry, Lock, within
from pipeline.lineage.locks import lock_at, lock_here, lock_of
from pipeline.lineage.repository import Commit, Repository
from pipeline.lineage.target import Subject, in_history, resolve
from pipeline.lineage.workspace import State, Workspace
from pipeline.pipelines import LOCK, LOCKS
from sightword.errors import LineageError
from sightword.text import did_you_mean


@dataclass(frozen=True)
class Part:
    """A file or folder that a stage read or wrote, then and now."""

    artefact: Artefact
    kind: str
    """``code``, ``data`` (raw), or ``output`` of a stage."""
    maker: str | None
    """The stage that wrote it."""
    state: State
    files: dict[str, str] | None = None
    """Of a folder of code that is as it was: the hash of each file."""
    differing: list[str] | None = None
    """Of a changed folder: the files that differ, where the cache has its listing."""


@dataclass
class Link:
    """One stage of a chain."""

    entry: Entry
    deps: list[Part]
    outs: list[Part]
    changed_params: dict[str, tuple[Any, Any]]
    """By full name: then and now."""
    reasons: list[str] = field(default_factory=list)
    """What else is not as it was, in words."""
    unread: list[str] = field(default_factory=list)
    """Files of parameters, or ``dvc.yaml``, that are not there or cannot be read, so that nothing was compared."""
    commit: Commit | None = None
    """Which recorded this state first; None where none has it."""
    run: dict[str, Any] | None = None
    """The facts of its run; None where they are not known."""
    evidence: Evidence = field(default_factory=lambda: Evidence("never seen to run"))
    """Whether a record of a run has these inputs with these outputs."""
    weights: dict[str, str] = field(default_factory=dict)
    """What a feature file says of the network that made it."""

    @property
    def state(self) -> State:
        """``changed since`` where anything differs, else ``missing`` where something is not there."""
        states = {part.state for part in (*self.deps, *self.outs)}
        if self.changed_params or self.reasons or "changed since" in states:
            return "changed since"
        return "missing" if "missing" in states else "not known" if self.unread or "not known" in states else "ok"


@dataclass
class Audit:
    """The history of a result."""

    subject: Subject
    links: list[Link]
    """The stage that made it first, raw data last."""
    value: Any = None
    """Of a key in a metrics file."""
    edited: bool = False
    """Whether the file that was asked for is known to be another one than its stage wrote."""
    revision: Commit | None = None
    """Where the lock was read from; None for the workspace's own."""
    unknown: list[str] = field(default_factory=list)
    """What cannot be known here, and why."""

    @property
    def state(self) -> State:
        """The worst of its stages'."""
        states = [link.state for link in self.links]
        order: tuple[State, ...] = ("changed since", "missing", "not known")
        return next((state for state in order if state in states), "ok")

    def stages(self, verdict: Verdict) -> list[str]:
        """The stages whose entries the records of runs give this verdict."""
        return [link.entry.name for link in self.links if link.evidence.verdict == verdict]


def audit(
    what: str,
    project: Path,
    *,
    facts: Sequence[Path] = (),
    revision: str = "",
    start: Path | None = None,
    workspace: Workspace | None = None,
) -> Audit:
    """Trace a result back to raw data.

    Args:
        what: see :func:`pipeline.lineage.target.resolve`.
        project: the folder with ``dvc.lock``, or a bare repository.
        facts: folders with facts of runs.
        revision: a commit or experiment whose lock is read; empty: the workspace's.
        start: where relative paths begin; default: the project.
        workspace: what lies there; default: the project's folder.

    Raises:
        LineageError: there is no lock, or nothing of this name.
    """
    unknown: list[str] = []
    with contextlib.ExitStack() as stack:
        try:
            repository: Repository | None = stack.enter_context(Repository(project))
        except LineageError as error:
            repository = None
            unknown.append(f"commits: {error.what}")
        return _audit(what, project, repository, facts, revision, start, workspace, unknown)


def _audit(
    what: str,
    project: Path,
    repository: Repository | None,
    facts: Sequence[Path],
    revision: str,
    start: Path | None,
    workspace: Workspace | None,
    unknown: list[str],
) -> Audit:
    here = workspace or Workspace(None if repository and repository.bare else project)
    commit = None
    if revision or (repository and repository.bare):
        if repository is None:
            raise LineageError(f"there are no revisions: {unknown[0]}", where=project)
        commit = repository.commit(revision or "HEAD")
        lock = lock_at(repository, commit)
    else:
        lock = lock_here(project)
    subject = resolve(what, lock, project, start=start)
    if subject is None:
        earlier = in_history(what, repository, project) if repository else None
        if earlier is None:
            raise LineageError("no file or folder of dvc.lock, now or in its history, has this hash", where=what)
        commit, lock, subject = earlier
        unknown.append(f"{what} is not in the present lock: what follows is of {commit.name}")
    found = Audit(subject, [], revision=commit, unknown=unknown)
    if subject.stage is not None:
        entries = lock.chain(subject.stage.name)
        records = Records(here.cache, facts, project)
        found.links = [_link(entry, lock, here, facts, records) for entry in entries]
        if repository is not None:
            _recorded(found, repository, commit)
        _look_inside(subject, subject.stage, here)
    _evaluate(found, here, repository, commit)
    _tell_unknown(found, here, repository)
    return found


def _link(entry: Entry, lock: Lock, here: Workspace, facts: Sequence[Path], records: Records) -> Link:
    deps = [_part(dep, lock.producer(dep.path), here) for dep in entry.deps]
    outs = [_part(out, entry, here) for out in entry.outs]
    link = Link(entry, deps, outs, here.changed_params(entry), run=read_facts(entry, facts))
    link.evidence = records.weigh(entry)
    link.unread = here.unread(entry)
    now = here.commands.get(entry.name)
    if now is not None and now != entry.command:
        link.reasons.append(f"dvc.yaml has another command now: {now}")
    elif now is None and here.project is not None and not link.unread:
        link.reasons.append("dvc.yaml has no such stage any more")
    link.reasons += [reason for dep in entry.deps if (reason := _stale(dep, lock, here))]
    link.weights = _weights(outs, here) or dict((link.run or {}).get("notes", {})) or _wanted_weights(entry)
    return link


def _part(artefact: Artefact, maker: Entry | None, here: Workspace) -> Part:
    kind = "output" if maker else "code" if any(within(artefact.path, folder) for folder in CODE) else "data"
    state = here.state(artefact)
    hashed = here.hashed(artefact.path) if state in ("ok", "changed since") and artefact.folder else None
    return Part(
        artefact,
        kind,
        maker.name if maker else None,
        state,
        files=dict(hashed.files) if hashed and hashed.files and kind == "code" and state == "ok" else None,
        differing=here.differing(artefact) if state == "changed since" and artefact.folder else None,
    )


def _stale(dep: Artefact, lock: Lock, here: Workspace) -> str | None:
    """The reason why an input is out of date: the stage before has since written another output."""
    maker = lock.producer(dep.path)
    if maker is None:
        return None
    wrote = here.cache.wrote(maker, dep.path)
    if wrote is None or wrote == dep.md5:
        return None
    return f"it read {dep.path} {dep.md5[:8]}, and {maker.name} has since written {wrote[:8]}"


def _weights(outs: Sequence[Part], here: Workspace) -> dict[str, str]:
    """The network's weights, from the feature file itself where it is there and as it was."""
    for out in outs:
        path = here.project / out.artefact.path if here.project else None
        files = [path] if path and path.suffix == ".h5" else list(path.glob("*.h5")) if path and path.is_dir() else []
        if out.state == "ok" and files:
            import h5py

            try:
                with h5py.File(files[0]) as file:
                    named = ("backbone", "feature_point", "weights", "weights_sha256", "precision", "origin")
                    return {name: str(file.attrs[name]) for name in named if name in file.attrs}
            except OSError:
                continue
    return {}


def _wanted_weights(entry: Entry) -> dict[str, str]:
    """The network that the parameters ask for, where neither the file nor the facts of the run are here."""
    wanted = entry.flat_params()
    chosen = ("backbone", "weights", "weights_sha256", "weights_seed")
    return {name: str(value) for name in chosen if (value := wanted.get(f"features.{name}")) not in (None, "")}


def _recorded(found: Audit, repository: Repository, revision: Commit | None) -> None:
    """The commit that recorded each link's state first: of the newest unbroken row of commits that have it."""
    waiting = {link.entry.name: link for link in found.links}
    for commit in repository.commits(LOCKS, start=revision.sha if revision else "HEAD"):
        lock = lock_of(repository, commit)
        for name, link in list(waiting.items()):
            has_it = lock is not None and lock.entries.get(name) == link.entry
            if has_it:
                link.commit = revision if revision and revision.sha == commit.sha else commit
            elif link.commit is not None:
                del waiting[name]
        if not waiting:
            return
    homeless = [link for link in found.links if link.commit is None]
    for commit in repository.experiments() if homeless else []:
        lock = lock_of(repository, commit)
        for link in homeless:
            if link.commit is None and lock is not None and lock.entries.get(link.entry.name) == link.entry:
                link.commit = commit


def _look_inside(subject: Subject, maker: Entry, here: Workspace) -> None:
    """Make sure that a file in an output was ever there, as far as that can be known.

    Raises:
        LineageError: it was not.
    """
    if subject.path is None:
        return
    out = next(out for out in maker.outs if within(subject.path, out.path))
    files: Mapping[str, str] = here.cache.listing(out)
    if not files and here.state(out) == "ok":
        hashed = here.hashed(out.path)
        files = (hashed.files if hashed else None) or {}
    name = subject.path.removeprefix(out.path).strip("/")
    if name and files and not any(within(file, name) for file in files):
        todo = did_you_mean(subject.path, [f"{out.path}/{file}" for file in files])
        raise LineageError(f"is no file of {out.path}, which {maker.name} wrote", where=subject.path, todo=todo)


def _evaluate(found: Audit, here: Workspace, repository: Repository | None, commit: Commit | None) -> None:
    """Find the value that was asked for, and whether the file it stands in is the one that its stage wrote."""
    subject = found.subject
    if subject.path is None:
        return
    if subject.key and not subject.path.endswith(".json"):
        raise LineageError("is no JSON file: it has no keys", where=subject.path)
    text: bytes | None = None
    if commit is not None and repository is not None:
        text = repository.read(commit.sha, subject.path)
        absent = f"{subject.path} is not in git"
    else:
        assert here.project is not None
        absent = f"{subject.path} is not here"
        if (path := here.project / subject.path).is_file():
            try:
                text = path.read_bytes()
            except OSError as error:
                absent = f"{subject.path} cannot be read ({error.strerror})"
    if text is not None and subject.stage is not None:
        found.edited = here.cache.edited(text, subject.stage, subject.path)
    if not subject.key:
        return
    if text is None:
        found.unknown.append(f"{absent}: its values are not known")
        return
    try:
        values = json.loads(text)
    except ValueError as error:
        where = f"{subject.path} in {commit.name}" if commit else subject.path
        raise LineageError(f"is not valid JSON ({error})", where=where) from None
    found.value = metric_keys.find(values, subject.key, subject.path)


def _tell_unknown(found: Audit, here: Workspace, repository: Repository | None) -> None:
    """Add the gaps of the audit, and their reasons."""
    unknown = found.unknown
    missing = [part.artefact.path for link in found.links for part in link.outs if part.state == "missing"]
    if here.project is None:
        unknown.append("a bare repository has no files: nothing was compared with the workspace")
    elif missing:
        unknown.append(f"not here, so not compared: {', '.join(missing)} (`dvc pull` fetches what was pushed)")
    for file in dict.fromkeys(file for link in found.links for file in link.unread):
        unknown.append(f"{file} is not here or cannot be read: what the stages have from it was not compared")
    without = [link.entry.name for link in found.links if link.run is None]
    if without:
        unknown.append(f"machine, versions and duration of {', '.join(without)}: no facts of these runs are here")
    if unseen := found.stages("never seen to run"):
        unknown.append(
            f"whether {', '.join(unseen)} ever ran as {LOCK} says: no record of such a run is here ({FETCH})"
        )
    if repository is not None:
        if repository.shallow:
            unknown.append("this clone is shallow: earlier commits are not known (`git fetch --unshallow`)")
        loose = [link.entry.name for link in found.links if link.commit is None]
        if loose:
            unknown.append(f"no commit has this state of {', '.join(loose)}: commit {LOCK}")
