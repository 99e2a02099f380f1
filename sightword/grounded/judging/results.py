"""The results of all scenarios and seeds, as the stage evaluate wrote them, and their summary over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sightword.errors import ReportError
from sightword.evaluation.structure import MEASURES
from sightword.grounded.judging.measuring import AGAIN, FORMAT
from sightword.grounded.judging.relatedness import BENCHMARK
from sightword.io.files import Pathish, read_table
from sightword.io.saved import entry
from sightword.messages import quote

TABLES = {
    "structure": ("space", "split", "resample", *MEASURES),
    "relatedness": (
        *("space", "task", "subtask", "genre", "pair", "gold", "score", "centred", "concreteness", "seen"),
    ),
    "transfer": ("space", "task", "example", "first", "right"),
    "neighbours": ("space", "query", "rank", "sentence", "image_id", "cosine"),
    "points": ("space", "group", "sentence", "image_id", "x", "y"),
}
GENRES = ("captions", "news", "forums")
RELATED = ("stsb", *(f"stsb_{genre}" for genre in GENRES), "sick")
"""Spearman's correlations of the tables."""
TRANSFER = ("MR", "CR", "SUBJ", "MPQA", "MRPC", "SST2", "SNLI", "SICKEntailment")
"""The tasks of the published mean, in the order of Table 3 of Bordes et al. (2019)."""
KEYS = (*MEASURES, *RELATED, "transfer_mean")
"""The measures of the summary."""


def _entry(found: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the entry of a key of :data:`RELATED` among those of all tasks; empty without one."""
    if key == "sick":
        return dict(found.get("SICKRelatedness", {}))
    return dict(found.get(BENCHMARK, {}).get(key.removeprefix("stsb").removeprefix("_") or "all", {}))


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
        """The entries of the transfer tasks, which get the vectors of the space ``sentence``; empty without tasks."""
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
            found = [entries[task]["accuracy"] for task in TRANSFER if task in entries]
            return float(np.mean(found)) if found else None
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
    """Read the results of each scenario in ``data/grounded``, with one run for each seed.

    Raises:
        ReportError: there is no scenario or seed, or two runs were judged on other pictures, pairs or examples.
        FileFormatError: a file is missing or damaged.
    """
    if not scenarios or not seeds:
        raise ReportError("no scenario was run", where="train.run and train.seeds", expected="at least one of each")
    found = {name: [_read(Path(folder), name, seed) for seed in seeds] for name in scenarios}
    first, *others = [run for runs in found.values() for run in runs]
    for run in others:
        if what := differing_material(run, first):
            where = f"{folder}/{run.scenario}-{run.seed}"
            raise ReportError(f"was judged on other {what} than {first.scenario}-{first.seed}", where=where, todo=AGAIN)
    return found


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
        points = one.tables["points"][["group", "sentence", "image_id"]].drop_duplicates()
        rights = {task: len(one.right(task)) for task in TRANSFER}
        return {
            "pictures": {split: (values["pictures"], values["captions"]) for split, values in structure.items()},
            "captions of evaluate.groups": points.to_numpy().tolist(),
            "numbers of resamples": len(one.resamples(MEASURES[0])),
            "numbers of neighbours": {split: values["k"] for split, values in structure.items()},
            "settings": one.metrics.get("judge"),
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
    found = {}
    for name, runs in scenarios.items():
        for key in KEYS:
            if (number := over_seeds(runs, [run.score(key) for run in runs])) is not None:
                mean, deviation = number
                found[f"{name}.{key}"] = round(mean, 6)
                if deviation is not None:
                    found[f"{name}.{key}_sd"] = round(deviation, 6)
    return found
