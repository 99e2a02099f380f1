"""Batches of pictures with captions, and the losses against plain loops in float64 and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_ground import TEXTS, described, rows, scenario

from sightword.errors import TrainingError
from sightword.features.tables.pairs import Pairs
from sightword.grounded.training import task as batches
from sightword.grounded.training.task import MARGIN, batch, check, cluster, cosines, perceptual, ranked


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


def test_shuffled_controls_keep_everything_but_the_order():
    split = described()
    moved = split.controlled(scenario(pictures="shuffled", perceptual=1), 1)
    assert sorted(moved.features.tolist()) == sorted(split.features.tolist())
    assert (moved.features == split.features[moved.shown]).all()
    assert (moved.shown != split.shown).any()
    assert moved.copy_of is split.copy_of
    dealt = split.controlled(scenario(clusters="shuffled", cluster=1), 1)
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
        (described(each=1), {"cluster": 1}, "need two captions of a picture; 0 of 32 pictures have them"),
        (described(features=np.ones((16, 3))), {"perceptual": 1}, r"constant \(1 different"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(split, changes, message):
    with pytest.raises(TrainingError, match=message):
        check(split, scenario(**changes))


def vectors(rows, width, seed):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(rows, width)))


def cosine(one, other):
    return float(np.dot(one, other) / np.linalg.norm(one) / np.linalg.norm(other))


def hinge(right, wrong):
    return max(0.0, MARGIN - right + wrong)


def by_loops(scores, same, draws):
    """Equation 2 of Bordes et al. (2019) over rows i and mismatches j: one of a row, or all in both directions."""
    count = len(scores)
    total, rows = 0.0, 0
    for i in range(count):
        mismatches = [j for j in range(count) if not same[i, j]]
        if draws is not None:
            mismatches = sorted(mismatches, key=lambda j: draws[i, j])[-1:]
        for j in mismatches:
            anchored = hinge(scores[i, i], scores[i, j])
            total += anchored if draws is not None else (anchored + hinge(scores[i, i], scores[j, i])) / 2
        rows += bool(mismatches)
    return total / max(rows, 1)


@pytest.mark.parametrize("drawn", [True, False])
@given(rows=st.integers(1, 16), width=st.integers(1, 5), seed=st.integers(0, 1000), copies=st.booleans())
def test_ranked_is_equation_2(drawn, rows, width, seed, copies):
    left, right = vectors(rows, width, seed), vectors(rows, width, seed + 1)
    random = np.random.default_rng(seed)
    number = random.integers(0, 1 + rows // 2, rows) if copies else np.arange(rows)
    same = torch.from_numpy(number[:, None] == number)
    draws = torch.from_numpy(random.random((rows, rows))) if drawn else None
    scores = np.array([[cosine(one, other) for other in right.numpy()] for one in left.numpy()])
    expected = pytest.approx(by_loops(scores, same, draws), abs=1e-12)
    assert float(ranked(cosines(left, right), same, draws)) == expected
    if drawn:
        assert float(cluster(left * 3.5, right * 0.25, same, draws)) == expected


@given(rows=st.integers(3, 8), width=st.integers(2, 5), seed=st.integers(0, 1000))
def test_perceptual_is_minus_the_correlation_of_the_cosines(rows, width, seed):
    ours, theirs = vectors(rows, width, seed), vectors(rows, width + 1, seed + 1)
    pairs = [(i, j) for i in range(rows) for j in range(i + 1, rows)]
    one, other = ([cosine(side[i].numpy(), side[j].numpy()) for i, j in pairs] for side in (ours, theirs))
    assert float(perceptual(ours, theirs)) == pytest.approx(-np.corrcoef(one, other)[0, 1], abs=1e-9)
