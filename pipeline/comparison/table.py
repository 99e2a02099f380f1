"""Comparisons as tables for people and programs: cells of text, the header first, and sentences to stand below."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.comparison.bootstrap import Resampled
from pipeline.comparison.recall import Recall, better_counts
from pipeline.comparison.systems import LEVEL, Comparison, Mean, Row
from sightword.semantics.published import SYSTEMS, BesidePublished, Key, Score, in_mean, wins

_HEADER = ["task", "subtask", "pairs", "A", "B", "A - B", "Williams p", "Steiger p", "bootstrap p", "Holm p", "better"]
_EXACT = [
    *("task", "subtask", "pairs", "a", "a_lo", "a_hi", "b", "b_lo", "b_hi"),
    *("difference", "difference_lo", "difference_hi", "williams_t", "williams_p", "steiger_z", "steiger_p"),
    *("bootstrap_p", "holm_p", "better"),
]
_RECALL_HEADER = ["query", "recall", "queries", "A", "B", "A - B", "only A", "only B", "swap p", "Holm p", "better"]
_RECALL_EXACT = [
    *("direction", "k", "queries", "a", "b", "difference", "difference_lo", "difference_hi", "only_a", "only_b"),
    *("swap_p", "holm_p", "better"),
]
QUERIES = {"caption_to_image": "caption", "image_to_caption": "picture"}
"""What is asked in each direction."""
_PUBLISHED_EXACT = ["task", "subtask", "pairs", "a", "a_lo", "a_hi", "b", "b_lo", "b_hi", "difference", "better"]


def lines(comparison: Comparison, *, exact: bool = False) -> list[list[str]]:
    """Header, one row for each subtask, and the mean.

    Args:
        comparison: of two systems.
        exact: ends of intervals and statistics in columns of their own, with all digits; else rounded.
    """
    mean = [] if comparison.mean is None else [comparison.mean]
    if exact:
        return [_EXACT, *map(_exact_row, comparison.rows), *map(_exact_mean, mean)]
    return [_HEADER, *map(_row, comparison.rows), *map(_mean, mean)]


def verdict(comparison: Comparison) -> list[str]:
    """How many rows each system is better on: beyond chance, and by intervals alone."""
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
    return [
        beyond_chance,
        *_too_few(2 * tested / (comparison.samples + 1), f"{comparison.samples} resamples"),
        by_intervals,
    ]


def recall_lines(rows: Sequence[Recall], *, exact: bool = False) -> list[list[str]]:
    """Header and one row for each direction and k, in percent, as :func:`lines`."""
    return [_RECALL_EXACT, *map(_exact_recall, rows)] if exact else [_RECALL_HEADER, *map(_recall, rows)]


def recall_verdict(rows: Sequence[Recall], samples: int) -> list[str]:
    """On how many recalls each system is better beyond chance.

    Args:
        rows: the recalls.
        samples: random swaps.
    """
    a, b = better_counts(rows)
    tested = sum(row.holm is not None for row in rows)
    if not tested:
        return ["Both have as many right answers to the queries of each picture, at each k."]
    beyond_chance = (
        f"Better beyond chance (p of swapping answers picture by picture, Holm's correction over {tested} recalls, "
        f"below {LEVEL}): A on {a}, B on {b} of {len(rows)}."
    )
    return [beyond_chance, *_too_few(tested / (samples + 1), f"{samples} swaps")]


def published_lines(beside: BesidePublished, *, exact: bool = False) -> list[list[str]]:
    """As :func:`lines`, of a system beside a published one, by the paper's rule; the mean without an interval."""
    found = [_PUBLISHED_EXACT if exact else [*_HEADER[:6], "better"]]
    sides = _sides(beside)
    better = dict.fromkeys(wins(*sides), "A") | dict.fromkeys(wins(*reversed(sides)), "B")
    for row, a, b in beside.rows:
        key = (row.task, row.subtask)
        cells = [*key, str(row.pairs)]
        if exact:
            ends = [repr(value) for score in (a, b) for value in (score.r, score.low, score.high)]
            found.append([*cells, *ends, repr(a.r - b.r), better.get(key, "")])
        else:
            found.append([*cells, _score(a.r, a), _score(b.r, b), _signed(a.r - b.r), better.get(key, "")])
    pairs = [(a.r, b.r) for row, a, b in beside.rows if in_mean((row.task, row.subtask))]
    if len(pairs) > 1:
        a_mean, b_mean = (sum(side) / len(pairs) for side in zip(*pairs, strict=True))
        if exact:
            means = [repr(a_mean), "", "", repr(b_mean), "", "", repr(a_mean - b_mean)]
        else:
            means = [_score(a_mean, None), _score(b_mean, None), _signed(a_mean - b_mean)]
        found.append(["STS", f"mean of {len(pairs)}", "", *means, ""])
    return found


