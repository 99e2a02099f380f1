"""Paired recalls against all possible resamples, McNemar's test, and where they must have no surprises."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.comparison import recall
from pipeline.comparison.recall import compare
from sightword.errors import ScoringError


def ranks_of(pictures):
    """Ranks of each picture's captions, from one list a picture."""
    return {
        "caption_to_image": {
            (f"{number:05}.jpg", place): rank
            for number, ranks in enumerate(pictures)
            for place, rank in enumerate(ranks)
        }
    }


def random_ranks(seed, pictures, captions, p):
    drawn = np.random.default_rng(seed).geometric(p, (pictures, captions))
    return ranks_of(np.where(drawn <= 10, drawn, 0).tolist())


def test_recalls_are_counted_and_only_one_sides_hits_are_told():
    a = ranks_of([[1, 3], [0, 7], [10, 1]])
    b = ranks_of([[1, 0], [5, 0], [10, 2]])
    rows = compare(a, b, depth=10, samples=10)
    assert [(row.depth, row.queries, row.only_a, row.only_b) for row in rows] == [
        (1, 6, 1, 0),
        (5, 6, 1, 1),
        (10, 6, 2, 1),
    ]
    assert [row.a for row in rows] == pytest.approx([100 / 3, 50, 500 / 6])
    assert [row.b for row in rows] == pytest.approx([100 / 6, 50, 400 / 6])
    assert [row.difference for row in rows] == pytest.approx([100 / 6, 0, 100 / 6])


def test_the_interval_is_that_of_all_possible_resamples_of_pictures():
    """Five pictures can be drawn in 5 to the 5 ways, all as likely; captions of a picture come together."""
    a = ranks_of([[1, 1, 1], [1, 1, 0], [2], [1, 2, 9, 0], [4, 4]])
    b = ranks_of([[0, 0, 1], [1, 2, 0], [1], [0, 2, 9, 0], [1, 4]])
    hits = [[sum(rank == 1 for rank in ranks) for ranks in table] for table in _lists(a, b)]
    sizes = [len(ranks) for ranks in _lists(a, b)[0]]
    exact = [
        100 * sum(hits[0][place] - hits[1][place] for place in drawn) / sum(sizes[place] for place in drawn)
        for drawn in itertools.product(range(5), repeat=5)
    ]
    row = compare(a, b, depth=10, samples=60_000)[0]
    assert row.interval[0] == pytest.approx(np.quantile(exact, 0.025), abs=2.5)
    assert row.interval[1] == pytest.approx(np.quantile(exact, 0.975), abs=2.5)


def _lists(*systems):
    found = []
    for system in systems:
        pictures: dict[str, list[int]] = {}
        for (picture, _), rank in sorted(system["caption_to_image"].items()):
            pictures.setdefault(picture, []).append(rank)
        found.append(list(pictures.values()))
    return found


def test_p_is_the_share_of_all_possible_swaps():
    """Of five pictures there are 2 to the 5 swaps; what is tied with what is seen counts."""
    a = ranks_of([[1, 1, 1], [1, 1, 0], [2], [1, 2, 9, 0], [4, 4]])
    b = ranks_of([[0, 0, 1], [1, 2, 0], [1], [0, 2, 9, 0], [1, 4]])
    hits = [[sum(rank == 1 for rank in ranks) for ranks in table] for table in _lists(a, b)]
    gaps = [one - other for one, other in zip(*hits, strict=True)]
    swaps = [
        abs(sum(sign * gap for sign, gap in zip(signs, gaps, strict=True)))
        for signs in itertools.product((1, -1), repeat=5)
    ]
    row = compare(a, b, depth=10, samples=60_000)[0]
    assert row.p == pytest.approx(np.mean([swap >= abs(sum(gaps)) for swap in swaps]), abs=0.01)


def test_captions_of_a_picture_are_not_independent():
    """Five captions that stand and fall together are one observation: the interval is as wide as with one of them."""
    one = random_ranks(3, 300, 1, 0.15), random_ranks(4, 300, 1, 0.12)
    five = [ranks_of([ranks * 5 for ranks in table]) for table in _lists(*one)]
    ours, theirs = compare(*one, depth=10, samples=500)[2], compare(*five, depth=10, samples=500)[2]
    assert theirs.queries == 5 * ours.queries
    assert theirs.interval == pytest.approx(ours.interval)
    assert theirs.p == ours.p


@given(st.integers(0, 2**20), st.integers(1, 30), st.integers(1, 4))
def test_a_and_b_may_change_places(seed, pictures, captions):
    a, b = random_ranks(seed, pictures, captions, 0.3), random_ranks(seed + 1, pictures, captions, 0.2)
    there, back = (compare(*pair, depth=10, samples=50) for pair in ((a, b), (b, a)))
    for one, other in zip(there, back, strict=True):
        assert one.difference == -other.difference
        assert (one.only_a, one.only_b) == (other.only_b, other.only_a)
        assert one.p == other.p
        assert (one.interval is None) == (other.interval is None) == (one.p is None)
        if one.interval is not None:
            assert one.interval == pytest.approx((-other.interval[1], -other.interval[0]))


def test_the_same_twice_and_in_blocks(monkeypatch):
    a, b = random_ranks(5, 90, 5, 0.3), random_ranks(6, 90, 5, 0.2)
    whole = compare(a, b, depth=10, samples=300, seed=7)
    monkeypatch.setattr(recall, "_DRAWS", 1000)
    assert compare(a, b, depth=10, samples=300, seed=7) == whole
    assert compare(a, b, depth=10, samples=300, seed=8) != whole


def test_other_queries_are_refused_and_counted():
    with pytest.raises(ScoringError, match="2 only in A, 0 only in B"):
        compare(ranks_of([[1], [2], [3]]), ranks_of([[1]]), depth=10)
    assert compare({}, {}, depth=10) == []
