from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata

from sightword.evaluation.semantics.datasets import RatedPairs
from sightword.evaluation.semantics.results import judge_pairs
from sightword.evaluation.semantics.tables import bins, worst


def judged(first, second, gold, scores, *, subtask="street", task="STSOwn"):
    pairs = RatedPairs(first, second, np.asarray(gold, dtype=np.float64))
    return judge_pairs(task, subtask, pairs, np.asarray(scores, dtype=np.float64), None)


def random_row(count, seed, subtask="street"):
    random = np.random.default_rng(seed)
    words = np.array(["a", "b", "c", "d", "e", "f"])
    texts = [[" ".join(random.choice(words, random.integers(1, 40))) for _ in range(count)] for _ in range(2)]
    return judged(*texts, random.integers(0, 6, count), random.standard_normal(count), subtask=subtask)


def plain_differences(row):
    n = len(row.pairs)
    return (rankdata(row.scores) - rankdata(row.pairs.gold)) / (n - 1)


def test_every_pair_is_in_one_range_of_each_kind():
    rows = [random_row(300, 1), random_row(200, 2, "park")]
    found = bins(rows)
    for kind in ("length", "overlap"):
        assert sum(one.pairs for one in found if one.by == kind) == 500
    everything = np.concatenate([plain_differences(row) for row in rows])
    for kind in ("length", "overlap"):
        some = [one for one in found if one.by == kind and one.pairs]
        assert sum(one.difference * one.pairs for one in some) == pytest.approx(np.abs(everything).sum())
        assert sum(one.lean * one.pairs for one in some) == pytest.approx(everything.sum(), abs=1e-9)


def test_ranges_are_those_of_a_plain_count():
    row = random_row(400, 3)
    difference = plain_differences(row)
    texts = list(zip(row.pairs.first, row.pairs.second, strict=True))
    length = np.array([(len(a.split()) + len(b.split())) / 2 for a, b in texts])
    overlap = np.array([len(set(a.split()) & set(b.split())) / len(set(a.split() + b.split())) for a, b in texts])
    found = {(one.by, one.range): one for one in bins([row])}
    for name, inside in (
        ("up to 5", length <= 5),
        ("10 to 15", (length > 10) & (length <= 15)),
        ("over 30", length > 30),
    ):
        one = found["length", name]
        assert one.pairs == inside.sum() > 0
        assert one.difference == pytest.approx(np.abs(difference[inside]).mean())
    for name, inside in (("none", overlap == 0), ("0.2 to 0.4", (overlap > 0.2) & (overlap <= 0.4))):
        one = found["overlap", name]
        assert one.pairs == inside.sum() > 0
        assert one.lean == pytest.approx(difference[inside].mean())


def test_unrelated_rankings_differ_by_a_third():
    row = random_row(4000, 4)
    size = sum(one.difference * one.pairs for one in bins([row]) if one.by == "length" and one.pairs) / 4000
    assert size == pytest.approx(1 / 3, abs=0.02)


def test_the_worst_pairs_come_first_over_all_subtasks():
    agree = judged(["a", "b", "c"], ["a", "b", "c"], [0, 1, 2], [0.1, 0.2, 0.3])
    differ = judged(["high", "mid", "low"], ["x", "y", "z"], [5, 3, 1], [0.1, 0.2, 0.9], subtask="park")
    found = worst([agree, differ], 4)
    assert [(one.row.subtask, one.row.pairs.first[one.pair]) for one in found[:2]] == [
        ("park", "high"),
        ("park", "low"),
    ]
    assert (found[0].gold_rank, found[0].score_rank) == (1.0, 0.0)
    assert len(found) == 4
    assert worst([agree, differ], 0) == []


def test_the_list_is_that_of_a_full_sort():
    rows = [random_row(60, seed, f"s{seed}") for seed in range(4)]
    sizes = sorted(np.concatenate([np.abs(plain_differences(row)) for row in rows]), reverse=True)
    found = worst(rows, 25)
    assert [abs(one.score_rank - one.gold_rank) for one in found] == pytest.approx(sizes[:25])


def test_trained_rows_and_constant_encoders_are_left_out():
    constant = judged(["a", "b"], ["c", "d"], [1, 2], [1, 1])
    trained = judged(["a", "b"], ["c", "d"], [1, 2], [1, 2], subtask="trained")
    assert worst([constant, trained], 5) == []
    assert all(one.pairs == 0 and one.difference is None for one in bins([constant, trained]))
    assert bins([])
