"""The evaluation as tables: one row a subtask, and pairs to look at."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import numpy as np

from pipeline.semantics.evaluation import Judged

COLUMNS = ("task", "subtask", "pairs", "pearson", "lo", "hi", "spearman", "seen_in_training")
"""The columns of ``metrics/semantics.csv``; correlations as fractions, an empty cell where there is none."""


def score_csv(judged: Sequence[Judged]) -> str:
    """One line a subtask (``lo`` and ``hi`` are the 95 % interval of Pearson's r), six decimals."""
    return _text(COLUMNS, [_score_row(row) for row in judged], ",")


def score_tsv(judged: Sequence[Judged]) -> str:
    """One line a subtask with a name of its own, for a plot with a bar for each."""
    rows = [[f"{row[0]} {row[1]}", *row[3:6], row[2]] for row in map(_score_row, judged)]
    return _text(("name", "pearson", "lo", "hi", "pairs"), rows, "\t")


def pair_tsv(judged: Sequence[Judged], most: int) -> str:
    """Gold score and cosine of pairs, at most ``most`` of them, taken evenly over all subtasks."""
    rows = [
        [row.task, row.subtask, float(gold), float(score)]
        for row in judged
        if row.subtask != "trained"
        for gold, score in zip(row.pairs.gold, row.scores, strict=True)
    ]
    if len(rows) > most:
        rows = [rows[i] for i in np.arange(most) * len(rows) // most]
    return _text(("task", "subtask", "gold", "cosine"), rows, "\t")


def _score_row(row: Judged) -> list[object]:
    entry = row.entry
    low, high = entry["pearson_ci95"] or (None, None)
    seen = entry.get("seen_in_training")
    return [row.task, row.subtask, entry["pairs"], entry["pearson"], low, high, entry["spearman"], seen]


def _text(header: Sequence[str], rows: Sequence[Sequence[object]], delimiter: str) -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_cell(cell) for cell in row] for row in rows)
    return out.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6f}" if isinstance(value, float) else str(value)
