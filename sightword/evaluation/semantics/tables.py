"""Writes the evaluation as tables: subtasks with the published systems, disagreements by range, and pairs to read."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sightword.evaluation.published import SYSTEMS, Score, published_rows, score_of
from sightword.evaluation.semantics.results import Judged, bare
from sightword.statistics.inference import mean_ranks

TRAINED = "trained"
"""The trained head's rows, which are left out, since they score the same pairs as the cosine."""


@dataclass(frozen=True)
class Bin:
    """The pairs of one range of length or overlap."""

    by: str
    """``length`` or ``overlap``."""
    range: str
    pairs: int
    difference: float | None
    """The mean absolute rank difference, as a share of the subtask's pairs; None without pairs."""
    lean: float | None
    """The mean rank difference; above 0 the encoder scores the pairs as more similar than people do."""


@dataclass(frozen=True)
class Disagreement:
    """One pair that the encoder and people rank differently."""

    row: Judged
    pair: int
    """The pair's index among the subtask's judged pairs, from 0."""
    gold_rank: float
    """The rank by people's scores, from 0 (least similar) to 1 (most similar)."""
    score_rank: float
    """The rank by the encoder's scores."""


def _overlap(first: str, second: str) -> float:
    """Return Jaccard's overlap: common words over all words of both sentences, without case and punctuation."""
    one, other = set(bare(first).split()), set(bare(second).split())
    return len(one & other) / len(one | other) if one | other else 1.0


_RANGES: dict[str, tuple[Callable[[str, str], float], dict[str, float]]] = {
    "length": (
        lambda first, second: (len(first.split()) + len(second.split())) / 2,  # the mean number of tokens
        {"up to 5": 5, "5 to 10": 10, "10 to 15": 15, "15 to 20": 20, "20 to 30": 30, "over 30": math.inf},
    ),
    "overlap": (
        _overlap,
        {"none": 0, "0.0 to 0.2": 0.2, "0.2 to 0.4": 0.4, "0.4 to 0.6": 0.6, "0.6 to 0.8": 0.8, "0.8 to 1.0": 1},
    ),
}
"""Each measure of a pair, and the ranges with their upper ends, which belong to the range."""


def bins(judged: Sequence[Judged]) -> list[Bin]:
    """Group all pairs by length in tokens and by the overlap of their words; the range without an end may be absent."""
    rows = _ranked(judged)
    differences = np.concatenate([np.empty(0), *(score - gold for _, score, gold in rows)])
    texts = [pair for row, *_ in rows for pair in zip(row.pairs.first, row.pairs.second, strict=True)]
    made = []
    for by, (measure, ranges) in _RANGES.items():
        values = [measure(*pair) for pair in texts]
        place = np.searchsorted(list(ranges.values()), np.asarray(values, dtype=float), side="left")
        for number, (name, end) in enumerate(ranges.items()):
            chosen = differences[place == number]
            if len(chosen):
                made.append(Bin(by, name, len(chosen), float(np.abs(chosen).mean()), float(chosen.mean())))
            elif math.isfinite(end):
                made.append(Bin(by, name, 0, None, None))
    return made


def worst(judged: Sequence[Judged], most: int) -> list[Disagreement]:
    """Return the ``most`` pairs with the largest rank differences, the largest first."""
    disagreements: list[Disagreement] = []
    for row, score, gold in _ranked(judged):
        # Each subtask gives enough pairs to fill the list alone.
        largest = np.argsort(-np.abs(score - gold), kind="stable")[:most]
        disagreements += [Disagreement(row, int(pair), float(gold[pair]), float(score[pair])) for pair in largest]
    disagreements.sort(key=lambda one: -round(abs(one.score_rank - one.gold_rank), 9))
    return disagreements[:most]


def _ranked(judged: Sequence[Judged]) -> list[tuple[Judged, NDArray[np.float64], NDArray[np.float64]]]:
    """Return the rows with two rankings, each with its (N,) ranks by the encoder and by people, from 0 to 1."""
    rows = [row for row in judged if row.subtask != TRAINED and row.entry["pearson"] is not None]
    ranks = [[(mean_ranks(by) - 1.0) / (len(by) - 1) for by in (row.scores, row.pairs.gold)] for row in rows]
    return [(row, score, gold) for row, (score, gold) in zip(rows, ranks, strict=True)]


THIS = "this encoder"
DRAWN = ("char-gru", "infersent", "bow")
"""The published systems in the drawing: those of Figure 3 of Merkx & Frank (2019)."""

Scores = Mapping[str, Score]


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


def bin_tsv(bins: Iterable[Bin]) -> str:
    """Return the disagreement by length and by overlap, from :class:`sightword.evaluation.semantics.tables.Bin`."""
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


def _name(row: Judged) -> str:
    return f"{row.task} {row.subtask}"


def _text(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter="\t", lineterminator="\n")
    writer.writerow(header)
    writer.writerows([f"{cell:.6f}" if isinstance(cell, float) else cell for cell in row] for row in rows)
    return out.getvalue()
