"""The facts of runs, and what they say of the entries of a lock.

A lock file is plain text: a merge can join the inputs of one run to the outputs of another, and an editor can change a
hash. DVC's run-cache is no evidence: DVC also writes it at `dvc commit`, at `dvc exp save` and for a frozen stage,
where nothing ran. Facts are written by runs alone (:mod:`pipeline.lineage.facts`).
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pipeline.lineage.lock import Artefact, Entry, Lock, changes, entry_key, hashes, sha256, within
from pipeline.lineage.repository import Commit, Repository
from pipeline.pipelines import stage_of
from sightword import machine
from sightword.errors import LineageError
from sightword.evaluation import ledger
from sightword.evaluation.ledger import Scoring
from sightword.io.files import loads
from sightword.messages import and_more

log = logging.getLogger(__name__)

SCHEMA = 5
RUNS = "runs"
"""The folder of facts, in a project and in a store."""
VERSIONS = ("numpy", "torch")
"""The packages that compute."""
SCORINGS = "scorings"
"""The entries of the ledger that a run made; empty where it scored no test split, absent where its stage never does."""
STORED = "stored"
"""The note of a run of the stage features: how many features came from the store."""
SHOWN = 3
"""Differences that a sentence names before it counts the rest."""
_MD5 = re.compile(r"[0-9a-f]{32}(\.dir)?")
_HEAD = re.compile(rb'\{\n "schema": %d,\n "stage": "([\w@:./-]+)",\n' % SCHEMA)
_ID = re.compile(rb'\n "id": "([0-9a-f.]+)",\n')

Facts = dict[str, Any]
Verdict = Literal["run recorded", "contradicted", "never seen to run"]


@dataclass(frozen=True)
class Evidence:
    """The verdict of the facts on one entry."""

    verdict: Verdict
    why: str = ""
    """The run that vouches, or the runs that disagree."""
    differing: frozenset[str] = frozenset()
    """Where the outputs are those of a run with other inputs: the parameters and paths that differ."""

    @property
    def doubted(self) -> bool:
        """Whether facts say that these inputs did not make these outputs."""
        return self.verdict == "contradicted"


def in_words(verdict: str, why: str | None) -> str:
    """Return a verdict with its reason on one line."""
    shown = verdict.upper() if verdict == "contradicted" else verdict
    return f"{shown}: {why}" if why else shown


def run_id(entry: str, outs: Mapping[str, str]) -> str:
    """Return the name of a run: the key of its inputs (:func:`~pipeline.lineage.lock.entry_key`) and of its outputs."""
    return f"{entry}.{sha256(outs)}"


def facts_folders(project: Path) -> list[Path]:
    """Return the folders with the facts of all runs here: in the project, and in the store that a lab shares."""
    return [project / RUNS, machine.current().local_store / RUNS]


def known_facts(project: Path) -> KnownFacts:
    """Return all facts that are known in a project."""
    return KnownFacts(facts_folders(project), project)


class _Run(NamedTuple):
    """A run with all inputs, or with some outputs, of the entry that is weighed."""

    source: str
    ran: Mapping[str, tuple[Any, Any]]  # inputs that differ from the entry's: there and here
    made: Mapping[str, tuple[Any, Any]]  # outputs that differ
    shared: Sequence[str]  # outputs that are the same
    this_kind: bool


class _File:
    """A file of facts, which is read when it is asked for: a history has thousands."""

    def __init__(self, source: str, text: bytes) -> None:
        self.source, self.text = source, text
        head, name = _HEAD.match(text), _ID.search(text)
        # What the text says, before it is checked; empty for a text that was not written as a run writes it.
        self.stage, self.id = (head[1].decode(), name[1].decode()) if head and name else ("", "")

    @functools.cached_property
    def checked(self) -> tuple[Facts | None, str]:
        """The facts, or the reason for which nobody can rely on them."""
        return _read(self.text)


class KnownFacts:
    """The facts in some folders and, of a project, those in git.

    They are read when a question needs them, and a line of the log names those that nobody can rely on.
    """

    def __init__(self, folders: Sequence[Path], project: Path | None = None) -> None:
        self._folders, self._project = folders, project
        self._weighed: dict[tuple[str, tuple[Artefact, ...]], Evidence] = {}
        self._locks: dict[Any, Lock | None] = {}
        self._told: set[_File] = set()

    def of(self, entry: Entry) -> Facts | None:
        """Return the facts of the run that made an entry, from the first place that has them; None without any."""
        name = run_id(entry.key, hashes(entry.outs))
        runs = (self._read(files, lambda file: file.id == name).get(name) for files in self._places())
        return next((run[1] for run in runs if run), None)

    def wrote(self, stage: str, path: str, md5: str) -> bool:
        """Return whether a run of a stage wrote an output with a hash."""
        found = (self._read(files, lambda file: md5.encode() in file.text).values() for files in self._places())
        return any(facts["stage"] == stage and facts["outs"].get(path) == md5 for runs in found for _, facts in runs)

    def scorings(self) -> Iterator[tuple[str, Scoring]]:
        """Yield each scoring, with the address of the stage; facts in git have none."""
        for _, facts in self._read(self._here, lambda file: f'"{SCORINGS}"'.encode() in file.text).values():
            for scoring in scorings_of(facts) or ():
                yield stage_of(facts["stage"]), scoring

    def __bool__(self) -> bool:
        return any(self._read(files, lambda _: True) for files in self._places())

    def weigh(self, entry: Entry) -> Evidence:
        """Return the verdict on an entry of a lock.

        ``run recorded``: a run had these inputs and outputs. ``contradicted``: a run on this kind of machine had these
        inputs and other outputs, or a run had these outputs and other inputs; two runs may have an equal output by
        chance, so all outputs that DVC's cache keeps must be equal. ``never seen to run``: nothing of all this; a run
        with these inputs may have had other outputs, where the entry may be of another kind of machine.

        A run says nothing against an entry that the lock already had when the run began: the entry is of an earlier
        run, perhaps on another machine, and not made from this one.
        """
        known = entry.key, entry.outs
        if known not in self._weighed:
            self._weighed[known] = self._weigh(entry)
        return self._weighed[known]

    def _weigh(self, entry: Entry) -> Evidence:
        if facts := self.of(entry):
            return Evidence("run recorded", f"facts of a run of {started(facts)}")
        runs = [
            (_run(source, facts, entry), facts)
            for source, facts in self._of_stage(entry.name)
            if facts["entry"] == entry.key or facts["outs"].items() & hashes(entry.outs).items()
        ]
        kept = _kept(entry)
        later = [run for run, facts in runs if (not run.ran or kept & {*run.shared}) and not self._had(entry, facts)]
        foreign = [run for run in later if run.ran]
        if repeated := [run for run in later if not run.ran and run.this_kind]:
            return Evidence("contradicted", _why(repeated[0], foreign))
        if copied := [run for run in foreign if kept <= {*run.shared}]:
            return Evidence("contradicted", _why(None, copied), frozenset(_nearest(copied).ran))
        return Evidence("never seen to run", _why(next((run for run, _ in runs if not run.ran), None), foreign))

    def _had(self, entry: Entry, facts: Facts) -> bool:
        """Return whether the lock had an entry when a run began: by its commit, in another clone by its time."""
        with contextlib.suppress(LineageError), Repository(self._project or Path()) as repository:
            for find in (lambda: facts.get("commit"), lambda: repository.before(facts["started"])):
                if (commit := find()) and commit not in self._locks:
                    self._locks[commit] = repository.lock_or_none(Commit(commit))
                if lock := self._locks.get(commit):
                    return lock.entries.get(entry.name) == entry
        return False

    def _of_stage(self, stage: str) -> list[tuple[str, Facts]]:
        """Return the sources and facts of a stage's runs."""
        here, in_git = (self._read(files, lambda file: file.stage == stage) for files in self._places())
        runs = [*here.values(), *(run for name, run in in_git.items() if name not in here)]
        return [run for run in runs if run[1]["stage"] == stage]

    def _read(self, files: Sequence[_File], wanted: Callable[[_File], bool]) -> dict[str, tuple[str, Facts]]:
        """Return the source and the facts of each run that is wanted, and of those in files of another layout."""
        runs: dict[str, tuple[str, Facts]] = {}
        unused: dict[str, list[str]] = {}
        for file in files:
            if file.id and (file.id in runs or not wanted(file)):
                continue
            facts, why = file.checked
            if facts:
                runs.setdefault(facts["id"], (file.source, facts))
            elif file not in self._told:
                self._told.add(file)
                unused.setdefault(why, []).append(file.source)
        for why, (first, *more) in unused.items():
            log.warning("%s%s: %s", first, f" and {len(more)} more" if more else "", why)
        return runs

    def _places(self) -> Iterator[Sequence[_File]]:
        """Yield the files of all runs here, then those in git, which are not read where the first have the answer."""
        yield self._here
        yield self._in_git

    @functools.cached_property
    def _here(self) -> list[_File]:
        project = self._project
        last = sorted((project / RUNS).glob("*/")) if project else []  # of each stage, for git
        files = []
        for folder in (*self._folders, *last):
            below = project and folder.is_relative_to(project)
            shown = folder.relative_to(project) if project and below else folder
            for name in sorted(path.name for path in folder.glob("*.json")):
                text = b""
                with contextlib.suppress(OSError):  # what cannot be read is named as such later
                    text = (folder / name).read_bytes()
                files.append(_File(f"{shown}/{name if folder in last else f'{name[:8]}*.json'}", text))
        return files

    @functools.cached_property
    def _in_git(self) -> list[_File]:
        with contextlib.suppress(LineageError):
            if self._project:
                with Repository(self._project) as repository:
                    return [_File(f"{name} in git", text) for name, text in repository.versions(RUNS)]
        return []


