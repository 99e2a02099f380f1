"""The table of sentence similarity: each correlation with its interval and the share seen in training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sightword.report.drawing import Interval
from sightword.report.number_formats import correlation, count, is_number, much_seen, percent, share
from sightword.report.tables import Cell, Row, Table, breakable
from sightword.statistics.inference import with_interval

AGGREGATES = {"mean": "mean", "weighted_mean": "mean by pairs", "all": "all pairs as one"}
PUBLISHED_SETS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STSBenchmark", "SICKRelatedness")
Scored = tuple[str, str, Mapping[str, Any]]
"""Data set, subtask and scores; the subtask is empty for a set with only one."""


def correlations(semantics: Mapping[str, Any]) -> Table | None:
    """Return the correlations of ``metrics/semantics.json``, by data set and in order; None without any."""
    groups: dict[str, list[Row]] = {}
    for name, key, scores in scored(semantics):
        groups.setdefault(name, []).append(_row(key or "cosine", scores))
    blocks = []
    for name, rows in groups.items():
        means = ((label, semantics[name].get(key)) for key, label in AGGREGATES.items())
        rows += [_row(label, mean, aggregate=True) for label, mean in means if isinstance(mean, Mapping)]
        alone = len(rows) == 1 and "pearson" in semantics[name]
        blocks.append(("", [rows[0]._replace(name=breakable(name))]) if alone else (name, rows))
    columns, style = ("set", "Pearson", "Spearman", "pairs", "seen"), "semantics sortable across"
    return Table("Pearson's r and Spearman's ρ", columns, groups=blocks, style=style) if blocks else None


def _row(name: str, scores: Mapping[str, Any], *, aggregate: bool = False) -> Row:
    ends, unseen = scores.get("pearson_ci95"), scores.get("unseen")
    interval = [f"{correlation(ends[0])} to {correlation(ends[1])}"] if ends else []
    pairs, seen = ("", "") if aggregate else (count(scores["pairs"]), share(scores.get("seen_in_training")))
    rest = []
    if unseen and unseen["pairs"] != scores.get("pairs"):
        rest = [f"{correlation(unseen['pearson'])} of {count(unseen['pairs'])}"]
    cells: list[Cell | str] = [
        Cell(correlation(scores["pearson"]), interval),
        correlation(scores.get("spearman")),
        pairs,
        Cell(seen, rest, style="seen" if not aggregate and much_seen(scores) else ""),
    ]
    return Row(breakable(name), cells, "aggregate" if aggregate else "")


def accuracies(semantics: Mapping[str, Any]) -> Table | None:
    """Return the accuracies of tasks with classes, in order; None without any."""
    rows = [
        Row(
            name,
            [
                with_interval(one["accuracy"], one.get("accuracy_ci95")),
                percent(one.get("f1")),
                count(one.get("test")),
                share(one.get("seen_in_training")),
            ],
        )
        for name, one in semantics.items()
        if isinstance(one, Mapping) and "accuracy" in one
    ]
    columns = ("set", "accuracy", "F1", "examples", "seen")
    return Table("Accuracy", columns, rows, style="sortable narrow") if rows else None


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
