"""The table of sentence similarity: each correlation with its interval, controls, and the share seen in training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sightword.report.drawing import Interval
from sightword.report.number_formats import correlation, count, is_number, much_seen, percent, share
from sightword.report.tables import Cell, Row, Table, breakable
from sightword.statistics.inference import with_interval

AGGREGATES = {"mean": "mean", "weighted_mean": "mean weighted by pairs", "all": "pooled"}
CONTROLS = {"tfidf": "tf-idf", "untrained": "untrained", "chance": "chance"}
"""The heads of the columns of controls."""
PUBLISHED_SETS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STSBenchmark", "SICKRelatedness")
Scored = tuple[str, str, Mapping[str, Any]]
"""Data set, subtask and scores; the subtask is empty for a set with only one."""


def correlations(semantics: Mapping[str, Any]) -> Table | None:
    """Return the correlations of ``metrics/semantics.json``, by data set and in order; None without any."""
    groups: dict[str, list[Row]] = {}
    named = [name for name in _controls(semantics) if name != "chance"]

    def beside(task: str, key: str) -> list[str]:
        found = (_controls(semantics)[name].get(task, {}).get(key) for name in named)
        return [correlation(one) if is_number(one) else "" for one in found]

    for name, key, scores in scored(semantics):
        groups.setdefault(name, []).append(_row(key or "cosine", scores, beside(name, key or "cosine")))
    blocks = []
    for name, rows in groups.items():
        means = ((label, key, semantics[name].get(key)) for key, label in AGGREGATES.items())
        rows += [
            _row(label, mean, beside(name, key), aggregate=True)
            for label, key, mean in means
            if isinstance(mean, Mapping)
        ]
        alone = len(rows) == 1 and "pearson" in semantics[name]
        blocks.append(("", [rows[0]._replace(name=breakable(name))]) if alone else (name, rows))
    columns = ("set", "Pearson", *(CONTROLS[name] for name in named), "Spearman", "pairs", "seen")
    style = "semantics sortable across"
    return Table("Pearson's r and Spearman's ρ", columns, groups=blocks, style=style) if blocks else None


def _controls(semantics: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the scores of the controls by name and task."""
    found = semantics.get("controls", {})
    return {name: found[name] for name in CONTROLS if name in found}


def _row(name: str, scores: Mapping[str, Any], controls: Sequence[str], *, aggregate: bool = False) -> Row:
    ends, unseen = scores.get("pearson_ci95"), scores.get("unseen")
    interval = [f"{correlation(ends[0])} to {correlation(ends[1])}"] if ends else []
    pairs, seen = ("", "") if aggregate else (count(scores["pairs"]), share(scores.get("seen_in_training")))
    rest = []
    if unseen and unseen["pairs"] != scores.get("pairs"):
        rest = [f"{correlation(unseen['pearson'])} of {count(unseen['pairs'])}"]
    cells: list[Cell | str] = [
        Cell(correlation(scores["pearson"]), interval),
        *controls,
        correlation(scores.get("spearman")),
        pairs,
        Cell(seen, rest, style="seen" if not aggregate and much_seen(scores) else ""),
    ]
    return Row(breakable(name), cells, "aggregate" if aggregate else "")


def accuracies(semantics: Mapping[str, Any]) -> Table | None:
    """Return the accuracies of tasks with classes, in order; None without any."""
    known = [(CONTROLS[name], tasks) for name, tasks in _controls(semantics).items() if name != "tfidf"]
    rows = [
        Row(
            name,
            [
                with_interval(one["accuracy"], one.get("accuracy_ci95")),
                *(percent(tasks.get(name)) for _, tasks in known),
                percent(one.get("f1")),
                count(one.get("test")),
                share(one.get("seen_in_training")),
            ],
        )
        for name, one in semantics.items()
        if isinstance(one, Mapping) and "accuracy" in one
    ]
    columns = ("set", "accuracy", *(head for head, _ in known), "F1", "examples", "seen")
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
    values = [scores["pearson"] for _, _, scores in _subtasks(semantics)]
    if not values:
        return None
    return f"{len(values)} STS subtasks" if len(values) > 1 else "one STS subtask", sum(values) / len(values)


def headline_of(semantics: Mapping[str, Any], control: str) -> float | None:
    """Return the mean Pearson r of a control over the subtasks of :func:`headline`; None without the control."""
    known = _controls(semantics).get(control, {})
    values = [known.get(task, {}).get(key) for task, key, _ in _subtasks(semantics)]
    numbers = [one for one in values if is_number(one)]
    return sum(numbers) / len(numbers) if numbers and len(numbers) == len(values) else None


def _subtasks(semantics: Mapping[str, Any]) -> list[Scored]:
    """Return the STS subtasks with a correlation."""
    return [
        (name, key, scores)
        for name, key, scores in scored(semantics)
        if name.startswith("STS") and not name.startswith("STSBenchmark") and is_number(scores["pearson"])
    ]


def scored(semantics: Mapping[str, Any]) -> Iterator[Scored]:
    """Yield everything scored, in order."""
    for name, body in semantics.items():
        below = {"": body, **body} if isinstance(body, Mapping) else {}
        for key, value in below.items():
            if key not in AGGREGATES and isinstance(value, Mapping) and "pearson" in value and "pairs" in value:
                yield name, key, value
