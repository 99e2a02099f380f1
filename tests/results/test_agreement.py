"""Which scores of a run made again may differ."""

from __future__ import annotations

import pytest

from pipeline.results.agreement import compare
from pipeline.results.records import Row, Score


def row(*values: float, **about: object) -> Row:
    runs = [{"seeds": [seed], "scores": {"r10": {"value": value, **about}}} for seed, value in enumerate(values)]
    return Row.model_validate({"topic": "a", "name": "b", "recipe": "c", "runs": runs})


def differing(one: Row, value: float, *, equal: bool) -> list[bool]:
    found = compare(one, one.runs[0], {"r10": Score(value=value)}, equal=equal)
    return [difference.beyond for difference in found]


@pytest.mark.parametrize(
    ("one", "value", "equal", "beyond"),
    [
        (row(70.0), 70.0, True, []),
        (row(70.0), 70.000001, True, [True]),
        (row(70.0, low=68.0, high=72.0), 71.9, False, [False]),
        (row(70.0, low=68.0, high=72.0), 72.1, False, [True]),
        (row(70.0, low=68.0, high=72.0), 71.9, True, [True]),
        (row(70.0), 12.0, False, [False]),  # nothing is known of its spread
        (row(69.0, 70.0, 71.0), 72.4, False, [False]),  # mean 70, deviation 1
        (row(69.0, 70.0, 71.0), 72.6, False, [True]),
        (row(69.0, 71.0, low=68.0, high=72.0), 72.5, False, [True]),  # two seeds are too few
        (row(70.0, 70.0, 70.0, low=69.0, high=71.0), 70.5, False, [False]),  # no spread over seeds
    ],
)
def test_difference_counts_beyond_the_bounds_alone(one, value, equal, beyond):
    assert differing(one, value, equal=equal) == beyond


@pytest.mark.parametrize(("seeds", "beyond"), [([0, 1, 2], [False]), ([0, 1], [True])])
def test_mean_over_seeds_has_their_deviation_from_three_seeds_on(seeds, beyond):
    score = {"value": 70.0, "sd": 1.0, "low": 69.9, "high": 70.1}
    values = {"topic": "a", "name": "b", "recipe": "c", "runs": [{"seeds": seeds, "scores": {"r10": score}}]}
    assert differing(Row.model_validate(values), 72.4, equal=False) == beyond


def test_differences_stand_in_order_and_a_lost_score_is_first():
    values = {name: {"value": 100.0, "low": 90.0, "high": 110.0} for name in "abcde"}
    one = Row.model_validate({"topic": "a", "name": "b", "recipe": "c", "runs": [{"seeds": [0], "scores": values}]})
    again = {"a": Score(value=101.0), "b": Score(value=120.0), "c": Score(value=105.0), "d": Score(value=100.0)}
    found = compare(one, one.runs[0], {**again, "new": Score(value=3.0)}, equal=False)
    assert [(each.name, each.beyond) for each in found] == [("e", True), ("b", True), ("c", False), ("a", False)]
