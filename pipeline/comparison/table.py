"""Comparisons as tables for people and programs: cells of text, the header first, and sentences to stand below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.comparison.contrast import Tested
from pipeline.comparison.correlations import LEVEL, Comparison, Row
from pipeline.comparison.parts import Accuracy, Measure
from pipeline.comparison.recall import Recall
from sightword.evaluation.published import SYSTEMS, BesidePublished, Key, Score, in_mean, wins
from sightword.report.number_formats import signed
from sightword.statistics.bootstrap import Resampled

_HEADER = ["task", "subtask", "pairs", "A", "B", "A - B", "bootstrap p", "Holm p", "better"]
_SCORES = ["task", "subtask", "pairs", "a", "a_lo", "a_hi", "b", "b_lo", "b_hi", "difference"]
_ENDS = ["difference_lo", "difference_hi"]
_EXACT = [*_SCORES, *_ENDS, "bootstrap_p", "holm_p", "better"]
_RECALL_HEADER = ["query", "recall", "queries", "A", "B", "A - B", "only A", "only B", "swap p", "Holm p", "better"]
_RECALL_EXACT = [
    *("direction", "k", "queries", "a", "b", "difference", *_ENDS, "only_a", "only_b"),
    *("swap_p", "holm_p", "better"),
]
_PART_HEADER = ["pairs", "A", "B", "A - B", "only A", "only B", "McNemar p", "Holm p", "better"]
_PART_EXACT = ["part", "pairs", "a", "b", "difference", "only_a", "only_b", "mcnemar_p", "holm_p", "better"]
_MEASURE_HEADER = ["measure", "A", "B", "A - B", "p", "Holm p", "better"]
_MEASURE_EXACT = ["scenario", "measure", "a", "b", "difference", *_ENDS, "test_p", "holm_p", "better"]
QUERIES = {"caption_to_image": "caption", "image_to_caption": "picture"}
"""The kind of query in each direction."""

HALF = 8
"""Characters of a drawn interval on each side of 0."""

Values = Mapping[str, Any]
"""The values of a row by the names of the exact table; None is undefined, "" has no meaning in this row."""


def lines(comparison: Comparison, *, exact: bool = False) -> list[list[str]]:
    """Return the header, one row for each subtask, and the mean.

    With ``exact`` the numbers have all digits, and ends of intervals and statistics have separate columns.
    """
    rows: list[tuple[object, ...]] = [
        (
            *(row.task, row.subtask, row.pairs, row.a, *_ends(row.a_score), row.b, *_ends(row.b_score)),
            *(row.difference, *_ends(row.bootstrap), row.bootstrap and row.bootstrap.p, row.holm, row.better),
        )
        for row in comparison.rows
    ]
    if mean := comparison.mean:
        name, p = f"mean of {mean.subtasks}", mean.bootstrap and mean.bootstrap.p
        scores = ("STS", name, "", mean.a, None, None, mean.b, None, None, mean.difference)
        rows.append((*scores, *_ends(mean.bootstrap), p, "", ""))
    return _table(_EXACT, _HEADER, rows, exact=exact)


def verdict(comparison: Comparison) -> list[str]:
    """Return on how many rows each system is significantly better."""
    samples = comparison.samples
    return _significant(comparison.rows, "bootstrap", "rows", 2 / (samples + 1), f"{samples} resamples")


def recall_lines(rows: Sequence[Recall], *, exact: bool = False) -> list[list[str]]:
    """Return the header and one row for each direction and k, in percent, as :func:`lines`."""
    values = []
    for row in rows:
        counts: tuple[object, ...] = (row.queries, row.only_a, row.only_b)
        asked: tuple[object, ...] = (row.direction, row.depth, *counts)
        if not exact:
            asked = (QUERIES[row.direction], f"R@{row.depth}", *(f"{count:,}" for count in counts))
        scores = (row.a, row.b, row.difference, *(row.interval or (None, None)))
        values.append((*asked[:3], *scores, *asked[3:], row.p, row.holm, row.better))
    return _table(_RECALL_EXACT, _RECALL_HEADER, values, exact=exact, digits=1)


def recall_verdict(rows: Sequence[Recall], samples: int) -> list[str]:
    """Return on how many recalls each system is significantly better, after ``samples`` random swaps."""
    if all(row.holm is None for row in rows):
        return ["Both have as many right answers to the queries of each picture, at each k."]
    return _significant(rows, "permutation test by picture", "recalls", 1 / (samples + 1), f"{samples} swaps")


def result_lines(tested: Tested, *, exact: bool = False) -> list[list[str]]:
    """Return the header and one row for each part or measure of a system's results, in percent, as :func:`lines`."""
    parts: list[Sequence[object]] = []
    measures: list[Sequence[object]] = []
    for row in tested.rows:
        if isinstance(row, Accuracy):
            counts = (row.only_a, row.only_b, row.p, row.holm, row.better)
            parts.append((row.part, row.pairs, row.a, row.b, row.a - row.b, *counts))
        else:
            scores = (row.a, row.b, row.difference, *(row.interval or (None, None)))
            measures.append((row.scenario, row.measure, *scores, row.p, row.holm, row.better))
    names, header = (_PART_EXACT, _PART_HEADER) if parts else (_MEASURE_EXACT, _MEASURE_HEADER)
    return _table(names, [tested.compared.what, *header], [*parts, *measures], exact=exact, digits=1)


