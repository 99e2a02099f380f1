"""Scenarios beside each other: paired tests of their differences, gains by concreteness, and the rows of the tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightword.evaluation.structure import MEASURES
from sightword.grounded.judging.results import RELATED, TRANSFER, Results, over_seeds
from sightword.statistics.bootstrap import ends, resampled_spearman
from sightword.statistics.inference import (
    clustered_half_width,
    effective_cases,
    holm,
    interval_ends,
    mcnemar,
    mean_ranks,
    proportion_interval,
    rank_interval,
    spearman,
)

Doubles = NDArray[np.float64]
Scenarios = Mapping[str, Sequence[Results]]

_ROUNDING = 1e-12
STRUCTURE = (*MEASURES, *RELATED)
"""The columns of Table 1."""
ACCURACIES = (*TRANSFER, "MRPC_f1", "transfer_mean")
"""The columns of Table 3."""


class Difference(NamedTuple):
    """The difference of a scenario from the baseline in one measure."""

    scenario: str
    key: str
    difference: float
    """In the unit of the measure: a fraction, of means over seeds; for transfer tasks percent, of the first seed."""
    low: float | None
    """The lower end of the 95 % interval; None for McNemar's test."""
    high: float | None
    p: float
    """Two-sided."""
    holm: float
    """p after Holm's correction over all tests: of all scenarios, measures and tasks."""


def compare(scenarios: Scenarios, baseline: str, *, resamples: int = 1000, seed: int = 0) -> list[Difference]:
    """Compare every scenario with the baseline in its judged space.

    Structure: bootstrap over pictures, by the stage evaluate; relatedness: bootstrap over pairs; transfer tasks:
    McNemar's test of the first seed's examples, those with one first sentence together. A bootstrapped difference is
    that of means over seeds, on the same draws; its p is that of the normal distribution with the bootstrap's standard
    error, since corrected p-values are smaller than resamples can count. Seeds are no part of the error: the tests are
    about these encoders, on other pictures and pairs. A measure that a scenario lacks has no test.
    """
    base, found = scenarios[baseline], []
    for name, runs in scenarios.items():
        if name != baseline:
            found += _structure(runs, base) + _related(runs, base, resamples, seed) + _transfer(runs[0], base[0])
    corrected = holm([test.p for test in found])
    return [test._replace(holm=after) for test, after in zip(found, corrected, strict=True)]


def _structure(runs: Sequence[Results], base: Sequence[Results]) -> list[Difference]:
    found: list[Difference | None] = []
    for key in MEASURES:
        own, theirs = ([run.score(key) for run in side] for side in (runs, base))
        drawn = [np.mean([run.resamples(key) for run in side], axis=0) for side in (runs, base)]
        if None not in own and None not in theirs and len(drawn[0]):
            found.append(_bootstrapped(runs[0].scenario, key, _mean(own) - _mean(theirs), drawn[0] - drawn[1]))
    return [test for test in found if test is not None]


def _related(runs: Sequence[Results], base: Sequence[Results], resamples: int, seed: int) -> list[Difference]:
    found: list[Difference | None] = []
    for key in RELATED:
        own, theirs = ([run.score(key) for run in side] for side in (runs, base))
        if None in own or None in theirs:
            continue
        gold = runs[0].pairs(key)["gold"].to_numpy(dtype=float)
        scores = np.array([run.pairs(key)["score"].to_numpy(dtype=float) for run in (*runs, *base)])
        drawn = resampled_spearman(gold, scores, samples=resamples, seed=seed, name=key)
        differences = drawn[: len(runs)].mean(axis=0) - drawn[len(runs) :].mean(axis=0)
        found.append(_bootstrapped(runs[0].scenario, key, _mean(own) - _mean(theirs), differences))
    return [test for test in found if test is not None]


def _transfer(run: Results, base: Results) -> list[Difference]:
    found = []
    for task in TRANSFER:
        own, theirs = run.right(task), base.right(task)
        if len(own) and len(theirs):
            only, other, p = mcnemar(own, theirs, run.first(task))
            found.append(Difference(run.scenario, task, 100.0 * (only - other) / len(own), None, None, p, p))
    return found


def _bootstrapped(scenario: str, key: str, difference: float, resampled: Doubles) -> Difference | None:
    """Return the test of a difference from its resamples; None if they are mostly undefined."""
    interval = ends(resampled)
    if interval is None:
        return None
    error = float(np.nanstd(resampled, ddof=1))
    if error > _ROUNDING:
        p = math.erfc(abs(difference) / error / math.sqrt(2.0))
    else:
        p = 1.0 if abs(difference) < _ROUNDING else 0.0
    return Difference(scenario, key, difference, interval[0], interval[1], p, p)


