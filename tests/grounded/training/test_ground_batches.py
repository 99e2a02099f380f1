"""Batches of pictures with two captions each, controls, and captions that cannot be trained on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_ground import TEXTS, described, rows, scenario

from sightword.errors import TrainingError
from sightword.features.tables.pairs import Pairs
from sightword.grounded.training import batches
from sightword.grounded.training.batches import batch, check


@given(number=st.integers(0, 50), seed=st.integers(0, 9), size=st.integers(2, 10))
def test_no_picture_is_twice_in_a_batch_and_captions_are_its_own(number, seed, size):
    split = described(each=3)
    found = batch(split, scenario(batch=size), seed, number)
    assert len(set(found.pictures.tolist())) == size
    assert (split.picture_of[found.first] == found.pictures).all()
    paired = found.second >= 0
    assert (split.picture_of[found.second[paired]] == found.pictures[paired]).all()
    assert (found.first != found.second).all()


def test_an_epoch_has_each_picture_once_and_all_captions_come():
    split, size = described(each=4), 2
    count = len(split.features)
    seen = [batch(split, scenario(batch=size), 0, number) for number in range(40 * count // size)]
    epoch = np.concatenate([one.pictures for one in seen[: count // size]])
    assert sorted(epoch) == list(range(count))
    firsts, seconds = (np.concatenate([getattr(one, side) for one in seen]) for side in ("first", "second"))
    assert set(firsts) == set(seconds) == set(range(len(TEXTS)))
    counts = np.bincount(seconds)
    assert counts.min() > 2  # of 10 expected


def test_a_picture_with_one_caption_has_no_second():
    split = described(TEXTS[:7], each=2)
    seen = [batch(split, scenario(), 0, number) for number in range(5)]
    assert all((one.second[one.pictures == 3] == -1).all() for one in seen)
    assert split.single == 1


def test_copies_are_found_by_their_features():
    features = [[1, 2], [3, 4], [1, 2], [5, 6]]
    split = described(TEXTS[:8], features=features)
    assert split.copy_of.tolist() == [0, 1, 0, 3]
    assert split.copies == 1


def test_shuffled_controls_keep_everything_but_the_order():
    split = described()
    moved = split.controlled(scenario(pictures="shuffled"), 1)
    assert sorted(moved.features.tolist()) == sorted(split.features.tolist())
    assert (moved.features == split.features[moved.shown]).all()
    assert (moved.shown != split.shown).any()
    assert moved.copy_of is split.copy_of
    dealt = split.controlled(scenario(clusters="shuffled"), 1)
    assert sorted(dealt.picture_of) == sorted(split.picture_of)
    assert (dealt.picture_of != split.picture_of).any()
    assert (dealt.features == split.features).all()


def pairs():
    features = np.arange(8, dtype=np.float32).reshape(4, 2)
    texts = ["a red ball", "a red ball lies here", "a cup", "a hat is there"]
    return Pairs(list("abcd"), features, texts, rows(texts), np.zeros(4, np.int64), np.arange(4))


def test_long_captions_and_pictures_without_a_caption_are_left_out():
    found = batches.described(pairs(), 5)
    assert (found.left_out, len(found.ids), found.picture_of.tolist()) == (1, 3, [0, 1, 2])
    assert found.features.tolist() == [[0, 1], [4, 5], [6, 7]]
    with pytest.raises(TrainingError, match="all 4 captions have 2 tokens or more"):
        batches.described(pairs(), 2)


@pytest.mark.parametrize(
    ("split", "changes", "message"),
    [
        (described(TEXTS[:6]), {"cluster": 1}, "a batch has 4 pictures, and training has 3"),
        (described(each=1), {"cluster": 1}, "need two captions of a picture; 0 of 32 pictures have them"),
        (described(TEXTS[:20]), {"cap2cap": 1, "batch": 11}, "training has 10"),
        (described(features=np.ones((16, 3))), {"perceptual": 1}, r"constant \(1 different"),
        (described(features=np.outer(np.arange(1, 17), [1, 2])), {"perceptual": 1}, "all in one direction"),
        (described(features=np.ones((16, 3))), {"cluster": 1}, None),
        (described(each=1), {"perceptual": 1}, None),
    ],
)
def test_what_cannot_be_trained_on_is_refused(split, changes, message):
    if message is None:
        check(split, scenario(**changes))
        return
    with pytest.raises(TrainingError, match=message):
        check(split, scenario(**changes))


def test_pictures_with_one_caption_are_counted(caplog):
    with caplog.at_level("WARNING"):
        check(described(TEXTS[:9]), scenario(cluster=1))
    assert "1 of 5 pictures have one caption" in caplog.text
