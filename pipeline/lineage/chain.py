"""The chain that made a result, stage by stage back to raw data, each compared with the workspace."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipeline.lineage import code_lists, metric_keys
from pipeline.lineage.evidence import Evidence, Records
from pipeline.lineage.history import SHALLOW
from pipeline.lineage.known_facts import STORED
from pipeline.lineage.lock import Artefact, Entry, Lock, changes, is_code, within
from pipeline.lineage.locks import Snapshot, lock_here, lock_of, snapshot
from pipeline.lineage.repository import Commit, Repository
from pipeline.lineage.scorings import Tally, tallies
from pipeline.lineage.target import Subject, check_has_run, in_history, resolve
from pipeline.lineage.workspace import State, Workspace
from pipeline.pipelines import LEDGER, LOCK, LOCKS, Pipeline, folder_of
from sightword.errors import LineageError
from sightword.features.networks.files import network_sha256
from sightword.messages import did_you_mean


@dataclass(frozen=True)
class Traced:
    """A file or folder that a stage read or wrote, then and now."""

    path: str
    kind: str
    """``code``, ``data`` (raw), or ``output`` of a stage."""
    md5: str
    size: int | None
    nfiles: int | None
    stage: str | None
    """The stage that wrote it; None for raw data, code, and a folder with outputs of several stages."""
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
    """The facts of its run, where they are known."""
    evidence: Evidence
    """Whether a record of a run has these inputs with these outputs."""
    reasons: list[str] = field(default_factory=list)
    """Other changes, in words."""
    weights: dict[str, str] = field(default_factory=dict)
    """The network that made a feature file."""
    commit: Commit | None = None
    """The first one with this state, where there is one."""
    edited: bool = False
    """Whether the file that is traced is known to differ from the one that the stage wrote."""

    @property
    def status(self) -> str:
        """The worst of verdict and comparison in a word or two; ``ok`` where a run was seen, and all is as it was."""
        if self.edited or self.evidence.doubted:
            return "edited" if self.edited else self.evidence.verdict
        if self.evidence.verdict == "not repeated on this kind of machine" and self.state != "changed since":
            return "not repeated"
        return "not seen" if self.state == "ok" and self.evidence.verdict == "never seen to run" else self.state

    @property
    def state(self) -> State:
        """The worst state of its parts, parameters and command, beside the workspace."""
        own: list[State] = ["changed since"] if self.changed_params or self.reasons else []
        own += ["not known"] if self.unread else []
        return _worst([*own, *(part.state for part in (*self.deps, *self.outs))])


@dataclass
class Audit:
    """The history of a result."""

    subject: Subject
    links: list[Link]
    """The stage that made it first, raw data last."""
    value: Any = None
    """Of a key in a metrics file."""
    revision: Commit | None = None
    """The commit of the lock; None for the workspace's own."""
    checked_out: bool = True
    """Whether the lock is that of the workspace or of the commit that is checked out."""
    unknown: list[str] = field(default_factory=list)
    """Gaps, with their reasons."""
    scorings: list[Tally] = field(default_factory=list)
    """How often each split was scored on which the stages scored an encoder."""

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
    order: tuple[State, ...] = ("changed since", "missing", "not checked out", "not known")
    return next((state for state in order if state in states), "ok")


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
        workspace: the files to compare with; default: those of the project's folder.

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
        bare = repository is not None and repository.bare
        here = workspace or Workspace(None if bare else project)
        if not revision and not bare:
            check_has_run(what, project, start=start)
        if repository is None:
            then = Snapshot(project, lock_here(project))
        else:
            then = snapshot(revision or ("HEAD" if bare else ""), project, repository)
        subject = resolve(what, then.lock, project, start=start)
        if subject is None:
            earlier = in_history(what, repository, project) if repository else None
            if earlier is None:
                raise LineageError("no file or folder of dvc.lock, now or in its history, has this hash", where=what)
            then, subject = earlier
            assert then.commit is not None
            unknown.append(f"{what} is not in the present lock: what follows is of {then.commit.name}")
        entries = then.lock.chain(subject.stage.name) if subject.stage else []
        records = Records(facts, project)
        links = [_link(entry, then.lock, here, records, repository) for entry in entries]
        found = Audit(subject, links, revision=then.commit, unknown=unknown)
        if repository is not None:
            head = repository.head()
            found.checked_out = then.commit is None or (head is not None and head.sha == then.commit.sha)
            _find_commits(found, repository, then.commit)
        _evaluate(found, here, then)
        _add_unknown(found, here, repository)
        if here.project:
            found.scorings = tallies({link.entry.name: link.run for link in links}, here.project, records.facts)
        return found


