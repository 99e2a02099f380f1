"""Whether the entries of a lock ever ran, by the records of runs.

A lock file is plain text: a merge can join the inputs of one run to the outputs of another, and an editor can change a
hash. Records of runs are the files of DVC's run-cache and the facts (:mod:`pipeline.lineage.facts`): each has the
inputs of one run with its outputs.
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
from pipeline.lineage.facts import facts_of, unlike
from pipeline.lineage.lock import Entry, build_entry
from sightword.errors import LineageError
from sightword.text import and_more

Verdict = Literal["vouched for", "contradicted", "never seen to run"]
FETCH = "`dvc fetch --run-cache` brings the records that were pushed"
SHOWN = 3
"""Differences that a sentence names before it counts the rest."""
_MD5 = re.compile(r"[0-9a-f]{32}(\.dir)?")


@dataclass(frozen=True)
class Evidence:
    """What the records say of one entry."""

    verdict: Verdict
    why: str = ""
    """The record that vouches or contradicts; of a run that was never seen, a run with the same outputs, or empty."""


class Records:
    """The records of runs that are here.

    Args:
        cache: DVC's.
        facts: folders with facts of runs.
        project: the folder from which the path of a record is shown.
    """

    def __init__(self, cache: Cache, facts: Sequence[Path], project: Path) -> None:
        self._cache, self._folders, self._project = cache, facts, project

    @property
    def empty(self) -> bool:
        """Whether no run was recorded here, as in a fresh clone."""
        return not self._runs and not any(any(folder.glob("*.json")) for folder in self._folders)

    def weigh(self, entry: Entry) -> Evidence:
        """Compare an entry of a lock with the records.

        The run-cache has the hash of each output. Facts have less (:func:`pipeline.lineage.facts.unlike`), so they
        decide only where the run-cache has no run with these inputs.

        Returns:
            ``vouched for`` where a record has these inputs with these outputs; else ``contradicted`` where a record has
            these inputs with other outputs; else ``never seen to run``.
        """
        inputs, outs = _inputs(entry), _outs(entry)
        cached = [(source, _inputs(run), _outs(run)) for source, run in self._alike(entry)]
        others = [(source, _differences(made, outs)) for source, ran, made in cached if ran == inputs]
        for source, ran, made in cached:
            if (ran, made) == (inputs, outs):
                return Evidence("vouched for", source)
        for path, facts in facts_of(entry, self._folders) if not others else ():
            found = unlike(facts, entry)
            if not found:
                when = f"{facts['started'][:16].replace('T', ' ')} UTC"
                return Evidence("vouched for", f"facts of a run on {facts['host']}, {when}")
            there, here = ({path: pair[side] for path, pair in found.items()} for side in (0, 1))
            others.append((self._source(path), _differences(there, here)))
        if others:
            source, what = others[0]
            return Evidence("contradicted", f"the same inputs gave other outputs in {source}: {what}")
        same = [(source, ran) for source, ran, made in cached if made == outs]
        if not same:
            return Evidence("never seen to run")
        source, ran = min(same, key=lambda run: len(_unequal(run[1], inputs)))
        why = f"its outputs are those of another run, {source}: {_differences(ran, inputs)}"
        return Evidence("never seen to run", why)

    def _alike(self, entry: Entry) -> Iterator[tuple[str, Entry]]:
        """The runs of the run-cache with all inputs or all outputs of an entry; the others are not parsed."""
        hashes = [dep.md5 for dep in entry.deps], [out.md5 for out in entry.outs]
        for path, text in self._runs:
            if not any(all(md5 in text for md5 in own) for own in hashes):
                continue
            try:
                run = build_entry(entry.name, documents.parse(text, path))
                run.flat_params()
            except (LineageError, ValueError, KeyError, TypeError, AttributeError):
                continue  # damaged, edited, or of another version: no evidence
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
                found.append((path, path.read_text(encoding="utf-8")))
            except (OSError, UnicodeDecodeError):
                continue  # damaged, or another user's: no evidence
        return found


def _inputs(entry: Entry) -> dict[str, Any]:
    return {"command": entry.command, **entry.flat_params(), **{dep.path: dep.md5 for dep in entry.deps}}


def _outs(entry: Entry) -> dict[str, str]:
    return {out.path: out.md5 for out in entry.outs}


def _unequal(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in {*there, *here} if there.get(name) != here.get(name))


def _differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """What differs between a record and the lock, in words."""
    texts = (
        f"{name} {_spelt(there.get(name))} there, {_spelt(here.get(name))} in dvc.lock"
        for name in _unequal(there, here)
    )
    return and_more(texts, SHOWN, between="; ")


def _spelt(value: Any) -> str:
    return value[:8] if isinstance(value, str) and _MD5.fullmatch(value) else json.dumps(value, ensure_ascii=False)
