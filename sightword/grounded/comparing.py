"""The results of all scenarios and seeds, their summary, paired tests of scenarios, gains by concreteness, and the rows
of the tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sightword.errors import ReportError
from sightword.evaluation.structure import MEASURES
from sightword.grounded.judging.measuring import AGAIN, BENCHMARK, FORMAT
from sightword.grounded.judging.settings import TRANSFER
from sightword.io.files import Pathish, read_table
from sightword.io.saved import entry
from sightword.messages import quote
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

TABLES = {
    "structure": ("space", "split", "resample", *MEASURES),
    "relatedness": (
        *("space", "task", "subtask", "genre", "pair", "gold", "score", "centred", "concreteness", "seen"),
    ),
    "transfer": ("space", "task", "example", "first", "right"),
    "neighbours": ("space", "query", "rank", "sentence", "image_id", "cosine"),
}
GENRES = ("captions", "news", "forums")
RELATED = ("stsb", *(f"stsb_{genre}" for genre in GENRES), "sick")
"""Spearman's correlations of the tables."""
KEYS = (*MEASURES, *RELATED, "transfer_mean")
"""The measures of the summary."""
_ROUNDING = 1e-12
STRUCTURE = (*MEASURES, *RELATED)
"""The columns of Table 1."""
ACCURACIES = (*TRANSFER, "MRPC_f1", "transfer_mean")
"""The columns of Table 3."""


Doubles = NDArray[np.float64]


