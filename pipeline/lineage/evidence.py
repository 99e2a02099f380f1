"""Whether the entries of a lock ever ran, by the records of runs.

A lock file is plain text: a merge can join the inputs of one run to the outputs of another, and an editor can change a
hash. There are two kinds of records, each with inputs and outputs. Only runs write facts
(:mod:`pipeline.lineage.known_facts`). DVC's run-cache has a file of each state that DVC has saved: after a run, but
also at `dvc commit`, at `dvc exp save` and for a frozen stage, where nothing ran. So facts come first.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipeline.lineage import documents
from pipeline.lineage.cache import Cache
from pipeline.lineage.known_facts import KnownFacts, entry_of, started
from pipeline.lineage.lock import Artefact, Entry, build_entry, changes, hashes, is_code, within
from sightword.errors import LineageError, SightwordError
from sightword.io.files import read_text
from sightword.messages import and_more

Verdict = Literal["run recorded in", "saved by DVC", "contradicted", "never seen to run"]
FETCH = "`dvc fetch --run-cache` brings the records that were pushed"
SAVED = "DVC saves a state without a run too (`dvc commit`)"
SHOWN = 3
"""Differences that a sentence names before it counts the rest."""
_MD5 = re.compile(r"[0-9a-f]{32}(\.dir)?")


@dataclass(frozen=True)
class Evidence:
    """The verdict of the records on one entry."""

    verdict: Verdict
    why: str = ""
    """The record that vouches, or DVC's file; then the records that disagree."""
    against: bool = False
    """Whether a record disagrees with the entry."""
    differing: frozenset[str] = frozenset()
    """The parameters, and the paths of other inputs, in which the run with its outputs differs."""

    @property
    def doubted(self) -> bool:
        """Whether a record says that these inputs did not make these outputs."""
        return self.against and self.verdict in ("contradicted", "never seen to run")


def in_words(verdict: str, why: str | None) -> str:
    """Return a verdict with its reason on one line."""
    shown = verdict.upper() if verdict == "contradicted" else verdict
    return f"{shown}: {why}" if why else shown


@dataclass(frozen=True)
class _Record:
    """A record with some inputs or outputs of the entry that is weighed."""

    source: str
    ran: Mapping[str, tuple[Any, Any]]
    """The inputs that differ from the entry's: there and here."""
    made: Mapping[str, tuple[Any, Any]]
    """The outputs that differ."""
    shared: Sequence[str]
    """The outputs that do not."""


