"""The scores in files of metrics."""

from __future__ import annotations

import pytest

from pipeline.results.records import Score
from pipeline.results.scores import find_scores


def test_scores_have_their_intervals_and_counts_are_left_out():
    values = {
        "r1": 93.75, "r1_ci95": 2.5, "r1_bootstrap95": [90.0, 97.0],
        "r5": 99.75, "r5_ci95": [98.5, 99.9],
        "median": 2.0, "median_bootstrap95": [1.0, 3.0],
        "queries": 400, "note": "text", "epochs": [1, 2], "undefined": None, "best": True,
        "infinite": float("inf"), "lonely_ci95": 0.5, "broken": 1.0, "broken_ci95": ["a", "b"],
        "surprise.OnWN": {"pearson": 0.5, "pairs": 3},
    }  # fmt: skip
    assert find_scores(values, "retrieval") == {
        "retrieval.r1": Score(value=93.75, low=91.25, high=96.25),
        "retrieval.r5": Score(value=99.75, low=98.5, high=99.9),
        "retrieval.median": Score(value=2.0, low=1.0, high=3.0),
        "retrieval.broken": Score(value=1.0),
        "retrieval.surprise.OnWN.pearson": Score(value=0.5),
    }


@pytest.mark.parametrize("half", [0.1 + 0.2, 1e-9])
def test_ends_of_an_interval_have_six_digits(half):
    (score,) = find_scores({"r": 1.0, "r_ci95": half}, "x").values()
    assert (score.low, score.high) == (round(1.0 - half, 6), round(1.0 + half, 6))
