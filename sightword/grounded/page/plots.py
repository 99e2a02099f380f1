"""The tables that DVC plots and the page draw: measures, curves, gains and points of all scenarios."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sightword.grounded.judging.comparing import Gain
from sightword.grounded.judging.result_tables import ACCURACIES, STRUCTURE, Numbers
from sightword.grounded.judging.results import Results

Scenarios = Mapping[str, Sequence[Results]]
Tables = Mapping[str, Sequence[Numbers]]
Line = tuple[object, ...]


@dataclass(frozen=True)
class Plot:
    """A table of a plot."""

    header: tuple[str, ...]
    rows: Callable[[Scenarios, Tables, Sequence[Gain]], Iterator[Line]]


def _cells(table: str, columns: Sequence[str]) -> Callable[[Scenarios, Tables, Sequence[Gain]], Iterator[Line]]:
    def rows(_: Scenarios, tables: Tables, __: Sequence[Gain]) -> Iterator[Line]:
        for row in tables[table]:
            for column in columns:
                if (cell := row.cells.get(column)) is not None:
                    yield row.name, row.kind, row.detail, column, cell.value, cell.low, cell.high

    return rows


def _curve(scenarios: Scenarios, _: Tables, __: Sequence[Gain]) -> Iterator[Line]:
    for name, runs in scenarios.items():
        for split, values in runs[0].metrics["spaces"][runs[0].judged]["structure"].items():
            for k in values["curve"]:
                own = [run.metrics["spaces"][run.judged]["structure"][split]["curve"][k] for run in runs]
                yield name, split, int(k), 100.0 * float(np.mean(own)), 100.0 * int(k) / (values["pictures"] - 1)


def _gains(scenarios: Scenarios, _: Tables, gained: Sequence[Gain]) -> Iterator[Line]:
    ratings = next(iter(scenarios.values()))[0].metrics.get("concreteness", {})
    for gain in gained:
        for genre, value in gain.genres.items():
            yield gain.scenario, genre, ratings.get(genre, {}).get("mean"), 100.0 * value


def _points(scenarios: Scenarios, _: Tables, __: Sequence[Gain]) -> Iterator[Line]:
    for name, runs in scenarios.items():
        table = runs[0].tables["points"]
        for row in table[table["space"] == runs[0].judged].itertuples():
            yield name, row.group, row.x, row.y


_SCORES = ("scenario", "kind", "space", "measure", "value", "lo", "hi")
PLOTS = {
    "structure": Plot(_SCORES, _cells("structure", STRUCTURE)),
    "transfer": Plot(_SCORES, _cells("transfer", ACCURACIES)),
    "curve": Plot(("scenario", "split", "k", "mnno", "chance"), _curve),
    "gain": Plot(("scenario", "genre", "concreteness", "gain"), _gains),
    "points": Plot(("scenario", "group", "x", "y"), _points),
}
"""By the name of the file: all measures times 100 or in percent."""
