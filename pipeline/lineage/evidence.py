"""Whether the entries of a lock ever ran, by the records of runs.

A lock file is plain text: a merge can join the inputs of one run to the outputs of another, and an editor can change a
hash. The files of DVC's run-cache and the facts (:mod:`pipeline.lineage.facts`) are records: each holds the inputs of
one run with its outputs.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipeline.lineage import documents
from pipeline.lineage.cache import Cache
from pipeline.lineage.facts import facts_of, started, unlike
from pipeline.lineage.lock import Artefact, Entry, build_entry, changes, hashes
from sightword.errors import LineageError, SightwordError
from sightword.files import read_text
from sightword.messages import and_more

Verdict = Literal["vouched for", "contradicted", "never seen to run"]
FETCH = "`dvc fetch --run-cache` brings the records that were pushed"
SHOWN = 3
"""Differences that a sentence names before it counts the rest."""
_MD5 = re.compile(r"[0-9a-f]{32}(\.dir)?")


@dataclass(frozen=True)
class Evidence:
    """The verdict of the records on one entry."""

    verdict: Verdict
    why: str = ""
    """The record that vouches or contradicts; of a run that was never seen, a run with the same outputs, or empty."""


class Records:
    """The records of runs in DVC's cache and in folders with facts; their paths are shown from the project's folder."""

    def __init__(self, cache: Cache, facts: Sequence[Path], project: Path) -> None:
        self._cache, self._folders, self._project = cache, facts, project
        self._weighed: dict[tuple[str, tuple[Artefact, ...]], Evidence] = {}

    @property
    def empty(self) -> bool:
        """Whether no run was recorded here, as in a fresh clone."""
        return not self._runs and not any(any(folder.glob("*.json")) for folder in self._folders)

    def weigh(self, entry: Entry) -> Evidence:
        """Return the verdict on an entry of a lock.

        It is ``vouched for`` where a record has these inputs with these outputs; else ``contradicted`` where a record
        has these inputs with other outputs; else ``never seen to run``. Facts hold no hash of most outputs
        (:func:`pipeline.lineage.facts.unlike`), so they decide only where the run-cache has no run with these inputs.
        """
        known = entry.key, entry.outs
        if known not in self._weighed:
            self._weighed[known] = self._weigh(entry)
        return self._weighed[known]

    def _weigh(self, entry: Entry) -> Evidence:
        cached = [
            (source, changes(_inputs(run), _inputs(entry)), changes(hashes(run.outs), hashes(entry.outs)))
            for source, run in self._alike(entry)
        ]
        others = [(source, made) for source, ran, made in cached if not ran]
        for source, made in others:
            if not made:
                return Evidence("vouched for", source)
        for path, facts in facts_of(entry, self._folders) if not others else ():
            if not (found := unlike(facts, entry)):
                return Evidence("vouched for", f"facts of a run on {facts['host']}, {started(facts)}")
            others.append((self._source(path), found))
        if others:
            source, made = others[0]
            return Evidence("contradicted", f"the same inputs gave other outputs in {source}: {_in_words(made)}")
        same = [(source, ran) for source, ran, made in cached if not made]
        if not same:
            return Evidence("never seen to run")
        source, ran = min(same, key=lambda run: len(run[1]))
        return Evidence("never seen to run", f"its outputs are those of another run, {source}: {_in_words(ran)}")

    def _alike(self, entry: Entry) -> Iterator[tuple[str, Entry]]:
        """Yield the runs of the run-cache with all inputs or all outputs of an entry; the others are not parsed."""
        for path, text in self._runs:
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
    def _runs(self) -> list[tuple[Path, str]]:
        found = []
        for path in sorted(self._cache.runs.glob("*/*/*")):
            try:
                found.append((path, read_text(path)))
            except SightwordError:
                continue  # damaged, or another user's
        return found


def _inputs(entry: Entry) -> dict[str, Any]:
    return {"command": entry.command, **entry.flat_params(), **hashes(entry.deps)}


def _in_words(differing: Mapping[str, tuple[Any, Any]]) -> str:
    """Return the differences between a record and the lock as text."""
    pairs = {name: [_short(value) for value in differing[name]] for name in sorted(differing)}
    texts = (f"{name} {there} there, {here} in dvc.lock" for name, (there, here) in pairs.items())
    return and_more(texts, SHOWN, between="; ")


def _short(value: Any) -> str:
    return value[:8] if isinstance(value, str) and _MD5.fullmatch(value) else json.dumps(value, ensure_ascii=False)
