"""The jobs of a sweep, in order: stages that several experiments share run once, before the experiments.

Otherwise experiments that start side by side would each run the shared stages, since none has ended yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.experiments.baseline import Baseline, Stage
from pipeline.experiments.plan import Trial
from pipeline.pipelines import parameter
from sightword.io.files import canonical_json


@dataclass(frozen=True)
class Job:
    """A run, or stages that several runs share."""

    name: str
    run: Trial
    """The run, or one of the runs that share the stages."""
    stages: tuple[str, ...] = ()
    """The shared stages; empty for a whole experiment."""
    makes: frozenset[str] = frozenset()
    """The shared stages, each with all that it depends on, for which other jobs wait."""
    needs: frozenset[str] = frozenset()
    """The shared stages that must have run before."""


def plan(runs: Sequence[Trial], baseline: Baseline, *, sweep: str, side_by_side: bool) -> list[Job]:
    """Return the jobs of some runs: first the shared stages, named after the sweep, then each run.

    Where jobs do not run ``side_by_side``, each run finds the results of earlier ones by itself.
    """
    if not side_by_side or len(runs) < 2:
        return [Job(run.name, run) for run in runs]
    keys = [_keys(run, baseline.stages(run.params)) for run in runs]
    counts = Counter(key for own in keys for key in own.values())
    first: list[Job] = []
    made: set[str] = set()
    for run, own in zip(runs, keys, strict=True):
        shared = {stage: key for stage, key in own.items() if counts[key] > 1}
        if new := {stage: key for stage, key in shared.items() if key not in made}:
            name, needs = f"{sweep}.shared-{len(first) + 1}", frozenset(shared.values()) & made
            first.append(Job(name, run, tuple(new), frozenset(new.values()), needs))
            made |= set(new.values())
    needs_of = (frozenset(own.values()) & made for own in keys)
    return first + [Job(run.name, run, needs=needs) for run, needs in zip(runs, needs_of, strict=True)]


def _keys(run: Trial, stages: Mapping[str, Stage]) -> dict[str, str]:
    """Return for each stage all that its result depends on in a sweep: parameters of the stage and of earlier ones."""
    before = {
        name: {other for other, theirs in stages.items() if other != name and theirs.feeds(stage)}
        for name, stage in stages.items()
    }
    found = {}
    for name in stages:
        chain, new = set[str](), {name}
        while new:
            chain |= new
            new = {other for one in new for other in before[one]} - chain
        sections = sorted({section for one in chain for section in stages[one].sections})
        values = {section: parameter(run.params, section, None) for section in sections}
        paths = [stages[one].deps + stages[one].outs for one in sorted(chain)]
        found[name] = f"{name} {canonical_json([values, paths])}"
    return found
