"""The evaluation as tables: one row a subtask beside the published systems, where it is wrong, and pairs to look at."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from sightword.semantics.breakdown import Disagreement, Part
from sightword.semantics.published import SYSTEMS, Score, published_rows, score_of
from sightword.semantics.results import Entry, Judged

OWN = ("task", "subtask", "pairs", "pearson", "lo", "hi", "spearman", "spearman_lo", "spearman_hi")
SEEN = ("seen_in_training", "pairs_seen", "unseen_pairs", "unseen_pearson", "unseen_lo", "unseen_hi")
COLUMNS = (*OWN, *SEEN, *(f"{system.replace('-', '_')}{end}" for system in SYSTEMS for end in ("", "_lo", "_hi")))
"""The columns of ``metrics/semantics.csv``; correlations as fractions, an empty cell where there is none.

The last ones are Pearson's r of the published systems with its interval (Merkx & Frank 2019, supplement, Table 1)."""

THIS = "this encoder"
DRAWN = ("char-gru", "infersent", "bow")
"""The published systems that are drawn beside this encoder: those of Figure 3."""

Scores = Mapping[str, Score]


def score_csv(judged: Sequence[Judged]) -> str:
    """One line a subtask (``lo`` and ``hi`` are the ends of 95 % intervals), six decimals."""
    return _text(COLUMNS, [_score_row(row, _beside(row)) for row in judged], ",")


def score_tsv(judged: Sequence[Judged]) -> str:
    """One line a subtask with a name of its own, for a plot with a bar for each."""
    rows = [[_name(row), row.entry["pearson"], *_ends(row.entry, "pearson_ci95"), len(row.pairs)] for row in judged]
    return _text(("name", "pearson", "lo", "hi", "pairs"), rows, "\t")


def system_tsv(judged: Sequence[Judged]) -> str:
    """One line a subtask and system, this encoder and the published ones, for a plot of them side by side."""
    rows = [
        [name, system, score.r, score.low, score.high]
        for name, scores in compared(judged, (*DRAWN, "char-gru-coco"))
        for system, score in scores.items()
    ]
    return _text(("name", "system", "pearson", "lo", "hi"), rows, "\t")


def compared(judged: Sequence[Judged], systems: Sequence[str] = DRAWN) -> list[tuple[str, dict[str, Score]]]:
    """What the drawing shows: the subtasks of the published table where there are any, else all that have an interval.

    Args:
        judged: the rows.
        systems: which published systems stand beside this encoder.
    """
    found = []
    for row in [row for row in judged if _beside(row)] or judged:
        own = score_of(row.entry["pearson"], len(row.pairs))
        scores = {} if own is None else {THIS: own}
        beside = _beside(row)
        scores |= {SYSTEMS[system]: beside[system] for system in systems if system in beside}
        found.append((_name(row), scores))
    return found


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


def part_tsv(parts: Iterable[Part]) -> str:
    """Where the encoder is wrong, by length and by overlap: :class:`sightword.semantics.breakdown.Part`."""
    rows = [[f"{part.by} {part.range}", part.pairs, part.difference, part.lean] for part in parts]
    return _text(("name", "pairs", "rank_difference", "lean"), rows, "\t")


def disagreement_tsv(worst: Iterable[Disagreement]) -> str:
    """The pairs on which encoder and people differ most, for a person to read; ranks in percent."""
    rows = [
        [
            _name(one.row),
            f"{one.row.pairs.gold[one.pair]:g}",
            f"{one.row.scores[one.pair]:.3f}",
            f"{100 * one.gold_rank:.0f}",
            f"{100 * one.score_rank:.0f}",
            one.row.pairs.first[one.pair],
            one.row.pairs.second[one.pair],
        ]
        for one in worst
    ]
    return _text(("subtask", "gold", "score", "gold_rank", "score_rank", "first", "second"), rows, "\t")


def _beside(row: Judged) -> Scores:
    """What the published systems reach on this subtask; nothing for a set that is not theirs, nor for a part of it."""
    for known in published_rows():
        if (known.task, known.subtask, known.pairs) == (row.task, row.subtask, len(row.pairs)):
            return known.scores
    return {}


def _score_row(row: Judged, beside: Scores) -> list[object]:
    entry = row.entry
    unseen: Entry = entry.get("unseen", {})
    cells: list[object] = [row.task, row.subtask, entry["pairs"], entry["pearson"], *_ends(entry, "pearson_ci95")]
    cells += [entry["spearman"], *_ends(entry, "spearman_ci95")]
    cells += [entry.get("seen_in_training"), entry.get("pairs_seen")]
    cells += [unseen.get("pairs"), unseen.get("pearson"), *_ends(unseen, "pearson_ci95")]
    for system in SYSTEMS:
        score = beside.get(system)
        cells += [None] * 3 if score is None else [score.r, score.low, score.high]
    return cells


def _ends(entry: Entry, name: str) -> tuple[float | None, float | None]:
    low, high = entry.get(name) or (None, None)
    return low, high


def _name(row: Judged) -> str:
    return f"{row.task} {row.subtask}"


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
