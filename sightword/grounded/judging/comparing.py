"""Paired comparisons of scenarios: bootstraps over pictures and sentence pairs, McNemar's test of transfer tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightword.evaluation.structure.measures import MEASURES
from sightword.grounded.judging.results import RELATED, TRANSFER, Results
from sightword.statistics.bootstrap import ends, resampled_spearman
from sightword.statistics.inference import holm, mcnemar, mean_ranks, rank_interval, spearman

Doubles = NDArray[np.float64]

_ROUNDING = 1e-12


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


def compare(
    scenarios: Mapping[str, Sequence[Results]], baseline: str, *, resamples: int = 1000, seed: int = 0
) -> list[Difference]:
    """Compare every scenario with the baseline in its judged space.

    The measures are those of structure (bootstrap over pictures, by the stage evaluate), of relatedness (bootstrap over
    pairs) and the transfer tasks (McNemar's test of the first seed's test examples; examples with one first sentence
    count together). A bootstrapped difference is that of the means over seeds, on the same draws for all scenarios and
    seeds. Its p is that of the normal distribution with the bootstrap's standard error, since corrected p-values are
    smaller than resamples can count. Seeds are no part of the error: the tests are about these encoders, on other
    pictures and pairs. A measure that a scenario lacks has no test.
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


def gains(scenarios: Mapping[str, Sequence[Results]], baseline: str) -> list[Gain]:
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
