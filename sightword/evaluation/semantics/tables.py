"""Writes the evaluation as tables: subtasks with the published systems, disagreements by range, and pairs to read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sightword.evaluation.semantics.breakdown import Bin, Disagreement
from sightword.evaluation.semantics.published import SYSTEMS, Score, published_rows, score_of
from sightword.evaluation.semantics.results import Entry, Judged

OWN = ("task", "subtask", "pairs", "pearson", "lo", "hi", "spearman", "spearman_lo", "spearman_hi")
SEEN = ("seen_in_training", "pairs_seen", "unseen_pairs", "unseen_pearson", "unseen_lo", "unseen_hi")
CONTROLS = ("tfidf", "untrained")
COLUMNS = (
    *OWN,
    *SEEN,
    *CONTROLS,
    *(f"{system.replace('-', '_')}{end}" for system in SYSTEMS for end in ("", "_lo", "_hi")),
)
"""The columns of ``metrics/semantics.csv``; correlations are fractions, and undefined cells are empty.

The last columns are Pearson's r of the controls, and of the published systems with its interval (Merkx & Frank 2019,
supplement, Table 1).
"""

THIS = "this encoder"
DRAWN = ("char-gru", "infersent", "bow")
"""The published systems in the drawing: those of Figure 3 of the paper."""

Scores = Mapping[str, Score]


def score_csv(judged: Sequence[Judged], controls: Mapping[str, Mapping[str, Any]]) -> str:
    """Return one line for each subtask (``lo`` and ``hi`` are the ends of 95 % intervals), with six decimals.

    Args:
        judged: the encoder's rows.
        controls: ``controls`` of the metrics of :func:`sightword.evaluation.semantics.evaluation.evaluate`.
    """
    rows = []
    for row in judged:
        entry, beside = row.entry, _published(row)
        unseen: Entry = entry.get("unseen", {})
        cells = [row.task, row.subtask, entry["pairs"], *_with_ends(entry, "pearson"), *_with_ends(entry, "spearman")]
        cells += [entry.get("seen_in_training"), entry.get("pairs_seen")]
        cells += [unseen.get("pairs"), *_with_ends(unseen, "pearson")]
        cells += [controls.get(name, {}).get(row.task, {}).get(row.subtask) for name in CONTROLS]
        for score in map(beside.get, SYSTEMS):
            cells += [None] * 3 if score is None else [score.r, score.low, score.high]
        rows.append(cells)
    return _text(COLUMNS, rows, ",")


def score_tsv(judged: Sequence[Judged]) -> str:
    """Return one line for each subtask under a single name, for a bar plot."""
    rows = [[_name(row), *_with_ends(row.entry, "pearson"), len(row.pairs)] for row in judged]
    return _text(("name", "pearson", "lo", "hi", "pairs"), rows)


def system_tsv(judged: Sequence[Judged]) -> str:
    """Return one line for each subtask and system, this encoder and the published ones, for a grouped plot.

    The subtasks are those of the published table, or else all with an interval.
    """
    rows = []
    for row in [row for row in judged if _published(row)] or judged:
        own, beside = score_of(row.entry["pearson"], len(row.pairs)), _published(row)
        scores = {} if own is None else {THIS: own}
        scores |= {SYSTEMS[system]: beside[system] for system in (*DRAWN, "char-gru-coco") if system in beside}
        rows += [[_name(row), system, score.r, score.low, score.high] for system, score in scores.items()]
    return _text(("name", "system", "pearson", "lo", "hi"), rows)


def pair_tsv(judged: Sequence[Judged], most: int) -> str:
    """Return gold score and cosine of at most ``most`` pairs, evenly chosen over all subtasks."""
    rows = [
        [row.task, row.subtask, float(gold), float(score)]
        for row in judged
        if row.subtask != "trained"
        for gold, score in zip(row.pairs.gold, row.scores, strict=True)
    ]
    if len(rows) > most:
        rows = [rows[i] for i in np.arange(most) * len(rows) // most]
    return _text(("task", "subtask", "gold", "cosine"), rows)


def bin_tsv(bins: Iterable[Bin]) -> str:
    """Return the disagreement by length and by overlap, from :class:`sightword.evaluation.semantics.breakdown.Bin`."""
    rows = [[f"{one.by} {one.range}", one.pairs, one.difference, one.lean] for one in bins]
    return _text(("name", "pairs", "rank_difference", "lean"), rows)


def disagreement_tsv(worst: Iterable[Disagreement]) -> str:
    """Return the pairs that encoder and people rank most differently, for a person to read; ranks in percent."""
    rows = []
    for one in worst:
        pairs, pair = one.row.pairs, one.pair
        ranks = [f"{100 * rank:.0f}" for rank in (one.gold_rank, one.score_rank)]
        scores = [f"{pairs.gold[pair]:g}", f"{one.row.scores[pair]:.3f}"]
        rows.append([_name(one.row), *scores, *ranks, pairs.first[pair], pairs.second[pair]])
    return _text(("subtask", "gold", "score", "gold_rank", "score_rank", "first", "second"), rows)


def _published(row: Judged) -> Scores:
    """Return the published scores on this subtask; empty for other sets and for an incomplete subtask."""
    key = (row.task, row.subtask, len(row.pairs))
    return next((known.scores for known in published_rows() if (known.task, known.subtask, known.pairs) == key), {})


def _with_ends(entry: Entry, kind: str) -> list[float | None]:
    """Return a correlation and the ends of its interval."""
    return [entry.get(kind), *(entry.get(f"{kind}_ci95") or (None, None))]


def _name(row: Judged) -> str:
    return f"{row.task} {row.subtask}"


def _text(header: Sequence[str], rows: Sequence[Sequence[object]], delimiter: str = "\t") -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([f"{cell:.6f}" if isinstance(cell, float) else cell for cell in row] for row in rows)
    return out.getvalue()
