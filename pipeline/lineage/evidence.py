"""Whether the entries of a lock ever ran, by the facts of runs (:mod:`pipeline.lineage.known_facts`).

A lock file is plain text: a merge can join the inputs of one run to the outputs of another, and an editor can change a
hash. DVC's run-cache is no evidence: DVC also writes it at `dvc commit`, at `dvc exp save` and for a frozen stage,
where nothing ran.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipeline.lineage.facts_schema import SIZE
from pipeline.lineage.known_facts import VERSIONS, KnownFacts, entry_of, outs_as_told, started
from pipeline.lineage.lock import Artefact, Entry, Lock, changes, hashes, within
from pipeline.lineage.locks import lock_of
from pipeline.lineage.repository import Commit, Repository
from sightword import machine
from sightword.errors import LineageError
from sightword.messages import and_more

Verdict = Literal[
    "run recorded in",
    "contradicted",
    "of another run",
    "not repeated on this kind of machine",
    "never seen to run",
]
PROOFS: tuple[Verdict, ...] = ("contradicted", "of another run")
"""The verdicts that say that these inputs did not make these outputs."""
SHOWN = 3
"""Differences that a sentence names before it counts the rest."""
_MD5 = re.compile(r"[0-9a-f]{32}(\.dir)?")


@dataclass(frozen=True)
class Evidence:
    """The verdict of the facts on one entry."""

    verdict: Verdict
    why: str = ""
    """The run that vouches, or the runs that disagree."""
    differing: frozenset[str] = frozenset()
    """The parameters, and the paths of other inputs, in which the run with its outputs differs."""

    @property
    def doubted(self) -> bool:
        """Whether facts say that these inputs did not make these outputs."""
        return self.verdict in PROOFS


def in_words(verdict: str, why: str | None) -> str:
    """Return a verdict with its reason on one line."""
    shown = verdict.upper() if verdict in PROOFS else verdict
    return f"{shown}: {why}" if why else shown


@dataclass(frozen=True)
class _Run:
    """A run with some inputs or outputs of the entry that is weighed."""

    source: str
    ran: Mapping[str, tuple[Any, Any]]
    """The inputs that differ from the entry's: there and here."""
    made: Mapping[str, tuple[Any, Any]]
    """The outputs that differ."""
    shared: Sequence[str]
    """The outputs that do not."""
    this_kind: bool
    """Whether it ran on this kind of machine (:func:`_is_this_kind`)."""


class Records:
    """The facts of runs in some folders; their paths are shown from the project's folder."""

    def __init__(self, facts: Sequence[Path], project: Path) -> None:
        self.facts = KnownFacts(facts)
        self._project = project
        self._weighed: dict[tuple[str, tuple[Artefact, ...]], Evidence] = {}
        self._locks: dict[Any, Lock | None] = {}

    def weigh(self, entry: Entry) -> Evidence:
        """Return the verdict on an entry of a lock.

        ``run recorded in``: a run had these inputs and outputs. ``contradicted``: a run on this kind of machine had
        these inputs and other outputs. ``of another run``: a run had these outputs, and other inputs; two runs may have
        an equal output by chance, so all outputs that DVC's cache keeps must be equal. ``not repeated on this kind of
        machine``: a run with these inputs had other outputs, and the entry may be of another kind of machine.
        ``never seen to run``: nothing of all this.

        A run says nothing against an entry that the lock already had when the run began: the entry is of an earlier
        run, perhaps on another machine, and not made from this one.
        """
        known = entry.key, entry.outs
        if known not in self._weighed:
            self._weighed[known] = self._weigh(entry)
        return self._weighed[known]

    def _weigh(self, entry: Entry) -> Evidence:
        if facts := self.facts.of(entry):
            return Evidence("run recorded in", _of_facts(facts))
        runs = [(self._run(path, facts, entry), facts) for path, facts in self.facts.like(entry)]
        kept = _kept(entry)
        later = [run for run, facts in runs if (not run.ran or kept & {*run.shared}) and not self._had(entry, facts)]
        foreign = [run for run in later if run.ran]
        copied = [run for run in foreign if kept <= {*run.shared}]
        if differing := [run for run in later if not run.ran and run.this_kind]:
            return _verdict("contradicted", differing[0], foreign)
        if copied:
            return _verdict("of another run", None, copied)
        if differing := [run for run, _ in runs if not run.ran]:
            return _verdict("not repeated on this kind of machine", differing[0], foreign)
        return _verdict("never seen to run", None, foreign)

    def _run(self, path: Path, facts: Mapping[str, Any], entry: Entry) -> _Run:
        shown = path.relative_to(self._project) if path.is_relative_to(self._project) else path
        source = f"{shown.parent}/{path.stem[:8]}*.json, {_of_facts(facts)}"
        ran = changes(_inputs(entry_of(facts)), _inputs(entry))
        made = changes(facts["outs"], outs_as_told(entry, facts))
        return _Run(source, ran, made, [out.path for out in entry.outs if out.path not in made], _is_this_kind(facts))

    def _had(self, entry: Entry, facts: Mapping[str, Any]) -> bool:
        """Return whether the lock had an entry when a run began: by its commit, in another clone by its time."""
        with contextlib.suppress(LineageError), Repository(self._project) as repository:
            for find in (lambda: facts.get("commit"), lambda: repository.before(facts["started"])):
                if (commit := find()) and commit not in self._locks:
                    self._locks[commit] = lock_of(repository, Commit(commit, "", "", ""))
                if lock := self._locks.get(commit):
                    return lock.entries.get(entry.name) == entry
        return False


def _is_this_kind(facts: Mapping[str, Any]) -> bool:
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


def _of_facts(facts: Mapping[str, Any]) -> str:
    sized = [path for path, told in facts.get("outs", {}).items() if told.endswith(SIZE)]
    form = f" (of {and_more(sized, SHOWN)} they have sizes alone)" if sized else ""
    return f"facts of a run on {facts['host']}, {started(facts)}{form}"


def _verdict(verdict: Verdict, other: _Run | None, foreign: Sequence[_Run]) -> Evidence:
    """Return a verdict with the runs that disagree: one with the entry's inputs, and one with most of its outputs."""
    doubts = []
    if other is not None:
        doubts.append(f"the same inputs gave other outputs in {other.source}: {_in_words(other.made)}")
    elsewhere = min(foreign, key=lambda one: (len(one.made), len(one.ran)), default=None)
    if elsewhere is not None:
        what = f"outputs {and_more(elsewhere.shared, SHOWN)}" if elsewhere.made else "outputs"
        doubts.append(f"its {what} are those of another run, {elsewhere.source}: {_in_words(elsewhere.ran)}")
    return Evidence(verdict, "; ".join(doubts), frozenset(elsewhere.ran) if elsewhere else frozenset())


def _inputs(entry: Entry) -> dict[str, Any]:
    return {"command": entry.command, **entry.flat_params(), **hashes(entry.deps)}


def _in_words(differing: Mapping[str, tuple[Any, Any]]) -> str:
    """Return the differences between a run and the lock as text."""
    pairs = {name: [_short(value) for value in differing[name]] for name in sorted(differing)}
    texts = (f"{name} {there} there, {here} in dvc.lock" for name, (there, here) in pairs.items())
    return and_more(texts, SHOWN, between="; ")


def _short(value: Any) -> str:
    return value[:8] if isinstance(value, str) and _MD5.fullmatch(value) else json.dumps(value, ensure_ascii=False)
