"""Gain in relatedness against concreteness, with a point for each subtask (Bordes et al. 2019, section 5.1).

The paper compares three means; here every subtask of STS is a point, and so is every genre of STS Benchmark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from sightword.grounded.judging.relatedness import BENCHMARK
from sightword.grounded.judging.results import Results
from sightword.statistics.inference import rank_interval, spearman


class Point(NamedTuple):
    """A subtask."""

    name: str
    concreteness: float
    """The mean over pairs of the mean rating of a pair's rated words."""
    gain: float
    """Spearman's correlation with people's scores minus that of the baseline, mean over seeds."""
    genre: bool
    """Whether the subtask is a genre of STS Benchmark."""


class Trend(NamedTuple):
    """Spearman's correlation of concreteness and gain; None where it is undefined."""

    correlation: float | None
    low: float | None
    high: float | None
    points: int


def points(runs: Sequence[Results], baseline: Sequence[Results]) -> list[Point]:
    """Return the subtasks of STS with a rated word, in the order in which they were judged."""
    own, theirs = ([_correlations(run) for run in side] for side in (runs, baseline))
    found = []
    for key, rated in _concreteness(runs[0]).items():
        values = [[one[key] for one in side] for side in (own, theirs)]
        if np.isfinite(rated) and np.isfinite(values[0]).all() and np.isfinite(values[1]).all():
            gain = float(np.mean(values[0]) - np.mean(values[1]))
            found.append(Point(" ".join(key), rated, gain, key[0] == BENCHMARK))
    return found


def trend(found: Sequence[Point]) -> Trend:
    """Return the correlation over points, with its 95 % interval."""
    rho = spearman([one.concreteness for one in found], [one.gain for one in found]) if len(found) > 2 else None
    low, high = (None if rho is None else rank_interval(rho, len(found))) or (None, None)
    return Trend(rho, low, high, len(found))


def _subtasks(run: Results) -> Mapping[tuple[str, str], pd.DataFrame]:
    table = run.tables["relatedness"]
    table = table[(table["space"] == run.judged) & table["task"].str.startswith("STS")]
    parts = table["genre"].where(table["genre"] != "", table["subtask"])
    return {(str(task), str(part)): rows for (task, part), rows in table.groupby([table["task"], parts], sort=False)}


def _correlations(run: Results) -> dict[tuple[str, str], float]:
    found = {}
    for key, rows in _subtasks(run).items():
        rho = spearman(rows["score"], rows["gold"])
        found[key] = float("nan") if rho is None else rho
    return found


def _concreteness(run: Results) -> dict[tuple[str, str], float]:
    return {key: float(rows["concreteness"].mean()) for key, rows in _subtasks(run).items()}