class Records:
    """The records of runs in DVC's cache and in folders with facts; their paths are shown from the project's folder."""

    def __init__(self, cache: Cache, facts: Sequence[Path], project: Path) -> None:
        self.facts = KnownFacts(facts)
        self._cache, self._project = cache, project
        self._weighed: dict[tuple[str, tuple[Artefact, ...]], Evidence] = {}

    @property
    def empty(self) -> bool:
        """Whether no run was recorded here, as in a fresh clone."""
        return not self._saved and not self.facts

    def weigh(self, entry: Entry) -> Evidence:
        """Return the verdict on an entry of a lock.

        Facts decide where they have these inputs: ``run recorded in`` with these outputs, ``contradicted`` with others.
        Where they have the outputs with other inputs, the entry was ``never seen to run``. Else the run-cache decides:
        ``saved by DVC`` where it has these inputs with these outputs, ``contradicted`` where it has them only with
        others, and ``never seen to run`` where it does not have them.

        Two runs may have an equal output by chance, so facts with other inputs decide where all outputs that DVC's
        cache keeps are equal; those with some are named as a doubt, and an equal file of numbers alone is none.
        """
        known = entry.key, entry.outs
        if known not in self._weighed:
            self._weighed[known] = self._weigh(entry)
        return self._weighed[known]

    def _weigh(self, entry: Entry) -> Evidence:
        if facts := self.facts.of(entry):
            return Evidence("run recorded in", _of_facts(facts))
        saved = [_record(source, run, entry) for source, run in self._saved_like(entry)]
        own = next((one for one in saved if not one.ran and not one.made), None)
        others = [one for one in saved if not one.ran and one.made]
        elsewhere = [one for one in saved if one.ran and not one.made]
        runs = [
            _record(f"{self._source(path)}, {_of_facts(facts)}", entry_of(facts), entry)
            for path, facts in self.facts.like(entry)
        ]
        differing = [one for one in runs if not one.ran]
        foreign = [one for one in runs if one.ran and _kept(entry) & {*one.shared}]
        if differing or (others and own is None):
            return _against("contradicted", next(iter(differing or others)), _elsewhere(foreign))
        if own is None or any(_kept(entry) <= {*one.shared} for one in foreign):
            return _against("never seen to run", None, _elsewhere(foreign or elsewhere))
        # A change of the code often leaves the outputs as they were.
        elsewhere = [one for one in foreign + elsewhere if not all(map(is_code, one.ran))]
        return _against("saved by DVC", next(iter(others), None), _elsewhere(elsewhere), own.source)

    def _saved_like(self, entry: Entry) -> Iterator[tuple[str, Entry]]:
        """Yield the states in the run-cache with all inputs or all outputs of an entry; the others are not parsed."""
        for path, text in self._saved:
            if any(all(one.md5 in text for one in own) for own in (entry.deps, entry.outs)):
                try:
                    run = build_entry(entry.name, documents.parse(text, path))
                    run.flat_params()
                except (LineageError, KeyError, TypeError, AttributeError):
                    continue  # damaged, edited, or of another version
                yield self._source(path), run

    def _source(self, path: Path) -> str:
        shown = path.relative_to(self._project) if path.is_relative_to(self._project) else path
        if path.suffix == ".json":
            return f"{shown.parent}/{path.stem[:8]}*.json"
        return f"{shown.parent.parent}/{path.parent.name[:8]}*/{path.name[:8]}*"

    @functools.cached_property
    def _saved(self) -> list[tuple[Path, str]]:
        """The files of the run-cache with their texts; damaged files and those of other users cannot be read."""
        found = []
        for path in sorted(self._cache.runs.glob("*/*/*")):
            with contextlib.suppress(SightwordError):
                found.append((path, read_text(path)))
        return found


def _record(source: str, run: Entry, entry: Entry) -> _Record:
    ran, made = changes(_inputs(run), _inputs(entry)), changes(hashes(run.outs), hashes(entry.outs))
    return _Record(source, ran, made, [out.path for out in entry.outs if out.path not in made])


def _kept(entry: Entry) -> set[str]:
    """Return the outputs that no two runs have equal by chance: not the files of numbers, where there are others.

    DVC's cache does not keep those files; git does.
    """
    paths = {out.path for out in entry.outs}
    return {path for path in paths if not within(path, "metrics")} or paths


def _of_facts(facts: Mapping[str, Any]) -> str:
    return f"facts of a run on {facts['host']}, {started(facts)}"


def _against(verdict: Verdict, other: _Record | None, elsewhere: _Record | None, source: str = "") -> Evidence:
    """Return a verdict with the records that disagree: one with the entry's inputs, and one with its outputs."""
    doubts = []
    if other is not None:
        doubts.append(f"the same inputs gave other outputs in {other.source}: {_in_words(other.made)}")
    if elsewhere is not None:
        what = f"outputs {and_more(elsewhere.shared, SHOWN)}" if elsewhere.made else "outputs"
        doubts.append(f"its {what} are those of another run, {elsewhere.source}: {_in_words(elsewhere.ran)}")
    differing = frozenset(elsewhere.ran) if elsewhere else frozenset()
    return Evidence(verdict, "; ".join([source] * bool(source) + doubts), bool(doubts), differing)


def _elsewhere(records: Sequence[_Record]) -> _Record | None:
    """Return the record with most outputs, then most inputs, of the entry."""
    return min(records, key=lambda one: (len(one.made), len(one.ran)), default=None)


def _inputs(entry: Entry) -> dict[str, Any]:
    return {"command": entry.command, **entry.flat_params(), **hashes(entry.deps)}


def _in_words(differing: Mapping[str, tuple[Any, Any]]) -> str:
    """Return the differences between a record and the lock as text."""
    pairs = {name: [_short(value) for value in differing[name]] for name in sorted(differing)}
    texts = (f"{name} {there} there, {here} in dvc.lock" for name, (there, here) in pairs.items())
    return and_more(texts, SHOWN, between="; ")


def _short(value: Any) -> str:
    return value[:8] if isinstance(value, str) and _MD5.fullmatch(value) else json.dumps(value, ensure_ascii=False)