def _entry(entries: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the entry of a key of :data:`RELATED` among those of all tasks; empty without one."""
    if key == "sick":
        return dict(entries.get("SICKRelatedness", {}))
    return dict(entries.get(BENCHMARK, {}).get(key.removeprefix("stsb").removeprefix("_") or "all", {}))


@dataclass(frozen=True, eq=False)
class Results:
    """One encoder's results."""

    scenario: str
    seed: int
    metrics: dict[str, Any]
    tables: dict[str, pd.DataFrame]

    @property
    def judged(self) -> str:
        """The space in which the scenario is judged."""
        return str(self.metrics["judged"])

    @property
    def split(self) -> str:
        """The split of the tables."""
        return str(next(iter(self.metrics["spaces"][self.judged]["structure"])))

    @property
    def transfer(self) -> dict[str, Any]:
        """The entries of the transfer tasks, in the space ``sentence``; empty without tasks."""
        return dict(self.metrics["spaces"]["sentence"].get("transfer", {}))

    def score(self, key: str, space: str | None = None, *, centred: bool = False) -> float | None:
        """Return a measure of :data:`KEYS`, or the accuracy of a transfer task; None if the run does not have it.

        Structure and correlations are fractions, accuracies percent. ``space`` is the judged one by default.
        """
        if key == "transfer_mean" or key.removesuffix("_f1") in TRANSFER:
            return self._transfer(key)
        if key in MEASURES:
            value = self._space(space, centred)["structure"][self.split][key]
        else:
            value = self.related(key, space, centred=centred).get("spearman")
        return None if value is None else float(value)

    def related(self, key: str, space: str | None = None, *, centred: bool = False) -> dict[str, Any]:
        """Return the entry of a key of :data:`RELATED` in the metrics; empty if the run was not judged by it."""
        return _entry(self._space(space, centred)["relatedness"], key)

    def control(self, key: str) -> float | None:
        """Return Spearman's correlation of a key of :data:`RELATED` by tf-idf; None if the run has none."""
        value = _entry(self.metrics.get("controls", {}).get("tfidf", {}), key).get("spearman")
        return None if value is None else float(value)

    def _space(self, space: str | None, centred: bool) -> dict[str, Any]:
        one: dict[str, Any] = self.metrics["spaces"][space or self.judged]
        return dict(one["centred"]) if centred else one

    def _transfer(self, key: str) -> float | None:
        entries = self.transfer
        if key == "transfer_mean":
            accuracies = [entries[task]["accuracy"] for task in TRANSFER if task in entries]
            return float(np.mean(accuracies)) if accuracies else None
        task, _, f1 = key.partition("_")
        value = entries.get(task, {}).get(f1 or "accuracy")
        return None if value is None else float(value)

    def pairs(self, key: str, space: str | None = None) -> pd.DataFrame:
        """Return the rows of ``relatedness.parquet`` behind a key of :data:`RELATED`."""
        table = self.tables["relatedness"]
        table = table[table["space"] == (space or self.judged)]
        if key == "sick":
            return table[table["task"] == "SICKRelatedness"]
        table = table[table["task"] == BENCHMARK]
        genre = key.removeprefix("stsb").removeprefix("_")
        return table[table["genre"] == genre] if genre else table

    def resamples(self, key: str, space: str | None = None) -> NDArray[np.float64]:
        """Return the (R,) values of a measure of structure under resampling of pictures; empty without resamples."""
        table = self.tables["structure"]
        chosen = table[(table["space"] == (space or self.judged)) & (table["split"] == self.split)]
        return chosen[key].to_numpy(dtype=np.float64)

    def right(self, task: str) -> NDArray[np.bool_]:
        """Return which examples of a transfer task are right; empty without the task."""
        return self._tested(task)["right"].to_numpy(dtype=bool)

    def first(self, task: str) -> NDArray[np.int64]:
        """Return the number of the first sentence of each example of a transfer task; empty without the task."""
        return self._tested(task)["first"].to_numpy(dtype=np.int64)

    def _tested(self, task: str) -> pd.DataFrame:
        table = self.tables["transfer"]
        return table[table["task"] == task]


def read_runs(folder: Pathish, scenarios: Sequence[str], seeds: Sequence[int]) -> dict[str, list[Results]]:
    """Read the results of each scenario in ``data/grounded``, with one run for each seed; FileFormatError if a file is
    damaged, ReportError if there is no scenario, or two runs were judged on other pictures, pairs or examples.
    """
    if not scenarios or not seeds:
        raise ReportError("no scenario was run", where="train.run and train.seeds", expected="at least one of each")
    by_scenario = {name: [_read(Path(folder), name, seed) for seed in seeds] for name in scenarios}
    first, *others = [run for runs in by_scenario.values() for run in runs]
    for run in others:
        if what := differing_material(run, first):
            where = f"{folder}/{run.scenario}-{run.seed}"
            raise ReportError(f"was judged on other {what} than {first.scenario}-{first.seed}", where=where, todo=AGAIN)
    return by_scenario


def _read(folder: Path, scenario: str, seed: int) -> Results:
    place = folder / f"{scenario}-{seed}"
    metrics, names = FORMAT.read(place)
    FORMAT.require(names, *(f"{name}.parquet" for name in TABLES), where=place)
    with FORMAT.checked(place / FORMAT.description):
        if entry(metrics, "judged", str) not in entry(metrics, "spaces", dict):
            raise ValueError(f"spaces lacks {quote(metrics['judged'])}")
    tables = {
        name: read_table(place / f"{name}.parquet", columns, todo=AGAIN).to_pandas() for name, columns in TABLES.items()
    }
    return Results(scenario, seed, metrics, tables)


def differing_material(run: Results, other: Results) -> str | None:
    """Return what two runs were judged on that is not the same; None if their scores can be compared."""

    def of(one: Results) -> dict[str, object]:
        structure = one.metrics["spaces"][one.judged]["structure"]
        pairs = one.pairs("stsb"), one.pairs("sick")
        rights = {task: len(one.right(task)) for task in TRANSFER}
        return {
            "pictures": {split: (values["pictures"], values["captions"]) for split, values in structure.items()},
            "numbers of resamples": len(one.resamples(MEASURES[0])),
            "numbers of neighbours": {split: values["k"] for split, values in structure.items()},
            "settings, pictures or features": one.metrics.get("judge"),
            "sentence pairs": [table["gold"].tolist() for table in pairs],
            "test examples": rights,
        }

    own, theirs = of(run), of(other)
    return next((name for name in own if own[name] != theirs[name]), None)


def over_seeds(runs: Sequence[Results], values: Sequence[float | None]) -> tuple[float, float | None] | None:
    """Return the mean and the standard deviation (of a sample) of the runs' values; None if a value is undefined.

    The deviation is None for one seed, and where all seeds have the same results throughout: nothing was trained.
    """
    numbers = [value for value in values if value is not None]
    if len(numbers) < len(values) or not numbers:
        return None
    varies = any(run.metrics["spaces"] != runs[0].metrics["spaces"] for run in runs)
    return float(np.mean(numbers)), float(np.std(numbers, ddof=1)) if varies else None


def summary(scenarios: Mapping[str, Sequence[Results]]) -> dict[str, float]:
    """Return the content of ``metrics/grounded/summary.json``: the measures of :data:`KEYS` in the judged space.

    The keys are ``SCENARIO.MEASURE``, and of a trained scenario with several seeds ``SCENARIO.MEASURE_sd``. Structure
    and correlations are fractions, accuracies percent. A measure that is undefined or was not judged has no key.
    """
    scores = {}
    for name, runs in scenarios.items():
        for key in KEYS:
            if (number := over_seeds(runs, [run.score(key) for run in runs])) is not None:
                mean, deviation = number
                scores[f"{name}.{key}"] = round(mean, 6)
                if deviation is not None:
                    scores[f"{name}.{key}_sd"] = round(deviation, 6)
    return scores


Scenarios = Mapping[str, Sequence[Results]]


class Difference(NamedTuple):
    """The difference of a scenario from the baseline in one measure."""

    scenario: str
    key: str
    difference: float
    """In the unit of the measure: a fraction, of means over seeds; for transfer tasks percent, of the first seed."""
    low: float | None  # the lower end of the 95 % interval; None for McNemar's test
    high: float | None
    p: float  # two-sided
    holm: float  # p after Holm's correction over all tests: of all scenarios, measures and tasks


def compare(scenarios: Scenarios, baseline: str, *, resamples: int = 1000, seed: int = 0) -> list[Difference]:
    """Compare every scenario with the baseline in its judged space.

    Structure: bootstrap over pictures, by the stage evaluate; relatedness: bootstrap over pairs; transfer tasks:
    McNemar's test of the first seed's examples, those with one first sentence together. Bootstrapped
    differences compare means over seeds on the same draws; their p comes from the normal distribution with the
    bootstrap's standard error, since corrected p-values are smaller than resamples can count. The error leaves out
    seeds: the tests are about these encoders, on other pictures and pairs. A measure that a scenario lacks has no test.
    """
    base, tests = scenarios[baseline], []
    for name, runs in scenarios.items():
        if name != baseline:
            tests += [*_bootstrapped(runs, base, resamples, seed), *_transfer(runs[0], base[0])]
    corrected = holm([test.p for test in tests])
    return [test._replace(holm=after) for test, after in zip(tests, corrected, strict=True)]


def _bootstrapped(runs: Sequence[Results], base: Sequence[Results], resamples: int, seed: int) -> Iterator[Difference]:
    """Yield the tests of structure and relatedness, but those whose resamples are mostly undefined."""
    for key in (*MEASURES, *RELATED):
        ours, theirs = ([run.score(key) for run in side] for side in (runs, base))
        if None in ours or None in theirs:
            continue
        if key in MEASURES:
            drawn = np.array([run.resamples(key) for run in (*runs, *base)])
        else:
            gold = runs[0].pairs(key)["gold"].to_numpy(dtype=float)
            scores = np.array([run.pairs(key)["score"].to_numpy(dtype=float) for run in (*runs, *base)])
            drawn = resampled_spearman(gold, scores, samples=resamples, seed=seed, name=key)
        differences = drawn[: len(runs)].mean(axis=0) - drawn[len(runs) :].mean(axis=0)
        if not len(differences) or (interval := ends(differences)) is None:
            continue
        difference, error = _mean(ours) - _mean(theirs), float(np.nanstd(differences, ddof=1))
        if error > _ROUNDING:
            p = math.erfc(abs(difference) / error / math.sqrt(2.0))
        else:
            p = 1.0 if abs(difference) < _ROUNDING else 0.0
        yield Difference(runs[0].scenario, key, difference, interval[0], interval[1], p, p)


def _transfer(run: Results, base: Results) -> Iterator[Difference]:
    for task in TRANSFER:
        ours, theirs = run.right(task), base.right(task)
        if len(ours) and len(theirs):
            only, other, p = mcnemar(ours, theirs, run.first(task))
            yield Difference(run.scenario, task, 100.0 * (only - other) / len(ours), None, None, p, p)


def _mean(values: Sequence[float | None]) -> float:
    return float(np.mean([value for value in values if value is not None]))


class Gain(NamedTuple):
    """Concreteness of STS Benchmark's pairs against a scenario's gain over the baseline."""

    scenario: str
    correlation: float | None
    """Spearman's, over pairs with a rated word, of the pair's mean rating and the gain: by how much the scenario's rank
    of the pair is nearer to people's rank than the baseline's is; the mean over seeds."""
    low: float | None
    high: float | None
    pairs: int


def gains(scenarios: Scenarios, baseline: str) -> list[Gain]:
    """Return the gain of every other scenario; empty without ratings or without STS Benchmark."""
    base, gained = scenarios[baseline], []
    for name, runs in scenarios.items():
        pairs = runs[0].pairs("stsb")
        ratings = pairs["concreteness"].to_numpy(dtype=float)
        rated = ~np.isnan(ratings)
        if name == baseline or not rated.any():
            continue
        gain = _distance(base) - _distance(runs)
        rho = spearman(ratings[rated], gain[rated])
        interval = None if rho is None else rank_interval(rho, int(rated.sum()))
        low, high = interval or (None, None)
        gained.append(Gain(name, rho, low, high, int(rated.sum())))
    return gained


def _distance(runs: Sequence[Results]) -> Doubles:
    """Return the (N,) mean distance of a pair's rank from people's rank, as a share of the pairs."""
    every = [run.pairs("stsb") for run in runs]
    shares = [np.abs(mean_ranks(pairs["score"]) - mean_ranks(pairs["gold"])) / len(pairs) for pairs in every]
    mean: Doubles = np.mean(shares, axis=0)
    return mean


@dataclass(frozen=True)
class Number:
    """A number of a table, times 100 or in percent."""

    value: float
    low: float | None = None
    """The ends of the 95 % interval of the mean over seeds, over other pictures, pairs or examples; None if unknown."""
    high: float | None = None
    sd: float | None = None  # the standard deviation over seeds; None for one seed, and where nothing was trained
    p: float | None = None  # after Holm's correction


@dataclass(frozen=True)
class Numbers:
    """A row of a table."""

    kind: Literal["judged", "space", "centred", "control"]
    """The scenario in its judged space; in another space; around the mean caption; a control without any network."""
    name: str  # the scenario, or the control
    detail: str  # the space, or a few words
    cells: dict[str, Number] = field(default_factory=dict)  # by column; a missing cell was not measured


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
    runs: Sequence[Results], keys: Sequence[str], space: str | None, tests: Mapping[str, Difference] | None = None, *,
    centred: bool = False,
) -> dict[str, Number]:  # fmt: skip
    cells = {}
    for key in keys:
        number = over_seeds(runs, [run.score(key, space, centred=centred) for run in runs])
        if number is None:
            continue
        value, deviation = number
        scale, test = 1.0 if key in ACCURACIES else 100.0, (tests or {}).get(key)
        interval = None if centred and key in MEASURES else _interval(runs, key, space, value)
        low, high = (None, None) if interval is None else (scale * end for end in interval)
        spread, p = None if deviation is None else scale * deviation, None if test is None else test.holm
        cells[key] = Number(scale * value, low, high, spread, p)
    return cells


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