def _read(text: bytes) -> tuple[Facts | None, str]:
    """Return the facts in the text of a file, or the reason for which nobody can rely on them."""
    try:
        facts = loads(text)
    except ValueError:
        return None, "cannot be read, so not used as facts of runs"
    if isinstance(facts, dict) and facts.get("schema") != SCHEMA:
        schemas = f"schema {facts.get('schema')}, not {SCHEMA}"
        return None, f"written by another version of Sightword ({schemas}), so not used"
    with contextlib.suppress(KeyError, TypeError, AttributeError):
        entry = entry_key(facts["stage"], **facts["ran"])
        ran = facts["ran"]
        hash((*facts["outs"].items(), *ran["deps"].items(), *facts.setdefault("packages", {}).items()))
        whole = all(isinstance(one, str) for one in (facts["started"], facts["stage"], ran["command"]))
        whole = whole and all(isinstance(part, dict) for part in ran["params"].values())
        if whole and facts["id"] == run_id(entry, facts["outs"]):
            return {**facts, "entry": entry}, ""
    return None, "edited, so not used as facts of runs"


def scorings_of(facts: Mapping[str, Any]) -> list[Scoring] | None:
    """Return the scorings in the facts of a run; None if the facts have no scorings entry."""
    if not isinstance(facts.get(SCORINGS), list):
        return None
    scorings = []
    for one in facts[SCORINGS]:
        with contextlib.suppress(TypeError):  # edited, or of another version
            scorings.append(Scoring(**one))
    return list(filter(ledger.is_whole, scorings))


