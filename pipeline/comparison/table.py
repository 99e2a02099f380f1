"""Comparisons as tables for people and programs: cells of text, the header first, and sentences to stand below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.comparison.bootstrap import Resampled
from pipeline.comparison.recall import Recall
from pipeline.comparison.systems import LEVEL, Comparison, Mean, Row
from sightword.report.number_formats import signed
from sightword.semantics.published import SYSTEMS, BesidePublished, Key, Score, in_mean, wins

_HEADER = ["task", "subtask", "pairs", "A", "B", "A - B", "Williams p", "Steiger p", "bootstrap p", "Holm p", "better"]
_SCORES = ["task", "subtask", "pairs", "a", "a_lo", "a_hi", "b", "b_lo", "b_hi", "difference"]
_ENDS = ["difference_lo", "difference_hi"]
_TESTS = ["williams_t", "williams_p", "steiger_z", "steiger_p", "bootstrap_p", "holm_p", "better"]
_EXACT = [*_SCORES, *_ENDS, *_TESTS]
_RECALL_HEADER = ["query", "recall", "queries", "A", "B", "A - B", "only A", "only B", "swap p", "Holm p", "better"]
_RECALL_EXACT = [
    *("direction", "k", "queries", "a", "b", "difference", *_ENDS, "only_a", "only_b"),
    *("swap_p", "holm_p", "better"),
]
QUERIES = {"caption_to_image": "caption", "image_to_caption": "picture"}
"""The kind of query in each direction."""

Values = Mapping[str, Any]
"""The values of a row by the names of the exact table; None is undefined, "" has no meaning in this row."""


def lines(comparison: Comparison, *, exact: bool = False) -> list[list[str]]:
    """Return the header, one row for each subtask, and the mean.

    Args:
        comparison: the comparison of two systems.
        exact: all digits, with ends of intervals and statistics in columns of their own; else rounded.
    """
    rows = [_values(row) for row in comparison.rows]
    if comparison.mean is not None:
        rows.append(_mean_values(comparison.mean))
    return [_EXACT, *map(_exact, rows)] if exact else [_HEADER, *map(_rounded, rows)]


def verdict(comparison: Comparison) -> list[str]:
    """Return on how many rows each system is better: beyond chance, and by intervals alone."""
    rows = comparison.rows
    better = [row.better for row in rows]
    tested = sum(row.holm is not None for row in rows)
    a = {(row.task, row.subtask): row.a_score for row in rows if row.a_score is not None}
    b = {(row.task, row.subtask): row.b_score for row in rows if row.b_score is not None}
    beyond_chance = (
        f"Better beyond chance (p of the bootstrap, Holm's correction over {tested} rows, below {LEVEL}): "
        f"A on {better.count('A')}, B on {better.count('B')} of {len(rows)}."
    )
    by_intervals = (
        f"By intervals alone (the 95 % interval of one lies above the other's r, uncorrected): "
        f"A on {len(wins(a, b))}, B on {len(wins(b, a))}."
    )
    too_few = _too_few(2 * tested / (comparison.samples + 1), f"{comparison.samples} resamples")
    return [beyond_chance, *too_few, by_intervals]


def recall_lines(rows: Sequence[Recall], *, exact: bool = False) -> list[list[str]]:
    """Return the header and one row for each direction and k, in percent, as :func:`lines`."""
    return [_RECALL_EXACT, *map(_exact_recall, rows)] if exact else [_RECALL_HEADER, *map(_recall, rows)]


def recall_verdict(rows: Sequence[Recall], samples: int) -> list[str]:
    """Return on how many recalls each system is better beyond chance, after ``samples`` random swaps."""
    better = [row.better for row in rows]
    tested = sum(row.holm is not None for row in rows)
    if not tested:
        return ["Both have as many right answers to the queries of each picture, at each k."]
    beyond_chance = (
        f"Better beyond chance (p of swapping answers picture by picture, Holm's correction over {tested} recalls, "
        f"below {LEVEL}): A on {better.count('A')}, B on {better.count('B')} of {len(rows)}."
    )
    return [beyond_chance, *_too_few(tested / (samples + 1), f"{samples} swaps")]


def published_lines(beside: BesidePublished, *, exact: bool = False) -> list[list[str]]:
    """Return the lines of a system beside a published one, by the paper's rule; the mean has no interval."""
    names = [*_SCORES, "better"]
    ours, theirs = _sides(beside)
    better = dict.fromkeys(wins(ours, theirs), "A") | dict.fromkeys(wins(theirs, ours), "B")
    rows = []
    for row, a, b in beside.rows:
        key = (row.task, row.subtask)
        values = (*key, row.pairs, a.r, *_ends(a), b.r, *_ends(b), a.r - b.r, better.get(key, ""))
        rows.append(dict(zip(names, values, strict=True)))
    pairs = [(a.r, b.r) for row, a, b in beside.rows if in_mean((row.task, row.subtask))]
    if len(pairs) > 1:
        a_mean, b_mean = (sum(side) / len(pairs) for side in zip(*pairs, strict=True))
        means = ("STS", f"mean of {len(pairs)}", "", a_mean, None, None, b_mean, None, None, a_mean - b_mean, "")
        rows.append(dict(zip(names, means, strict=True)))
    return [names, *map(_exact, rows)] if exact else [[*_HEADER[:6], "better"], *map(_rounded, rows)]