def published_verdict(beside: BesidePublished, system: str) -> str:
    """How many rows each is better on, by the paper's rule in both directions."""
    a, b = _sides(beside)
    return (
        f"Better by the paper's rule (the 95 % interval of one lies above the other's r): "
        f"A on {len(wins(a, b))}, {SYSTEMS[system]} on {len(wins(b, a))} of {len(a)}."
    )


def _too_few(least: float, draws: str) -> list[str]:
    """What to say where the least p after the correction is not significant."""
    if least < LEVEL:
        return []
    return [f"With {draws} no corrected p can be below {min(1.0, least):.2g}: take more."]


def _sides(beside: BesidePublished) -> tuple[dict[Key, Score], dict[Key, Score]]:
    a = {(row.task, row.subtask): score for row, score, _ in beside.rows}
    b = {(row.task, row.subtask): score for row, _, score in beside.rows}
    return a, b


def _row(row: Row) -> list[str]:
    return [
        *(row.task, row.subtask, str(row.pairs), _score(row.a, row.a_score), _score(row.b, row.b_score)),
        _difference(row.difference, row.bootstrap),
        *(_p(None if test is None else test.p) for test in (row.williams, row.steiger, row.bootstrap)),
        *(_p(row.holm), row.better or ""),
    ]


def _recall(row: Recall) -> list[str]:
    ends = "" if row.interval is None else f" [{row.interval[0]:+.1f}, {row.interval[1]:+.1f}]"
    return [
        *(QUERIES[row.direction], f"R@{row.depth}", f"{row.queries:,}", f"{row.a:.1f}", f"{row.b:.1f}"),
        *(f"{_signed(row.difference, 1)}{ends}", f"{row.only_a:,}", f"{row.only_b:,}"),
        *(_p(row.p), _p(row.holm), row.better or ""),
    ]


def _exact_recall(row: Recall) -> list[str]:
    return _cells(
        *(row.direction, row.depth, row.queries, row.a, row.b, row.difference, *(row.interval or (None, None))),
        *(row.only_a, row.only_b, row.p, row.holm, row.better),
    )


def _mean(mean: Mean) -> list[str]:
    return [
        *("STS", f"mean of {mean.subtasks}", "", _score(mean.a, None), _score(mean.b, None)),
        _difference(mean.difference, mean.bootstrap),
        *("", "", _p(None if mean.bootstrap is None else mean.bootstrap.p), "", ""),
    ]


def _exact_row(row: Row) -> list[str]:
    return _cells(
        *(row.task, row.subtask, row.pairs, row.a, *_ends(row.a_score), row.b, *_ends(row.b_score)),
        *(row.difference, *_ends(row.bootstrap)),
        *(row.williams and row.williams.statistic, row.williams and row.williams.p),
        *(row.steiger and row.steiger.statistic, row.steiger and row.steiger.p),
        *(row.bootstrap and row.bootstrap.p, row.holm, row.better),
    )


def _exact_mean(mean: Mean) -> list[str]:
    return _cells(
        *("STS", f"mean of {mean.subtasks}", None, mean.a, None, None, mean.b, None, None),
        *(mean.difference, *_ends(mean.bootstrap), None, None, None, None),
        *(mean.bootstrap and mean.bootstrap.p, None, None),
    )


def _ends(interval: Score | Resampled | None) -> Sequence[float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)


def _cells(*values: object) -> list[str]:
    return ["" if value is None else repr(value) if isinstance(value, float) else str(value) for value in values]


def _score(r: float | None, score: Score | None) -> str:
    if r is None:
        return "-"
    return f"{r:.3f}" if score is None else f"{r:.3f} [{score.low:.3f}, {score.high:.3f}]"


def _difference(difference: float | None, bootstrap: Resampled | None) -> str:
    if difference is None:
        return "-"
    if bootstrap is None:
        return _signed(difference)
    return f"{_signed(difference)} [{_signed(bootstrap.low)}, {_signed(bootstrap.high)}]"


def _signed(value: float, digits: int = 3) -> str:
    text = f"{value:+.{digits}f}"
    return text if text.strip("+-0.") else text[1:]


def _p(p: float | None) -> str:
    if p is None:
        return "-"
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"