def entry_of(facts: Mapping[str, Any]) -> Entry:
    """Return the entry that a run would have in ``dvc.lock``, without the sizes."""
    ran = facts["ran"]
    deps, outs = (tuple(Artefact(path, md5, None, None) for path, md5 in one.items())
                  for one in (ran["deps"], facts["outs"]))  # fmt: skip
    return Entry(facts["stage"], ran["command"], ran["params"], deps, outs)


def started(facts: Mapping[str, Any]) -> str:
    """Return the time at which a run started, to the minute, and its machine."""
    return f"{facts['started'][:16].replace('T', ' ')} UTC on {facts.get('host') or facts.get('processor')}"


def _run(source: str, facts: Facts, entry: Entry) -> _Run:
    ran, made = changes(_inputs(entry_of(facts)), _inputs(entry)), changes(facts["outs"], hashes(entry.outs))
    shared = [out.path for out in entry.outs if out.path not in made]
    return _Run(f"{source}, facts of a run of {started(facts)}", ran, made, shared, _is_this_kind(facts))


def _is_this_kind(facts: Facts) -> bool:
    """Return whether a run was on this kind of processor, with the versions and settings of today, and without a GPU.

    What a GPU computed contradicts nothing: the entry may be that of a CPU.
    """
    here = {}
    for name in VERSIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            here[name] = importlib.metadata.version(name)
    packages, now = facts["packages"], machine.current()
    engine = "openvino" if now.engine == "openvino" else "torch"
    same = {"processor": machine.processor(), "device": "cpu", "threads": now.threads, "engine": engine}
    return all(packages.get(name) == here.get(name) for name in VERSIONS) and all(
        facts.get(name, value) == value for name, value in same.items()
    )


def _kept(entry: Entry) -> set[str]:
    """Return the outputs that no two runs have equal by chance: not the files of numbers, where there are others.

    DVC's cache does not keep those files; git does.
    """
    paths = {out.path for out in entry.outs}
    return {path for path in paths if not within(path, "metrics")} or paths


def _nearest(foreign: Sequence[_Run]) -> _Run:
    return min(foreign, key=lambda one: (len(one.made), len(one.ran)))


def _why(other: _Run | None, foreign: Sequence[_Run]) -> str:
    """Return the runs that disagree: one with the entry's inputs, and the one with most of its outputs."""
    doubts = []
    if other is not None:
        doubts.append(f"the same inputs gave other outputs in {other.source}: {_differences(other.made)}")
    if foreign:
        one = _nearest(foreign)
        what = f"outputs {and_more(one.shared, SHOWN)}" if one.made else "outputs"
        doubts.append(f"its {what} are those of another run, {one.source}: {_differences(one.ran)}")
    return "; ".join(doubts)


def _inputs(entry: Entry) -> dict[str, Any]:
    return {"command": entry.command, **entry.flat_params(), **hashes(entry.deps)}


def _differences(differing: Mapping[str, tuple[Any, Any]]) -> str:
    """Return the differences between a run and the lock as text."""
    pairs = {name: [_short(value) for value in differing[name]] for name in sorted(differing)}
    texts = (f"{name} {there} there, {here} in dvc.lock" for name, (there, here) in pairs.items())
    return and_more(texts, SHOWN, between="; ")


def _short(value: Any) -> str:
    return value[:8] if isinstance(value, str) and _MD5.fullmatch(value) else json.dumps(value, ensure_ascii=False)
