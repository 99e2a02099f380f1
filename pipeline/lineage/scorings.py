"""Scorings: a stage's entries in the ledger of its pipeline, and the counts of a result's splits."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.lineage import documents
from pipeline.lineage.evidence import RUNS, KnownFacts, scorings_of
from pipeline.lineage.facts import params_files, stage_paths
from pipeline.lineage.lock import within
from pipeline.pipelines import Pipeline, folder_of, full_name, parameter, pipelines, project_of, stage_of
from sightword.errors import LineageError
from sightword.evaluation import ledger
from sightword.evaluation.ledger import Scoring
from sightword.io.files import Pathish, canonical_json, read_text


class Entering:
    """Enters the scorings of a stage in the ledger of its pipeline, below the current folder.

    The ledger also gets the scorings of this pipeline that the facts in the project's ``runs/`` know, such as those of
    experiments that ran in copies of the project.
    """

    def __init__(self, pipeline: Pipeline, entry: str, params: Pathish) -> None:
        self._pipeline, self._entry, self._params = pipeline, entry, params
        self.scorings: list[Scoring] = []
        """The scorings of this run."""

    def __call__(self, scorings: Sequence[Scoring]) -> Sequence[Scoring]:
        """Enter scorings, and return all that the ledger has; a call without any changes nothing."""
        place = Path(self._pipeline.ledger)
        if not scorings:
            return ledger.read(place)
        recipe, stage = recipe_hash(self._entry, self._params), stage_of(self._entry).rpartition(":")[2]
        own = [replace(one, recipe=recipe, stage=stage) for one in scorings]
        self.scorings += own
        runs = Path(os.environ.get("DVC_ROOT") or Path.cwd()) / RUNS
        return ledger.add(place, [*_of_pipeline(KnownFacts([runs]), self._pipeline), *own])


def keep(facts: KnownFacts, project: Path) -> None:
    """Add the scorings of known runs to the ledgers of a project; a ledger without a new one stays as it is."""
    for pipeline in pipelines(project):
        if scorings := _of_pipeline(facts, pipeline):
            ledger.add(project / pipeline.ledger, scorings)


def _of_pipeline(facts: KnownFacts, pipeline: Pipeline) -> list[Scoring]:
    return [one for at, _, one in facts.scorings() if folder_of(at) == pipeline.folder]


def recipe_hash(entry: str, params: Pathish) -> str:
    """Return the hash of the parameters of a stage, in the file ``params``, and of all stages that feed it.

    Raises:
        LineageError: the stage is not in a ``dvc.yaml``, or a file of parameters lacks what a stage reads.
    """
    project = project_of(Path.cwd())
    stages: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {}
    for pipeline in pipelines(project):
        own = pipeline.folder == folder_of(entry)
        if not own and not (project / pipeline.params).is_file():
            continue  # a copy in which one stage runs again has what this stage reads
        values = {pipeline.params: documents.parse(read_text(params if own else project / pipeline.params), params)}
        for address, described in pipeline.runs().items():
            found: dict[str, Any] = {}
            for file, names in params_files(described, pipeline).items():
                if file not in values:
                    values[file] = documents.parse(read_text(project / file), file)
                found |= {full_name(file, name): parameter(values[file], name, None) for name in names}
            try:
                stages[address] = (found, *stage_paths(described, values[pipeline.params]))
            except KeyError as error:
                raise LineageError(f"has no {error.args[0]}, which {address} reads", where=params) from None
    if entry not in stages:
        raise LineageError(f"has no stage {entry}", where="dvc.yaml")
    chain, new = set[str](), {entry}
    while new:
        chain |= new
        deps = [dep for one in new for dep in stages[one][1]]
        new = {name for name, (_, _, outs) in stages.items() if any(_overlap(d, o) for d in deps for o in outs)} - chain
    used: dict[str, Any] = {}
    for one in sorted(chain):
        used |= stages[one][0]
    return hashlib.sha256(canonical_json(used).encode()).hexdigest()[: ledger.DIGITS]


def _overlap(one: str, other: str) -> bool:
    return within(one, other) or within(other, one)


@dataclass(frozen=True)
class Tally:
    """How often a split was scored on which a stage of a chain scored an encoder."""

    stage: str
    split: str
    of: str
    items: int
    rows: str
    """The hash of the split."""
    scorings: int
    encoders: int
    epochs: int
    """The snapshots of single epochs that were scored too."""
    place: int | None
    """The place of the run's scoring among those whose times are known, from 1; None where its time is not known."""
    dated: int
    """The number of scorings whose times are known."""


def tallies(stages: Mapping[str, Mapping[str, Any] | None], project: Path, facts: KnownFacts) -> list[Tally]:
    """Return the counts of the splits that some stages scored, over the ledgers of a project and the known facts.

    ``stages`` has the facts of each stage's run. Without facts, or where they have no scorings, each split counts that
    the ledger has of the stage. A FileFormatError tells of an edited or damaged ledger.
    """
    entered: dict[tuple[str, Scoring], str] = {}  # the earliest known time of each; "" for none
    for pipeline in pipelines(project):
        entered |= {(pipeline.address(one.stage), one): "" for one in ledger.read(project / pipeline.ledger)}
    for at, when, one in sorted(facts.scorings(), key=lambda known: known[1]):
        entered[at, one] = entered.get((at, one)) or when
    found = []
    for entry, run in stages.items():
        address = stage_of(entry)
        told = scorings_of(run) if run else None
        own = told or []
        shown = [one for at, one in entered if at == address] if told is None else told
        for key in dict.fromkeys((one.split, one.of, one.items, one.rows) for one in shown):
            same = {known: when for known, when in entered.items() if (known[1].of, known[1].rows) == (key[1], key[3])}
            encoders = {known: when for known, when in same.items() if known[1].stage != ledger.EPOCHS}
            dates = sorted(filter(None, encoders.values()))
            mine = [encoders.get((address, one), "") for one in own if (one.of, one.rows) == (key[1], key[3])]
            place = 1 + dates.index(mine[0]) if len(mine) == 1 and mine[0] else None
            counted = ledger.count([one for _, one in same], key[1], key[3])
            found.append(Tally(address, *key, len(encoders), counted.encoders, counted.epochs, place, len(dates)))
    return found
