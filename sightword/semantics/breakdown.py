"""Shows where an encoder disagrees with people: by length, by shared words, and pair by pair.

Within each subtask the pairs are ranked twice, by people's scores and by the encoder's. The difference of a pair's two
ranks, as a share of the subtask's pairs, measures the disagreement on any two scales. Two unrelated rankings differ by
a third on average.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sightword.semantics.contamination import bare
from sightword.semantics.results import Judged
from sightword.statistics import mean_ranks

TRAINED = "trained"
"""The trained head's rows, which are left out, since they score the same pairs as the cosine."""

LENGTHS = (5, 10, 15, 20, 30)
"""Upper ends of the ranges of length, the mean number of tokens of a pair's sentences; the last range is open."""
OVERLAPS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Upper ends of the ranges of overlap; the first range holds the pairs without a common word."""


@dataclass(frozen=True)
class Bin:
    """The pairs of one range of length or overlap.

    Attributes:
        by: ``length`` or ``overlap``.
        range: the range.
        pairs: the number of pairs.
        difference: the mean absolute rank difference, as a share of the subtask's pairs; None without pairs.
        lean: the mean rank difference; above 0 the encoder scores the pairs as more similar than people do.
    """

    by: str
    range: str
    pairs: int
    difference: float | None
    lean: float | None


@dataclass(frozen=True)
class Disagreement:
    """One pair that the encoder and people rank differently.

    Attributes:
        row: the subtask.
        pair: the pair's index among the subtask's judged pairs, from 0.
        gold_rank: the rank by people's scores, from 0 (least similar) to 1 (most similar).
        score_rank: the rank by the encoder's scores.
    """

    row: Judged
    pair: int
    gold_rank: float
    score_rank: float


def bins(judged: Sequence[Judged]) -> list[Bin]:
    """Group all pairs by length in tokens and by the overlap of their words.

    Overlap is Jaccard's: common words over all words of both sentences, without case and punctuation.
    """
    rows = _ranked(judged)
    differences = np.concatenate([_difference(row) for row in rows]) if rows else np.empty(0)
    return [
        *_by("length", rows, differences, _length, LENGTHS, _length_range),
        *_by("overlap", rows, differences, _overlap, OVERLAPS, _overlap_range),
    ]


def worst(judged: Sequence[Judged], most: int) -> list[Disagreement]:
    """Return the ``most`` pairs with the largest rank differences, the largest first."""
    found: list[Disagreement] = []
    for row in _ranked(judged):
        gold, score = _ranks(row.pairs.gold), _ranks(row.scores)
        # Each subtask gives enough pairs to fill the list alone.
        largest = np.argsort(-np.abs(score - gold), kind="stable")[:most]
        found += [Disagreement(row, int(pair), float(gold[pair]), float(score[pair])) for pair in largest]
    found.sort(key=lambda one: -round(abs(one.score_rank - one.gold_rank), 9))
    return found[:most]


def _ranked(judged: Sequence[Judged]) -> list[Judged]:
    """Return the rows with two rankings to compare."""
    return [row for row in judged if row.subtask != TRAINED and row.entry["pearson"] is not None]


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (N,) ranks from 0 for the lowest to 1 for the highest; tied values share their mean rank."""
    ranks: NDArray[np.float64] = (mean_ranks(values) - 1.0) / (len(values) - 1)
    return ranks


def _difference(row: Judged) -> NDArray[np.float64]:
    return _ranks(row.scores) - _ranks(row.pairs.gold)


def _length(first: str, second: str) -> float:
    return (len(first.split()) + len(second.split())) / 2


def _overlap(first: str, second: str) -> float:
    one, other = set(bare(first).split()), set(bare(second).split())
    return len(one & other) / len(one | other) if one | other else 1.0


def _by(
    name: str,
    rows: Sequence[Judged],
    differences: NDArray[np.float64],
    measure: Callable[[str, str], float],
    ends: Sequence[float],
    name_of_range: Callable[[int], str],
) -> list[Bin]:
    values = [measure(a, b) for row in rows for a, b in zip(row.pairs.first, row.pairs.second, strict=True)]
    place = np.searchsorted(np.asarray(ends, dtype=float), np.asarray(values, dtype=float), side="left")
    found = []
    for number in range(int(place.max(initial=len(ends) - 1)) + 1):
        chosen = differences[place == number]
        size, lean = (float(np.abs(chosen).mean()), float(chosen.mean())) if len(chosen) else (None, None)
        found.append(Bin(name, name_of_range(number), len(chosen), size, lean))
    return found


def _length_range(number: int) -> str:
    if number == len(LENGTHS):
        return f"over {LENGTHS[-1]}"
    return f"{LENGTHS[number - 1]} to {LENGTHS[number]}" if number else f"up to {LENGTHS[0]}"


def _overlap_range(number: int) -> str:
    return f"{OVERLAPS[number - 1]:.1f} to {OVERLAPS[number]:.1f}" if number else "none"
