"""Second captions are of the same picture."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sightword.features.tables.pairs import Pairs
from sightword.vse.training.texts import Texts


def split(counts: list[int]) -> Pairs:
    """Pictures with so many captions each, in a mixed order; the caption in row r is the one token r."""
    owners = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    ids = [np.array([row]) for row in range(len(owners))]
    names = [str(place) for place in range(len(counts))]
    features = np.zeros((len(counts), 2), np.float32)
    return Pairs(names, features, [""] * len(owners), ids, np.zeros(len(owners), np.int64), owners)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.integers(0, 3))
def test_the_second_caption_is_another_one_of_the_picture_if_there_is_one(counts, step) -> None:
    pairs = split(counts)
    rows = np.arange(len(pairs.ids))
    first, second = Texts(pairs, seed=0, second=True).of(rows, step)
    assert [ids.tolist() for ids in first] == [[row] for row in rows]
    for row, [other] in zip(rows, second, strict=True):
        assert pairs.image_of_caption[other] == pairs.image_of_caption[row]
        assert (other == row) == (counts[pairs.image_of_caption[row]] == 1)


def test_all_other_captions_come_equally_often() -> None:
    texts = Texts(split([5]), seed=0, second=True)
    found = Counter(int(texts.of(np.array([2]), step)[1][0][0]) for step in range(2000))
    assert found.keys() == {0, 1, 3, 4}
    assert min(found.values()) > 400


def test_without_a_second_caption_there_is_one() -> None:
    found = Texts(split([2, 2]), seed=0, second=False).of(np.array([3, 1]), 0)
    assert [[ids.tolist() for ids in each] for each in found] == [[[3], [1]]]


@given(st.permutations(range(12)), st.integers(0, 3))
def test_the_order_of_a_batch_does_not_change_the_draws(order, step) -> None:
    texts = Texts(split([4, 4, 4]), seed=0, second=True)
    plain, mixed = (dict(zip(rows, texts.of(np.array(rows), step)[1], strict=True)) for rows in (range(12), order))
    assert {row: ids.tolist() for row, ids in plain.items()} == {row: ids.tolist() for row, ids in mixed.items()}


def test_the_draws_depend_on_seed_and_batch_and_on_nothing_else() -> None:
    pairs = split([5] * 20)
    rows = np.arange(20)

    def drawn(seed: int, step: int) -> list[int]:
        return np.concatenate(Texts(pairs, seed=seed, second=True).of(rows, step)[1]).tolist()

    assert drawn(0, 4) == drawn(0, 4)
    assert len({tuple(drawn(seed, step)) for seed, step in ((0, 4), (0, 5), (1, 4))}) == 3