def result_verdict(tested: Tested) -> list[str]:
    """Return on how many parts or measures each system is significantly better."""
    if any(isinstance(row, Accuracy) for row in tested.rows):
        return _significant(tested.rows, "McNemar's test", "parts", 0.0, "")
    return _significant(tested.rows, "bootstrap; transfer tasks: McNemar's test", "measures", 0.0, "")


def number_lines(numbers: Sequence[tuple[str, float, float]], *, exact: bool = False) -> list[list[str]]:
    """Return the header and one row for each score without a test."""
    names = ["score", "a", "b", "difference"]
    rows = [(name, a, b, a - b) for name, a, b in numbers]
    return _table(names, ["score", "A", "B", "A - B"], rows, exact=exact)


def published_lines(beside: BesidePublished, *, exact: bool = False) -> list[list[str]]:
    """Return the lines of a system and a published one, by the paper's rule; the mean has no interval."""
    ours, theirs = _sides(beside)
    better = dict.fromkeys(wins(ours, theirs), "A") | dict.fromkeys(wins(theirs, ours), "B")
    rows: list[tuple[object, ...]] = []
    for row, a, b in beside.rows:
        key = (row.task, row.subtask)
        rows.append((*key, row.pairs, a.r, *_ends(a), b.r, *_ends(b), a.r - b.r, better.get(key)))
    pairs = [(a.r, b.r) for row, a, b in beside.rows if in_mean((row.task, row.subtask))]
    if len(pairs) > 1:
        a_mean, b_mean = (sum(side) / len(pairs) for side in zip(*pairs, strict=True))
        name = f"mean of {len(pairs)}"
        rows.append(("STS", name, "", a_mean, None, None, b_mean, None, None, a_mean - b_mean, ""))
    return _table([*_SCORES, "better"], [*_HEADER[:6], "better"], rows, exact=exact)


def published_verdict(beside: BesidePublished, system: str) -> str:
    """Return on how many rows each system is better, by the paper's rule in both directions."""
    a, b = _sides(beside)
    return (
        f"Better by the paper's rule (the 95 % interval of one lies above the other's r): "
        f"A on {len(wins(a, b))}, {SYSTEMS[system]} on {len(wins(b, a))} of {len(a)}."
    )


def _significant(
    rows: Sequence[Row | Recall | Accuracy | Measure], test: str, what: str, least: float, draws: str
) -> list[str]:
    """Return the verdict by a test, and a warning if even its least p is not significant after the correction."""
    better, tested = [row.better for row in rows], sum(row.holm is not None for row in rows)
    how = f"after Holm correction over {tested} {what} ({test}, p below {LEVEL})"
    ours, theirs = better.count("A"), better.count("B")
    by_test = f"Significantly better {how}: A on {ours}, B on {theirs} of {len(rows)}."
    by_test = by_test if ours or theirs else f"No difference is significant {how}."
    too_few = f"With {draws} no corrected p can be below {min(1.0, tested * least):.2g}: take more."
    return [by_test, too_few] if tested * least >= LEVEL else [by_test]


def _sides(beside: BesidePublished) -> tuple[dict[Key, Score], dict[Key, Score]]:
    a = {(row.task, row.subtask): score for row, score, _ in beside.rows}
    b = {(row.task, row.subtask): score for row, _, score in beside.rows}
    return a, b


def _ends(interval: Score | Resampled | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)


def _table(
    names: list[str], header: list[str], rows: Sequence[Sequence[object]], *, exact: bool, digits: int = 3
) -> list[list[str]]:
    """Return rows of the columns ``names`` as cells; or rounded, to columns of ``header``, with drawn intervals."""
    if not exact:
        values = [dict(zip(names, row, strict=True)) for row in rows]
        lines = [header, *(_rounded(row, digits) for row in values)]
        ends = [row.get(end) for row in values for end in _ENDS]
        if most := max((abs(end) for end in ends if isinstance(end, float)), default=0.0):
            place = header.index("A - B") + 1
            bars = [f"{'0':>{HALF + 1}}", *(_bar(row, most) for row in values)]
            lines = [[*line[:place], bar, *line[place:]] for line, bar in zip(lines, bars, strict=True)]
        return lines
    return [
        names,
        *(["" if one is None else repr(one) if isinstance(one, float) else str(one) for one in row] for row in rows),
    ]


def _bar(values: Values, most: float) -> str:
    """Draw the interval of a difference on a line from ``-most`` to ``most``; empty without an interval."""
    if values["difference_lo"] is None:
        return ""
    low, middle, high = (
        min(max(round(HALF * (1 + values[name] / most)), 0), 2 * HALF)
        for name in ("difference_lo", "difference", "difference_hi")
    )
    line = ["─" if low <= place <= high else " " for place in range(2 * HALF + 1)]
    line[HALF] = "┼" if low <= HALF <= high else "│"
    line[middle] = "●"
    return "".join(line)


def _rounded(values: Values, digits: int) -> list[str]:
    cells = []
    for name, value in values.items():
        if name in ("a", "b", "difference"):
            known = [one for one in (value, values.get(f"{name}_lo"), values.get(f"{name}_hi")) if one is not None]
            shown = [signed(one, digits) if name == "difference" else f"{one:.{digits}f}" for one in known]
            cells.append(shown[0] + (f" [{shown[1]}, {shown[2]}]" if shown[1:] else "") if shown else "-")
        elif name.endswith("_p") and not isinstance(value, str):
            cells.append("-" if value is None else "<0.0001" if value < 0.0001 else f"{value:.4f}")
        elif not name.endswith(("_lo", "_hi", "_t", "_z")):
            cells.append("" if value is None else str(value))
    return cells