def _link(entry: Entry, lock: Lock, here: Workspace, records: Records, repository: Repository | None) -> Link:
    deps = [_with_files(_traced(dep, lock, here, records), here, repository) for dep in entry.deps]
    outs = [_traced(out, lock, here, records) for out in entry.outs]
    run, weighed = records.facts.of(entry), records.weigh(entry)
    link = Link(entry, deps, outs, here.changed_params(entry), here.unread(entry), run, weighed)
    now = here.commands.get(entry.name)
    if now is not None and now != entry.command:
        link.reasons.append(f"dvc.yaml has another command now: {now}")
    elif now is None and here.project is not None and not link.unread:
        link.reasons.append("dvc.yaml has no such stage any more")
    for dep in entry.deps:
        maker = lock.producer(dep.path)
        wrote = here.cache.wrote(maker, dep.path) if maker else None
        if maker and wrote not in (None, dep.md5):
            since = f"{maker.name} has since written {str(wrote)[:8]}"
            link.reasons.append(f"it read {dep.path} {dep.md5[:8]}, and {since}")
    link.weights = _weights(link, here)
    then, name = link.weights.get("network_sha256"), link.weights.get("backbone", "")
    extracted = link.weights.get("origin") == "extracted"  # of features made elsewhere the network may be elsewhere too
    if then and extracted and here.project and network_sha256(name, here.project) != then:
        again = f"`dvc repro --force --single-item {entry.name}`"
        link.reasons.append(f"the files of the network {name}, which DVC does not see, are others now: {again}")
    return link


def _traced(artefact: Artefact, lock: Lock, here: Workspace, records: Records) -> Traced:
    path, state, maker = artefact.path, here.state(artefact), lock.producer(artefact.path)
    if Path(path).name == LEDGER and state == "changed since":
        state = "ok"  # it grows by each scoring, and no number depends on it
    if maker and state == "changed since":
        out = next(out.path for out in maker.outs if within(path, out.path))
        if (found := here.hashed(out)) and records.facts.wrote(maker.name, out, found.md5):
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


def _weights(link: Link, here: Workspace) -> dict[str, str]:
    """Return the network's weights by an unchanged feature file, else by the facts, else by the parameters."""
    for path in (here.project / part.path for part in link.outs if here.project and part.state == "ok"):
        for file in [path] if path.suffix == ".h5" else sorted(path.glob("*.h5")):
            import h5py

            with contextlib.suppress(OSError), h5py.File(file) as features:
                named = (
                    "backbone",
                    "feature_point",
                    "weights",
                    "weights_sha256",
                    "network_sha256",
                    "precision",
                    "origin",
                )
                return {name: str(features.attrs[name]) for name in named if name in features.attrs}
    if link.run and link.run.get("notes"):
        return {name: value for name, value in link.run["notes"].items() if name != STORED}
    wanted = link.entry.flat_params()
    chosen = ("backbone", "weights", "weights_sha256", "weights_seed")
    return {name: str(value) for name in chosen if (value := wanted.get(f"features.{name}")) not in (None, "")}


def _find_commits(found: Audit, repository: Repository, revision: Commit | None) -> None:
    """Find the commit that recorded each link's state first: of the newest unbroken row of commits with this state."""
    waiting = {link.entry.name: link for link in found.links}
    for commit in repository.commits(LOCKS, start=revision.sha if revision else "HEAD"):
        if not waiting:
            break
        lock = lock_of(repository, commit)
        for name, link in list(waiting.items()):
            if lock is not None and lock.entries.get(name) == link.entry:
                link.commit = revision if revision and revision.sha == commit.sha else commit
            elif link.commit is not None:
                del waiting[name]
    homeless = [link for link in found.links if link.commit is None]
    experiments = [(commit, lock_of(repository, commit)) for commit in repository.experiments()] if homeless else []
    for link in homeless:
        entry = link.entry
        link.commit = next((one for one, lock in experiments if lock and lock.entries.get(entry.name) == entry), None)


def _evaluate(found: Audit, here: Workspace, then: Snapshot) -> None:
    """Find the value of the subject, and whether its file is the one that its stage wrote."""
    path, key, maker = found.subject.path, found.subject.key, found.subject.stage
    if path is None:
        return
    if maker is not None:
        out = next(out for out in maker.outs if within(path, out.path))
        files = here.cache.files(out) or (here.files(out.path) if here.state(out) == "ok" else None) or {}
        name = path.removeprefix(out.path).strip("/")
        if name and files and not any(within(file, name) for file in files):
            todo = did_you_mean(path, [f"{out.path}/{file}" for file in files])
            raise LineageError(f"is not a file of {out.path}, which {maker.name} wrote", where=path, todo=todo)
    if key and not path.endswith(".json"):
        raise LineageError("is not a JSON file: it has no keys", where=path)
    text = then.read(path)
    if found.links:
        found.links[0].edited = text is not None and maker is not None and here.cache.edited(text, maker, path)
    if not key:
        return
    where = f"{path} in {then.commit.name}" if then.commit else path
    if text is None:
        found.unknown.append(f"{where} is absent or cannot be read: its values are not known")
        return
    try:
        found.value = metric_keys.find(json.loads(text), key, path)
    except ValueError as error:
        raise LineageError(f"is not valid JSON ({error})", where=where) from None


def _add_unknown(found: Audit, here: Workspace, repository: Repository | None) -> None:
    """Add the gaps of the audit, and their reasons."""
    links = found.links
    missing = [part.path for link in links for part in link.outs if part.state == "missing"]
    homeless = [link.entry.name for link in links if link.commit is None] if repository else []
    locks = dict.fromkeys(Pipeline(Path(), folder_of(name)).lock for name in homeless)
    gaps = {
        "not here, so not compared: {} (`dvc pull` fetches what was pushed)": missing if here.project else [],
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
    if here.project is None:
        found.unknown.append("a bare repository has no files: nothing was compared with the workspace")
    found.unknown += [text.format(", ".join(names)) for text, names in gaps.items() if names]
    if repository is not None and repository.shallow:
        found.unknown.append(SHALLOW)
