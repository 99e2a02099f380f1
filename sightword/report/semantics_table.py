"""The table of sentence similarity: each correlation with its interval and the share seen in training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

from sightword.report.number_formats import NONE, correlation, count, is_number, percent, share
from sightword.report.plots import Interval

AGGREGATES = {"mean": "mean", "weighted_mean": "mean by pairs", "all": "all pairs as one"}
PUBLISHED_SETS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STSBenchmark", "SICKRelatedness")
MUCH = 0.1
"""Sets with at least this share of sentences seen in training are marked."""


class Row(NamedTuple):
    """One line: a subtask, or an aggregate over the lines above it."""

    name: str
    pearson: str
    spearman: str
    pairs: str = ""
    interval: str = ""
    seen: str = ""
    unseen: str = ""
    """Pearson's r on the pairs without a sentence seen in training, if measured."""
    unseen_pairs: str = ""
    """The number of such pairs; empty if all pairs are unseen."""
    much_seen: bool = False
    aggregate: bool = False


Scored = tuple[str, str, Mapping[str, Any]]
"""Data set, subtask and scores; the subtask is empty for a set with only one."""


def groups(semantics: Mapping[str, Any]) -> list[tuple[str, list[Row]]]:
    """Return the lines of ``metrics/semantics.json``, by data set and in order, without entries that hold no scores."""
    found = []
    for name, body in semantics.items():
        if not isinstance(body, Mapping):
            continue
        rows = [_row(key, scores) for _, key, scores in scored({name: body})]
        rows += [_aggregate(key, body[key]) for key in AGGREGATES if key in body and _has_value(body[key])]
        if rows:
            found.append((name, rows))
    return found


def accuracies(semantics: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the tasks with classes, in order: name, accuracy, F1, examples, share seen in training."""
    return [
        (
            name,
            percent(body["accuracy"]) + (f" ± {percent(half)}" if is_number(half := body.get("accuracy_ci95")) else ""),
            percent(body["f1"]) if "f1" in body else NONE,
            count(body.get("test")),
            share(body.get("seen_in_training")),
        )
        for name, body in semantics.items()
        if isinstance(body, Mapping) and "accuracy" in body
    ]


def missing(semantics: Mapping[str, Any]) -> list[str]:
    """Return the published and requested data sets without a score in this run."""
    have = {one[0] for one in (*groups(semantics), *accuracies(semantics))}
    return [name for name in dict.fromkeys([*PUBLISHED_SETS, *semantics.get("skipped", ())]) if name not in have]


def intervals(semantics: Mapping[str, Any]) -> list[Interval]:
    """Return the rows of the drawing: every subtask with an interval."""
    return [
        Interval(f"{name} {key}".strip(), name, scores["pearson"], ends[0], ends[1], much_seen(scores))
        for name, key, scores in scored(semantics)
        if is_number(scores["pearson"]) and _is_interval(ends := scores.get("pearson_ci95"))
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


def scored(semantics: Mapping[str, Any]) -> list[Scored]:
    """Return everything scored, in order."""
    found: list[Scored] = []
    for name, body in semantics.items():
        if isinstance(body, Mapping):
            below = [("", body), *((key, value) for key, value in body.items() if key not in AGGREGATES)]
            found += [(name, key, value) for key, value in below if _is_scores(value)]
    return found


def _row(name: str, scores: Mapping[str, Any]) -> Row:
    ends, unseen = scores.get("pearson_ci95"), scores.get("unseen")
    unseen = unseen if isinstance(unseen, Mapping) else {}
    return Row(
        name,
        pearson=correlation(scores.get("pearson")),
        spearman=correlation(scores.get("spearman")),
        pairs=count(scores.get("pairs")),
        interval=f"{correlation(ends[0])} to {correlation(ends[1])}" if _is_interval(ends) else "",
        seen=share(scores.get("seen_in_training")),
        unseen=correlation(unseen.get("pearson")) if unseen else "",
        unseen_pairs="" if unseen.get("pairs") in (None, scores.get("pairs")) else count(unseen["pairs"]),
        much_seen=much_seen(scores),
    )


def _aggregate(name: str, value: Any) -> Row:
    pearson, spearman = (value.get("pearson"), value.get("spearman")) if isinstance(value, Mapping) else (value, None)
    return Row(AGGREGATES[name], correlation(pearson), correlation(spearman), aggregate=True)


def _is_scores(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping) and "pearson" in value and "pairs" in value


def _has_value(value: object) -> bool:
    return is_number(value) or (isinstance(value, Mapping) and "pearson" in value)


def _is_interval(ends: object) -> TypeGuard[Sequence[float]]:
    return isinstance(ends, list | tuple) and len(ends) == 2 and all(map(is_number, ends))


def much_seen(scores: Mapping[str, Any]) -> bool:
    """Return whether a tenth or more of a subtask's sentences was seen in training."""
    seen = scores.get("seen_in_training")
    return is_number(seen) and seen >= MUCH
