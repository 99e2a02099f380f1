"""Whether the entries of a lock ever ran, by the records of runs.

A lock file is plain text: a merge can join the inputs of one run to the outputs of another, and an editor can change a
hash. Records of runs are the facts (:mod:`pipeline.lineage.facts`) and the files of DVC's run-cache: each has the
inputs of one run with its outputs.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipeline.lineage import documents
from pipeline.lineage.cache import Cache
from pipeline.lineage.lock import Artefact, Entry, build_entry
from sightword.errors import LineageError

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


@dataclass(frozen=True)
class _Record:
    source: str
    inputs: dict[str, Any]
    outs: dict[str, str]


class Records:
    """The records of runs that are here.

    Args:
        cache: DVC's.
        facts: folders with facts of runs.
        project: the folder that a record's path is told from.
    """

    def __init__(self, cache: Cache, facts: Sequence[Path], project: Path) -> None:
        self._cache, self._folders, self._project = cache, facts, project

    @property
    def empty(self) -> bool:
        """Whether no run was recorded here, as in a fresh clone."""
        return not (self._runs or self._facts)

    def weigh(self, entry: Entry, run: Mapping[str, Any] | None) -> Evidence:
        """Compare an entry with the records.

        Args:
            entry: of a lock.
            run: the facts that are filed under its key; None where there are none.

        Returns:
            ``vouched for`` where a record has these inputs with these outputs; else ``contradicted`` where a record has
            these inputs with other outputs; else ``never seen to run``.
        """
        if run is not None:  # a lab's store may hold thousands of others: they are not read
            return Evidence(
                "vouched for", f"facts of a run on {run['host']}, {run['started'][:16].replace('T', ' ')} UTC"
            )
        inputs, outs = _inputs(entry), _outs(entry)
        cached = list(self._alike(entry, self._runs))
        for record in cached:
            if (record.inputs, record.outs) == (inputs, outs):
                return Evidence("vouched for", record.source)
        records = [*self._alike(entry, self._facts), *cached]
        for record in records:
            if record.inputs == inputs:
                others = _differences(record.outs, outs)
                return Evidence("contradicted", f"the same inputs gave other outputs in {record.source}: {others}")
        same = [record for record in records if record.outs == outs]
        if not same:
            return Evidence("never seen to run")
        nearest = min(same, key=lambda record: len(_unequal(record.inputs, inputs)))
        named = _differences(nearest.inputs, inputs)
        return Evidence("never seen to run", f"its outputs are those of another run, {nearest.source}: {named}")

    def _alike(self, entry: Entry, texts: Sequence[tuple[Path, str]]) -> Iterator[_Record]:
        """The records with the hashes of all inputs or of all outputs of an entry: the others are not parsed."""
        hashes = [dep.md5 for dep in entry.deps], [out.md5 for out in entry.outs]
        for path, text in texts:
            if not any(all(md5 in text for md5 in own) for own in hashes):
                continue
            try:
                found = (
                    _from_facts(text, path.stem)
                    if path.suffix == ".json"
                    else build_entry(entry.name, documents.parse(text, path))
                )
                record = _Record(self._source(path), _inputs(found), _outs(found))
            except (LineageError, ValueError, KeyError, TypeError, AttributeError):
                continue  # damaged, edited, or of another version: no evidence
            yield record

    def _source(self, path: Path) -> str:
        shown = path.relative_to(self._project) if path.is_relative_to(self._project) else path
        if path.suffix == ".json":
            return f"{shown.parent}/{path.stem[:8]}*.json"
        return f"{shown.parent.parent}/{path.parent.name[:8]}*/{path.name[:8]}*"

    @functools.cached_property
    def _runs(self) -> list[tuple[Path, str]]:
        return _texts(self._cache.runs.glob("*/*/*"))

    @functools.cached_property
    def _facts(self) -> list[tuple[Path, str]]:
        return _texts(path for folder in self._folders for path in folder.glob("*.json"))


def _texts(paths: Iterable[Path]) -> list[tuple[Path, str]]:
    found = []
    for path in sorted(paths):
        try:
            found.append((path, path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError):
            continue  # damaged, or another user's: no evidence
    return found


def _from_facts(text: str, key: str) -> Entry:
    """The entry that facts are of.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it is not the one with this key.
    """
    values = json.loads(text)
    ran = values["ran"]
    deps, outs = (
        tuple(Artefact(path, md5, None, None) for path, md5 in ran[kind].items()) for kind in ("deps", "outs")
    )
    entry = Entry(values["stage"], ran["command"], ran["params"], deps, outs)
    if entry.key != key:
        raise ValueError("facts of another run")
    return entry


def _inputs(entry: Entry) -> dict[str, Any]:
    return {"command": entry.command, **entry.flat_params(), **{dep.path: dep.md5 for dep in entry.deps}}


def _outs(entry: Entry) -> dict[str, str]:
    return {out.path: out.md5 for out in entry.outs}


def _unequal(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in {*there, *here} if there.get(name) != here.get(name))


def _differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """What differs between a record and the lock, in words."""
    names = _unequal(there, here)
    told = [f"{name} {_spelt(there.get(name))} there, {_spelt(here.get(name))} in dvc.lock" for name in names[:SHOWN]]
    return "; ".join(told) + (f"; and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _spelt(value: Any) -> str:
    return value[:8] if isinstance(value, str) and _MD5.fullmatch(value) else json.dumps(value, ensure_ascii=False)