def _mean(values: Sequence[float | None]) -> float:
    return float(np.mean([value for value in values if value is not None]))


class Gain(NamedTuple):
    """Concreteness of the pairs of STS Benchmark beside a scenario's gain over the baseline."""

    scenario: str
    correlation: float | None
    """Spearman's, over pairs with a rated word, of the pair's mean rating and the gain: by how much the scenario's rank
    of the pair is nearer to people's than the baseline's, as a share of the pairs; the mean over seeds."""
    low: float | None
    high: float | None
    pairs: int
    genres: dict[str, float]
    """By genre the difference of Spearman's correlations with people's scores."""


def gains(scenarios: Scenarios, baseline: str) -> list[Gain]:
    """Return the gain of every other scenario; empty without ratings or without STS Benchmark."""
    base, found = scenarios[baseline], []
    for name, runs in scenarios.items():
        pairs = runs[0].pairs("stsb")
        ratings = pairs["concreteness"].to_numpy(dtype=float)
        rated = ~np.isnan(ratings)
        if name == baseline or not rated.any():
            continue
        gain = _distance(base) - _distance(runs)
        rho = spearman(ratings[rated], gain[rated])
        interval = None if rho is None else rank_interval(rho, int(rated.sum()))
        genres = {}
        for genre in dict.fromkeys(pairs["genre"]):
            own, theirs = ([run.score(f"stsb_{genre}") for run in side] for side in (runs, base))
            if None not in own and None not in theirs:
                genres[str(genre)] = _mean(own) - _mean(theirs)
        low, high = interval or (None, None)
        found.append(Gain(name, rho, low, high, int(rated.sum()), genres))
    return found


def _distance(runs: Sequence[Results]) -> Doubles:
    """Return the (N,) mean distance of a pair's rank from people's rank, as a share of the pairs."""
    found = []
    for run in runs:
        pairs = run.pairs("stsb")
        found.append(np.abs(mean_ranks(pairs["score"]) - mean_ranks(pairs["gold"])) / len(pairs))
    mean: Doubles = np.mean(found, axis=0)
    return mean


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


@dataclass(frozen=True)
class Numbers:
    """A row of a table."""

    kind: Literal["judged", "space", "centred", "control"]
    """The scenario in the space in which it is judged; in another space; around the mean caption; a control without any
    network."""
    name: str
    """The scenario, or the control."""
    detail: str
    """The space, or a few words."""
    cells: dict[str, Number] = field(default_factory=dict)
    """By column; a missing cell was not measured."""


def structure_table(scenarios: Scenarios, tests: Sequence[Difference]) -> list[Numbers]:
    """Return the rows of Table 1 (Bordes et al. 2019): each scenario judged, in other spaces, and centred; tf-idf."""
    rows = []
    for name, runs in scenarios.items():
        judged, spaces = runs[0].judged, runs[0].metrics["spaces"]
        tested = {test.key: test for test in tests if test.scenario == name}
        rows.append(Numbers("judged", name, judged, _cells(runs, STRUCTURE, judged, tested)))
        rows += [Numbers("space", name, other, _cells(runs, STRUCTURE, other)) for other in spaces if other != judged]
        rows.append(Numbers("centred", name, judged, _cells(runs, STRUCTURE, judged, centred=True)))
    first = next(iter(scenarios.values()))[0]
    floor = {key: Number(100.0 * value) for key in RELATED if (value := first.control(key)) is not None}
    return rows + ([Numbers("control", "tf-idf", "n-grams of characters", floor)] if floor else [])


def transfer_table(scenarios: Scenarios, tests: Sequence[Difference]) -> list[Numbers]:
    """Return the rows of Table 3; empty if no scenario was judged by transfer tasks."""
    rows = []
    for name, runs in scenarios.items():
        if runs[0].transfer:
            tested = {test.key: test for test in tests if test.scenario == name}
            rows.append(Numbers("judged", name, "sentence", _cells(runs, ACCURACIES, None, tested)))
    return rows


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
        tasks = [task for task in TRANSFER if len(runs[0].right(task))]
        halves = [100.0 * clustered_half_width(runs[0].right(task), runs[0].first(task)) for task in tasks]
        half = sum(error**2 for error in halves) ** 0.5 / len(halves)
        return value - half, value + half
    return None
