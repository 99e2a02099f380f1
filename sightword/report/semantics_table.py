"""The table of sentence similarity: each correlation with its interval and the share seen in training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sightword.report.drawing import Interval
from sightword.report.number_formats import is_number

AGGREGATES = {"mean": "mean", "weighted_mean": "mean by pairs", "all": "all pairs as one"}
PUBLISHED_SETS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STSBenchmark", "SICKRelatedness")
MUCH = 0.1
"""Sets with at least this share of sentences seen in training are marked."""


class Row(NamedTuple):
    """One line: a subtask, or an aggregate over the lines above it; ``scores`` are those of the metrics."""

    name: str
    scores: Mapping[str, Any]
    much_seen: bool = False
    aggregate: bool = False


Scored = tuple[str, str, Mapping[str, Any]]
"""Data set, subtask and scores; the subtask is empty for a set with only one."""


def groups(semantics: Mapping[str, Any]) -> list[tuple[str, list[Row]]]:
    """Return the lines of ``metrics/semantics.json``, by data set and in order, without entries that hold no scores."""
    found: dict[str, list[Row]] = {}
    for name, key, scores in scored(semantics):
        found.setdefault(name, []).append(Row(key, scores, much_seen(scores)))
    for name, rows in found.items():
        means = ((label, semantics[name].get(key)) for key, label in AGGREGATES.items())
        rows += [Row(label, mean, aggregate=True) for label, mean in means if isinstance(mean, Mapping)]
    return list(found.items())


def accuracies(semantics: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the tasks with classes and their scores, in order."""
    return [(name, body) for name, body in semantics.items() if isinstance(body, Mapping) and "accuracy" in body]


def not_requested(semantics: Mapping[str, Any]) -> list[str]:
    """Return the published data sets that are not among the tasks of this run."""
    tasks = {*(one[0] for one in scored(semantics)), *semantics.get("skipped", ())}
    return [name for name in PUBLISHED_SETS if name not in tasks]


def intervals(semantics: Mapping[str, Any]) -> list[tuple[str, Interval]]:
    """Return the rows of the drawing, every subtask with an interval, each with its data set."""
    return [
        (name, Interval(f"{name} {key}".strip(), scores["pearson"], low, high, much_seen(scores)))
        for name, key, scores in scored(semantics)
        if is_number(scores["pearson"]) and scores.get("pearson_ci95")
        for low, high in [scores["pearson_ci95"]]
    ]


def headline(semantics: Mapping[str, Any]) -> tuple[str, float] | None:
    """Return the mean Pearson r over all STS subtasks and a description of the subtasks."""
    values = [
        scores["pearson"]
        for name, _, scores in scored(semantics)
        if name.startswith("STS") and name != "STSBenchmark" and is_number(scores["pearson"])
    ]
    if not values:
        return None
    return f"{len(values)} STS subtasks" if len(values) > 1 else "one STS subtask", sum(values) / len(values)


def scored(semantics: Mapping[str, Any]) -> Iterator[Scored]:
    """Yield everything scored, in order."""
    for name, body in semantics.items():
        below = {"": body, **body} if isinstance(body, Mapping) else {}
        for key, value in below.items():
            if key not in AGGREGATES and isinstance(value, Mapping) and "pearson" in value and "pairs" in value:
                yield name, key, value


def much_seen(scores: Mapping[str, Any]) -> bool:
    """Return whether a tenth or more of a subtask's sentences was seen in training."""
    seen = scores.get("seen_in_training")
    return is_number(seen) and seen >= MUCH
