"""An interval of a row follows from its score: a changed score, or a changed interval, is a fault."""

from __future__ import annotations

import math

import pytest

from study import intervals
from study.rows import Row, Score

R10 = "retrieval.test.full.caption_to_image.r10"
RATED = "semantics.STSBenchmark.cosine"


def wald(hits: int, cases: int) -> Score:
    share = hits / cases
    half = round(196.0 * math.sqrt(share * (1.0 - share) / cases), 6)
    value = round(100.0 * share, 6)
    return Score(value=value, low=round(value - half, 6), high=round(value + half, 6))


def wilson(hits: int, cases: int) -> Score:
    share, ratio = hits / cases, 1.96**2 / cases
    half = math.sqrt(ratio * (share * (1.0 - share) + ratio / 4.0))
    low, high = (round(100.0 * (share + ratio / 2.0 + sign * half) / (1.0 + ratio), 6) for sign in (-1, 1))
    return Score(value=round(100.0 * share, 6), low=low if hits else 0.0, high=high if hits < cases else 100.0)


def fisher(r: float, pairs: int, variance: float = 1.0) -> Score:
    half = 1.96 * math.sqrt(variance / (pairs - 3))
    low, high = (round(math.tanh(math.atanh(r) + sign * half), 6) for sign in (-1, 1))
    return Score(value=r, low=low, high=high)


SOUND = [
    (R10, wald(3702, 5000)),
    (R10, wilson(3, 1000)),
    (R10, wilson(0, 929)),
    (R10, wilson(1000, 1000)),
    (R10, Score(value=67.2, low=65.9, high=68.5)),
    ("hypernyms/evaluate.test.order.accuracy", wald(7880, 8000)),
    (f"{RATED}.pearson", fisher(0.757123, 1379)),
    (f"{RATED}.spearman", fisher(0.713, 1379, 1.0 + 0.713**2 / 2.0)),
    ("retrieval.test.full.caption_to_image.median_rank", Score(value=3.0, low=2.0, high=9.0)),
]


@pytest.mark.parametrize(("name", "score"), SOUND)
def test_interval_of_its_score_follows(name: str, score: Score) -> None:
    assert intervals.follows(name, score)


def moved(score: Score, by: float) -> Score:
    assert score.low is not None
    assert score.high is not None
    return Score(value=round(score.value + by, 6), low=round(score.low + by, 6), high=round(score.high + by, 6))


@pytest.mark.parametrize(
    ("name", "score"),
    [
        (R10, moved(wald(3702, 5000), 20.0)),
        (R10, moved(wald(3702, 5000), 0.1)),
        (R10, wald(3702, 5000).model_copy(update={"value": 74.06})),
        (R10, wald(3702, 5000).model_copy(update={"high": 75.3})),
        (R10, Score(value=74.03, low=72.814571, high=75.245429)),  # Wald's, but 3701.5 of 5,000
        (R10, moved(wilson(3, 1000), 5.0)),
        (R10, Score(value=94.0, low=92.7, high=95.3)),  # few digits: not of 5,000 captions
        (R10, Score(value=104.0, low=102.7, high=105.3)),
        ("hypernyms/evaluate.test.order.accuracy", moved(wald(7880, 8000), -1.0)),
        (f"{RATED}.pearson", moved(fisher(0.757123, 1379), 0.1)),
        (f"{RATED}.spearman", fisher(0.713, 1379)),
        ("entailment/evaluate.test.order.accuracy", Score(value=80.0, low=78.123456, high=81.0)),
    ],
)
def test_interval_of_another_score_does_not_follow(name: str, score: Score) -> None:
    assert not intervals.follows(name, score)


def test_score_moved_with_its_interval_is_a_fault_of_the_row() -> None:
    run = {"seeds": [3], "scores": {R10: moved(wald(3702, 5000), 20.0), "retrieval.test.full.rsum": Score(value=200.0)}}
    row = Row.model_validate({"topic": "ngrams", "name": "three", "recipe": "flickr8k-three", "runs": [run]})
    (fault,) = intervals.faults({row.key: row})
    assert fault == (
        f"ngrams/three: {R10} = 94.04: its 95 % interval, 92.8248 to 95.2552, is that of another score or "
        "number of cases (seed 3)"
    )