def published_verdict(beside: BesidePublished, system: str) -> str:
    """Return on how many rows each system is better, by the paper's rule in both directions."""
    a, b = _sides(beside)
    return (
        f"Better by the paper's rule (the 95 % interval of one lies above the other's r): "
        f"A on {len(wins(a, b))}, {SYSTEMS[system]} on {len(wins(b, a))} of {len(a)}."
    )


def _too_few(least: float, draws: str) -> list[str]:
    """Return a warning if even the least p is not significant after the correction."""
    return [] if least < LEVEL else [f"With {draws} no corrected p can be below {min(1.0, least):.2g}: take more."]


def _sides(beside: BesidePublished) -> tuple[dict[Key, Score], dict[Key, Score]]:
    a = {(row.task, row.subtask): score for row, score, _ in beside.rows}
    b = {(row.task, row.subtask): score for row, _, score in beside.rows}
    return a, b


def _values(row: Row) -> Values:
    values = (
        *(row.task, row.subtask, row.pairs, row.a, *_ends(row.a_score), row.b, *_ends(row.b_score)),
        *(row.difference, *_ends(row.bootstrap), *(row.williams or (None, None)), *(row.steiger or (None, None))),
        *(row.bootstrap and row.bootstrap.p, row.holm, row.better or ""),
    )
    return dict(zip(_EXACT, values, strict=True))


def _mean_values(mean: Mean) -> Values:
    values = (
        *("STS", f"mean of {mean.subtasks}", "", mean.a, None, None, mean.b, None, None, mean.difference),
        *(*_ends(mean.bootstrap), "", "", "", "", mean.bootstrap and mean.bootstrap.p, "", ""),
    )
    return dict(zip(_EXACT, values, strict=True))


def _ends(interval: Score | Resampled | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)


def _exact(values: Values) -> list[str]:
    return _cells(*values.values())


def _cells(*values: object) -> list[str]:
    return ["" if value is None else repr(value) if isinstance(value, float) else str(value) for value in values]


def _rounded(values: Values) -> list[str]:
    ps = ("williams_p", "steiger_p", "bootstrap_p", "holm_p")
    a, b, difference = (
        _spanned(values[name], values.get(f"{name}_lo"), values.get(f"{name}_hi"), sign=name == "difference")
        for name in ("a", "b", "difference")
    )
    first = (values["task"], values["subtask"], str(values["pairs"]))
    return [*first, a, b, difference, *(_p(values[name]) for name in ps if name in values), values["better"]]


def _exact_recall(row: Recall) -> list[str]:
    return _cells(
        *(row.direction, row.depth, row.queries, row.a, row.b, row.difference, *(row.interval or (None, None))),
        *(row.only_a, row.only_b, row.p, row.holm, row.better),
    )


def _recall(row: Recall) -> list[str]:
    ends = "" if row.interval is None else f" [{row.interval[0]:+.1f}, {row.interval[1]:+.1f}]"
    return [
        *(QUERIES[row.direction], f"R@{row.depth}", f"{row.queries:,}", f"{row.a:.1f}", f"{row.b:.1f}"),
        *(f"{signed(row.difference, 1)}{ends}", f"{row.only_a:,}", f"{row.only_b:,}"),
        *(_p(row.p), _p(row.holm), row.better or ""),
    ]


def _spanned(value: float | None, low: float | None, high: float | None, *, sign: bool) -> str:
    if value is None:
        return "-"
    shown, *ends = (signed(one) if sign else f"{one:.3f}" for one in (value, low, high) if one is not None)
    return f"{shown} [{ends[0]}, {ends[1]}]" if ends else shown


def _p(p: float | str | None) -> str:
    """Format a p; a text, which stands for a row without the test, stays."""
    if isinstance(p, str):
        return p
    return "-" if p is None else "<0.0001" if p < 0.0001 else f"{p:.4f}"
