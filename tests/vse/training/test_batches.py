"""Every caption once an epoch, no picture twice in a batch."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightword.features.tables.pairs import Pairs
from sightword.vse.training.batches import batches

COUNTS = st.lists(st.integers(1, 7), min_size=2, max_size=40)
"""Captions of each picture."""


def pairs_with(counts, *, gap=1):
    """One picture for each count, with so many captions of growing length."""
    image = np.repeat(np.arange(len(counts)), counts)
    numbers = np.concatenate([np.arange(count) * gap for count in counts])
    return Pairs(
        image_ids=[f"{place}" for place in range(len(counts))],
        features=np.zeros((len(counts), 2), np.float32),
        texts=["x"] * len(image),
        ids=[np.ones(1 + (row * 7) % 13, np.int64) for row in range(len(image))],
        numbers=numbers,
        image_of_caption=image,
    )


@given(COUNTS, st.integers(2, 12), st.integers(1, 4), st.integers(0, 5), st.integers(1, 3))
@settings(max_examples=80, deadline=None)
def test_all_captions_once_and_no_picture_twice(counts, size, bucket, epoch, gap):
    pairs = pairs_with(counts, gap=gap)
    found = batches(pairs, size=size, bucket=bucket, seed=3, epoch=epoch)
    left_out = set(range(sum(counts))) - set(np.concatenate(found).tolist())
    assert sum(len(rows) for rows in found) + len(left_out) == sum(counts)
    # Only a caption that is alone in its pass is left out: the picture with most captions, its last ones.
    second, most = sorted(counts)[-2:]
    assert len(left_out) == most - second
    for rows in found:
        assert len(rows) > 1
        assert len(rows) <= size or (size, len(rows)) == (2, 3)  # one that would be alone joins another two
        assert len(set(pairs.image_of_caption[rows].tolist())) == len(rows)
    assert len(found) == len(batches(pairs, size=size, bucket=bucket, seed=3, epoch=0))


def test_a_pass_takes_the_same_numbered_caption_of_every_picture():
    pairs = pairs_with([5] * 20)
    for rows in batches(pairs, size=10, bucket=1, seed=0, epoch=0):
        assert len(set(pairs.numbers[rows].tolist())) == 1


def test_the_order_depends_on_seed_and_epoch_and_on_nothing_else():
    pairs = pairs_with([5] * 20)
    orders = {
        (seed, epoch): np.concatenate(batches(pairs, size=8, bucket=2, seed=seed, epoch=epoch)).tolist()
        for seed in (0, 1)
        for epoch in (0, 1)
    }
    assert len({tuple(order) for order in orders.values()}) == 4
    again = np.concatenate(batches(pairs, size=8, bucket=2, seed=1, epoch=0)).tolist()
    assert again == orders[1, 0]


def test_buckets_save_padding():
    pairs = pairs_with([5] * 100)

    def padded(bucket):
        found = batches(pairs, size=10, bucket=bucket, seed=0, epoch=0)
        return sum(len(rows) * max(len(pairs.ids[row]) for row in rows) for rows in found)

    assert padded(10) < 0.8 * padded(1)


@pytest.mark.parametrize(("pictures", "size", "bucket"), [(1000, 32, 4), (600, 32, 6), (997, 10, 7)])
def test_a_batch_is_of_one_length_among_those_it_was_sorted_with(pictures, size, bucket):
    """All lengths differ, so at each length there is one batch of each pool at most."""
    pairs = pairs_with([1] * pictures)
    pairs = dataclasses.replace(pairs, ids=[np.ones(1 + row * 7 % pictures, np.int64) for row in range(pictures)])
    found = batches(pairs, size=size, bucket=bucket, seed=0, epoch=0)
    lengths = [[len(pairs.ids[row]) for row in rows] for rows in found]
    pools = math.ceil(math.ceil(pictures / size) / bucket)
    at_once = [sum(min(own) <= length <= max(own) for own in lengths) for length in range(1, pictures + 1)]
    assert max(at_once) == pools
    assert {len(rows) for rows in found} <= {pictures // len(found), -(-pictures // len(found))}


@pytest.mark.parametrize("size", [3, 32])
def test_without_sorting_the_order_is_a_shuffle_of_each_pass_cut_evenly(size):
    pairs = pairs_with([5] * 70)
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([4, 2])))
    passes = [random.permutation(np.arange(number, 350, 5)) for number in range(5)]
    wanted = [rows for own in passes for rows in np.array_split(own, math.ceil(70 / size))]
    found = batches(pairs, size=size, bucket=1, seed=4, epoch=2)
    assert [rows.tolist() for rows in found] == [rows.tolist() for rows in wanted]


@given(COUNTS, st.integers(2, 12), st.integers(1, 4), st.sampled_from(["all", "one"]))
@settings(max_examples=80, deadline=None)
def test_batches_with_last_one_dropped_have_equal_sizes(counts, size, bucket, captions):
    pairs = pairs_with(counts)
    found = batches(pairs, size=size, bucket=bucket, seed=3, epoch=1, captions=captions, last_batch="drop")
    assert {len(rows) for rows in found} <= {size}
    taken = np.concatenate(found).tolist() if found else []
    assert len(set(taken)) == len(taken)
    assert all(len(set(pairs.image_of_caption[rows].tolist())) == size for rows in found)
    passes = [sum(count > number for count in counts) for number in range(7)] if captions == "all" else [len(counts)]
    assert len(found) == sum(number // size for number in passes)


@given(COUNTS, st.integers(2, 12), st.integers(1, 4), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_epoch_of_one_caption_has_every_picture_once(counts, size, bucket, epoch):
    pairs = pairs_with(counts)
    found = batches(pairs, size=size, bucket=bucket, seed=3, epoch=epoch, captions="one")
    assert sorted(pairs.image_of_caption[np.concatenate(found)].tolist()) == list(range(len(counts)))
    assert all(2 <= len(rows) <= max(size, 3) for rows in found)
    assert len(found) == len(batches(pairs, size=size, bucket=bucket, seed=3, epoch=0, captions="one"))
    again = batches(pairs, size=size, bucket=bucket, seed=3, epoch=epoch, captions="one")
    assert np.concatenate(found).tolist() == np.concatenate(again).tolist()


def test_with_one_caption_an_epoch_all_captions_have_their_turn():
    pairs = pairs_with([1, 2, 5] * 4)
    drawn = [
        row
        for epoch in range(400)
        for rows in batches(pairs, size=8, bucket=1, seed=0, epoch=epoch, captions="one")
        for row in rows.tolist()
    ]
    counts = np.bincount(drawn, minlength=len(pairs.ids))
    share = counts * np.bincount(pairs.image_of_caption)[pairs.image_of_caption] / 400
    assert share.min() > 0.6
    assert share.max() < 1.4
