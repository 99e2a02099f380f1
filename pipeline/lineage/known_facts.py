"""The facts of runs that lie in some folders: found by the entry of a lock, or by what they share with one."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.lineage import facts_schema
from pipeline.lineage.facts_schema import SCHEMA
from pipeline.lineage.lock import Artefact, Entry
from pipeline.pipelines import stage_of
from sightword.evaluation import ledger
from sightword.evaluation.ledger import Scoring
from sightword.machine import current

log = logging.getLogger(__name__)

RUNS = "runs"
"""The folder, in a project and in a store."""
VERSIONS = ("numpy", "torch")
"""The packages that compute."""
SCORINGS = "scorings"
"""The entries of the ledger that a run made; empty where it scored no test split, absent where its stage never does."""

STORED = "stored"
"""The note of a run of the stage features: how many features came from the store."""


class KnownFacts:
    """The facts in some folders. Each file is read once; one line of the log names the unreliable files."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders

    def of(self, entry: Entry) -> dict[str, Any] | None:
        """Return the facts of the run that made an entry, from the first folder that has them; None without any."""
        runs = (facts for _, facts in self._of_stage.get(entry.name, ()) if facts["entry"] == entry.key)
        found = next((facts for facts in runs if facts["outs"] == outs_as_told(entry, facts)), None)
        return found or self._of_entry.get(facts_schema.whole_key(entry))

    def like(self, entry: Entry) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Yield the files and facts of a stage's runs with all inputs or with one of the outputs of an entry."""
        for path, facts in self._of_stage.get(entry.name, ()):
            if facts["entry"] == entry.key or facts["outs"].items() & outs_as_told(entry, facts).items():
                yield path, facts

    def wrote(self, stage: str, path: str, md5: str) -> bool:
        """Return whether a run of a stage wrote an output with a hash."""
        return any(facts["outs"].get(path) == md5 for _, facts in self._of_stage.get(stage, ()))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (facts for _, facts in self._files.values())

    def scorings(self) -> Iterator[tuple[str, str, Scoring]]:
        """Yield each scoring, with the address of the stage and the time at which the run started."""
        for facts in self:
            for one in scorings_of(facts) or ():
                yield stage_of(facts["stage"]), facts["started"], one

    def __bool__(self) -> bool:
        return bool(self._files)

    @functools.cached_property
    def _of_stage(self) -> dict[str, list[tuple[Path, dict[str, Any]]]]:
        """The files and facts of each stage's runs."""
        found: dict[str, list[tuple[Path, dict[str, Any]]]] = {}
        for path, facts in self._files.values():
            if "ran" in facts:
                found.setdefault(facts["stage"], []).append((path, facts))
        return found

    @functools.cached_property
    def _of_entry(self) -> dict[str, dict[str, Any]]:
        """The facts that know no inputs, by the hash of their whole entry."""
        return {facts["entry"]: facts for _, facts in self._files.values() if "ran" not in facts}

    @functools.cached_property
    def _files(self) -> dict[str, tuple[Path, dict[str, Any]]]:
        """The file and the facts by the name of the file."""
        found: dict[str, tuple[Path, dict[str, Any]]] = {}
        unused: dict[str, list[Path]] = {}
        for path in (path for folder in self._folders for path in sorted(folder.glob("*.json"))):
            facts, why = _read(path)
            if facts is not None:
                found.setdefault(path.name, (path, facts))
            else:
                unused.setdefault(why, []).append(path)
        for why, (first, *more) in unused.items():
            log.warning("%s%s: %s", first, f" and {len(more)} more" if more else "", why)
        return found


def scorings_of(facts: Mapping[str, Any]) -> list[Scoring] | None:
    """Return the scorings in the facts of a run; None where the facts tell of none, not even of an empty list."""
    if not isinstance(facts.get(SCORINGS), list):
        return None
    found = []
    for one in facts[SCORINGS]:
        with contextlib.suppress(TypeError):  # edited, or of another version
            found.append(Scoring(**one))
    return list(filter(ledger.is_whole, found))


def _read(path: Path) -> tuple[dict[str, Any] | None, str]:
    """Return the facts in a file, or the reason for which nobody can rely on them."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return None, f"cannot be read ({type(error).__name__})"
    if not isinstance(found, dict) or str(found.get("entry")) != path.name.partition(".")[0]:
        return None, "holds facts of another run"
    schema = found.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        reads = f"schema {schema}, this version reads 1 to {SCHEMA}"
        return None, f"written by a newer version of Sightword ({reads}), so not used: update Sightword"
    with contextlib.suppress(KeyError, TypeError, AttributeError):
        facts = facts_schema.current(found, path.name)
        if facts and isinstance(facts["host"], str) and isinstance(facts["started"], str):
            return facts, ""
    return None, "edited, so not used as facts of runs"


def facts_folders(project: Path) -> list[Path]:
    """Return the folders with the facts of runs: in the project, and in the store that a lab shares."""
    return [project / RUNS, current().local_store / RUNS]


def entry_of(facts: Mapping[str, Any]) -> Entry:
    """Return the entry that a run would have in ``dvc.lock``, without the sizes."""
    ran = facts["ran"]
    deps, outs = (tuple(Artefact(path, md5, None, None) for path, md5 in one.items())
                  for one in (ran["deps"], facts["outs"]))  # fmt: skip
    return Entry(facts["stage"], ran["command"], ran["params"], deps, outs)


def outs_as_told(entry: Entry, facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the hashes of the outputs of an entry by path; the sizes, where older facts have no hashes."""
    sized = {path for path, told in facts["outs"].items() if told.endswith(facts_schema.SIZE)}
    return {out.path: facts_schema.size(out.size, out.files) if out.path in sized else out.md5 for out in entry.outs}


def started(facts: Mapping[str, Any]) -> str:
    """Return the time at which a run started, to the minute."""
    return f"{facts['started'][:16].replace('T', ' ')} UTC"
