"""What a sweep has to do, in which order: stages that experiments share are run once, before them.

Without that, experiments that start side by side would each run the stages that they share, since none has ended yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.experiments.baseline import Ground, Stage
from pipeline.experiments.plan import Run
from sightword.files import canonical_json


@dataclass(frozen=True)
class Job:
    """A run, or the stages that come before several."""

    name: str
    run: Run
    """The run, or one of those that it comes before."""
    stages: tuple[str, ...] = ()
    """The stages that are shared; none: the whole experiment."""
    makes: frozenset[str] = frozenset()
    """What others wait for: stages, each with what it depends on."""
    needs: frozenset[str] = frozenset()
    """What it waits for, where some job makes it."""


def plan(runs: Sequence[Run], ground: Ground, *, sweep: str, side_by_side: bool) -> list[Job]:
    """The jobs of some runs: first what they share, then each.

    Args:
        runs: what is to be run.
        ground: whose stages they go through.
        sweep: its name, which the names of shared jobs begin with.
        side_by_side: more than one job runs at a time; else each finds what the one before has left.
    """
    if not side_by_side or len(runs) < 2:
        return [Job(run.name, run) for run in runs]
    keys = [_keys(run, ground.stages(run.params)) for run in runs]
    shared = {key for key, count in Counter(key for own in keys for key in own.values()).items() if count > 1}
    first: list[Job] = []
    made: set[str] = set()
    for run, own in zip(runs, keys, strict=True):
        mine = {stage: key for stage, key in own.items() if key in shared}
        new = {stage: key for stage, key in mine.items() if key not in made}
        if new:
            name = f"{sweep}.shared-{len(first) + 1}"
            needs = frozenset(mine.values()) & made
            first.append(Job(name, run, tuple(new), frozenset(new.values()), needs))
            made |= set(new.values())
    return first + [
        Job(run.name, run, needs=frozenset(own.values()) & made) for run, own in zip(runs, keys, strict=True)
    ]


def _keys(run: Run, stages: Mapping[str, Stage]) -> dict[str, str]:
    """For each stage all that its result depends on within a sweep: the parameters of it and of those before it."""
    before = {
        name: {other for other, theirs in stages.items() if other != name and _feeds(theirs, stage)}
        for name, stage in stages.items()
    }
    found = {}
    for name in stages:
        chain, new = set[str](), {name}
        while new:
            chain |= new
            new = {other for one in new for other in before[one]} - chain
        sections = sorted({section.split(".")[0] for one in chain for section in stages[one].sections})
        values = {section: run.params.get(section) for section in sections}
        paths = [stages[one].deps + stages[one].outs for one in sorted(chain)]
        found[name] = f"{name} {canonical_json([values, paths])}"
    return found


def _feeds(one: Stage, other: Stage) -> bool:
    """Whether the other reads what one writes."""
    return any(
        dep == out or dep.startswith(f"{out}/") or out.startswith(f"{dep}/") for out in one.outs for dep in other.deps
    )
