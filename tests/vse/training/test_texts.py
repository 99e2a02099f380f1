"""Second captions are of the same picture; typing errors are drawn anew for each batch."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sightword.features.tables.pairs import Pairs
from sightword.vse.training.batches import Beside, Texts, mistyped
from sightword.vse.training.settings import TrainSettings


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


@given(st.lists(st.integers(1, 4), min_size=2, max_size=9), st.integers(2, 4), st.integers(0, 2))
def test_captions_beside_pass_through_all_groups_each_with_another_of_its_group(counts, size, seed) -> None:
    size = min(size, len(counts))
    pairs, steps = split(counts), len(counts) // size
    beside = Beside(pairs, TrainSettings(seed=seed, beside_batch=size))
    for passed in range(3):
        rows = [beside.rows(passed * steps + step) for step in range(steps)]
        groups = pairs.image_of_caption[np.concatenate(rows)]
        assert len(set(groups)) == steps * size
        for step, own in enumerate(rows):
            first, second = (np.concatenate(ids) for ids in beside.of(own, passed * steps + step))
            assert first.tolist() == own.tolist()
            assert (pairs.image_of_caption[second] == pairs.image_of_caption[first]).all()
            assert ((first == second) == (np.array(counts)[pairs.image_of_caption[first]] == 1)).all()


def test_captions_beside_are_drawn_by_seed_and_batch_from_whole_group() -> None:
    pairs = split([5] * 20)

    def drawn(seed: int, step: int) -> list[int]:
        return Beside(pairs, TrainSettings(seed=seed, beside_batch=8)).rows(step).tolist()

    assert drawn(0, 4) == drawn(0, 4)
    assert len({tuple(drawn(seed, step)) for seed, step in ((0, 4), (0, 5), (1, 4))}) == 3
    found = Counter(row for step in range(400) for row in drawn(0, step))
    assert len(found) == 100
    assert min(found.values()) > 10


@given(st.lists(st.integers(0, 9), max_size=30), st.floats(0, 0.99), st.integers(0, 99))
def test_mistyped_caption_has_its_own_tokens_between_its_first_and_its_last_one(ids, share, seed) -> None:
    row = np.array(ids, np.int64)
    found = mistyped(row, share, np.random.default_rng(seed))
    assert not Counter(found.tolist()) - Counter(ids)
    assert found[:1].tolist() + found[-1:].tolist() == ids[:1] + ids[-1:]
    assert row.tolist() == ids


def test_mistyped_caption_has_as_many_errors_as_its_share() -> None:
    ids, random = np.arange(1002), np.random.default_rng(0)
    found = [mistyped(ids, 0.02, random) for _ in range(100)]
    left_out = np.mean([len(ids) - len(one) for one in found])
    exchanged = np.mean([np.sum(np.diff(one) < 0) for one in found])
    assert 9 < left_out < 11
    assert 9 < exchanged < 11
    assert [mistyped(ids, 0.0, random).tolist()] == [ids.tolist()]


def test_typing_errors_depend_on_the_batch_and_not_on_the_order_of_its_captions() -> None:
    pairs = split([1] * 4)
    ids = [np.arange(40) + 100 * row for row in range(4)]
    texts = Texts(replace(pairs, ids=ids), seed=0, second=True, typing_errors=0.2)
    forwards, backwards = texts.of(np.arange(4), 7), texts.of(np.arange(4)[::-1], 7)
    for one, other in zip(forwards, backwards, strict=True):
        assert [row.tolist() for row in one] == [row.tolist() for row in other[::-1]]
        assert all(row.tolist() != own.tolist() for row, own in zip(one, ids, strict=True))
    assert [row.tolist() for row in forwards[0]] != [row.tolist() for row in forwards[1]]
    assert [row.tolist() for row in forwards[0]] != [row.tolist() for row in texts.of(np.arange(4), 8)[0]]
