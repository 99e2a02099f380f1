"""The tables of the page as plain values: scenarios in their spaces, with published rows, intervals and tests.

Tables 1 and 3 are those of Bordes et al. (2019).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sightword.evaluation.published.rows import published as published_rows
from sightword.evaluation.structure.measures import MEASURES
from sightword.grounded.judging.comparing import Difference
from sightword.grounded.judging.results import RELATED, TRANSFER, Results, over_seeds
from sightword.statistics.bootstrap import ends
from sightword.statistics.inference import (
    clustered_half_width,
    effective_cases,
    interval_ends,
    proportion_interval,
    rank_interval,
)

STRUCTURE = (*MEASURES, *RELATED)
"""The columns of Table 1."""
ACCURACIES = (*TRANSFER, "MRPC_f1", "transfer_mean")
"""The columns of Table 3."""


@dataclass(frozen=True)
class Number:
    """A number of a table, times 100 or in percent."""

    value: float
    low: float | None = None
    """The ends of the 95 % interval of the mean over seeds, over other pictures, pairs or examples; None if unknown."""
    high: float | None = None
    sd: float | None = None
    """The standard deviation over seeds; None for one seed, and where nothing was trained."""
    p: float | None = None
    """After Holm's correction."""
    misprinted: float | None = None
    """A published number that this one corrects."""


@dataclass(frozen=True)
class Numbers:
    """A row of a table."""

    kind: Literal["judged", "space", "centred", "control", "published"]
    """The scenario in the space in which it is judged; in another space; around the mean caption; a control without any
    network; a published row."""
    name: str
    """The scenario, or the published name."""
    detail: str
    """The space, or the source."""
    cells: dict[str, Number] = field(default_factory=dict)
    """By column; a missing cell was not measured."""


def structure_table(
    scenarios: Mapping[str, Sequence[Results]], tests: Sequence[Difference], *, published: bool = True
) -> list[Numbers]:
    """Return the rows of Table 1: each scenario judged, in its other spaces, and centred; tf-idf; published ones."""
    rows = []
    for name, runs in scenarios.items():
        judged, spaces = runs[0].judged, runs[0].metrics["spaces"]
        tested = {test.key: test for test in tests if test.scenario == name}
        rows.append(Numbers("judged", name, judged, _cells(runs, STRUCTURE, judged, tested)))
        rows += [Numbers("space", name, other, _cells(runs, STRUCTURE, other)) for other in spaces if other != judged]
        rows.append(Numbers("centred", name, judged, _cells(runs, STRUCTURE, judged, centred=True)))
    first = next(iter(scenarios.values()))[0]
    floor = {key: Number(100.0 * value) for key in RELATED if (value := first.control(key)) is not None}
    rows += [Numbers("control", "tf-idf", "n-grams of characters", floor)] if floor else []
    return rows + (_published("structure") if published else [])


def transfer_table(
    scenarios: Mapping[str, Sequence[Results]], tests: Sequence[Difference], *, published: bool = True
) -> list[Numbers]:
    """Return the rows of Table 3; empty if no scenario was judged by transfer tasks.

    The published rows have their mean where all of its tasks were judged.
    """
    rows = []
    for name, runs in scenarios.items():
        if runs[0].transfer_space is not None:
            tested = {test.key: test for test in tests if test.scenario == name}
            rows.append(Numbers("judged", name, runs[0].transfer_space, _cells(runs, ACCURACIES, None, tested)))
    if not published or not rows:
        return rows
    others = _published("transfer")
    if not set(TRANSFER).issubset(rows[0].cells):  # a mean of fewer tasks is another measure than the published one
        for row in others:
            del row.cells["transfer_mean"]
    return rows + others


def _cells(
    runs: Sequence[Results],
    keys: Sequence[str],
    space: str | None,
    tests: Mapping[str, Difference] | None = None,
    *,
    centred: bool = False,
) -> dict[str, Number]:
    found = {}
    for key in keys:
        number = over_seeds(runs, [run.score(key, space, centred=centred) for run in runs])
        if number is None:
            continue
        value, deviation = number
        scale, test = 1.0 if key in ACCURACIES else 100.0, (tests or {}).get(key)
        interval = None if centred and key in MEASURES else _interval(runs, key, space, value)
        low, high = (None, None) if interval is None else (scale * end for end in interval)
        found[key] = Number(
            scale * value,
            low,
            high,
            None if deviation is None else scale * deviation,
            None if test is None else test.holm,
        )
    return found


def _interval(runs: Sequence[Results], key: str, space: str | None, value: float) -> Sequence[float] | None:
    """Return the 95 % interval in the unit of the value, of accuracies by the first seed's cases; or None."""
    if key in MEASURES:
        drawn = [run.resamples(key, space) for run in runs]
        return ends(sum(drawn[1:], drawn[0]) / len(drawn)) if len(drawn[0]) else None
    if key in RELATED:
        return rank_interval(value, len(runs[0].pairs(key)))
    if key in TRANSFER:
        return interval_ends(value, proportion_interval(value, effective_cases(runs[0].right(key), runs[0].first(key))))
    if key == "transfer_mean":
        halves = [100.0 * clustered_half_width(runs[0].right(task), runs[0].first(task)) for task in _tasks(runs)]
        half = sum(error**2 for error in halves) ** 0.5 / len(halves)
        return value - half, value + half
    return None


def _tasks(runs: Sequence[Results]) -> list[str]:
    return [task for task in TRANSFER if len(runs[0].right(task))]


def _published(table: str) -> list[Numbers]:
    return [
        Numbers(
            "published",
            row.system,
            row.source,
            {key: Number(value, misprinted=row.misprinted.get(key)) for key, value in row.scores.items()},
        )
        for row in published_rows(table)
    ]
