"""Batches have every caption once and no picture twice; draws depend on seed and batch; controls shuffle alone."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sightword.captions.vocabulary import Vocabulary
from sightword.features.tables.pairs import Pairs
from sightword.model.encoders import Encoders
from sightword.vse.training.batches import Auxiliary, Texts, batches, controlled, mistyped
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.task import Data, train

COUNTS = st.lists(st.integers(1, 7), min_size=2, max_size=40)
"""Captions of each picture."""
VOCABULARY = Vocabulary(tuple(map(chr, range(0x4E00, 0x4E00 + 600))))


def split(counts: list[int], *, gap: int = 1, mixed: bool = False) -> Pairs:
    """Pictures with so many captions each; the picture n has the features (n, n), the caption in row r the token r."""
    owners = np.repeat(np.arange(len(counts)), counts)
    numbers = np.concatenate([np.arange(count) * gap for count in counts])
    if mixed:
        owners, numbers = np.random.default_rng(0).permutation(owners), numbers * 0
    features = np.repeat(np.arange(len(counts), dtype=np.float32)[:, None], 2, axis=1)
    ids = [np.array([row]) for row in range(len(owners))]
    return Pairs([str(place) for place in range(len(counts))], features, [""] * len(ids), ids, numbers, owners)


def drawn(pairs: Pairs, epoch: int = 0, **changes: object) -> list[np.ndarray]:
    return batches(pairs, TrainSettings(**{"seed": 3, **changes}), epoch)


@given(COUNTS, st.integers(2, 12), st.integers(0, 5), st.integers(1, 3))
@settings(max_examples=80, deadline=None)
def test_all_captions_once_and_no_picture_twice(counts, size, epoch, gap):
    pairs = split(counts, gap=gap)
    found = drawn(pairs, epoch, batch=size)
    left_out = set(range(sum(counts))) - set(np.concatenate(found).tolist())
    assert sum(len(rows) for rows in found) + len(left_out) == sum(counts)
    # Only a caption that is alone in its pass is left out: the picture with most captions, its last ones.
    second, most = sorted(counts)[-2:]
    assert len(left_out) == most - second
    for rows in found:
        assert len(rows) > 1
        assert len(rows) <= size or (size, len(rows)) == (2, 3)  # one that would be alone joins another two
        assert len(set(pairs.image_of_caption[rows].tolist())) == len(rows)
        assert len(set(pairs.numbers[rows].tolist())) == 1
    assert len(found) == len(drawn(pairs, batch=size))


@pytest.mark.parametrize("size", [3, 32])
def test_order_is_a_shuffle_of_each_pass_cut_evenly(size):
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([4, 2])))
    passes = [random.permutation(np.arange(number, 350, 5)) for number in range(5)]
    wanted = [rows for whole in passes for rows in np.array_split(whole, math.ceil(70 / size))]
    found = drawn(split([5] * 70), 2, batch=size, seed=4)
    assert [rows.tolist() for rows in found] == [rows.tolist() for rows in wanted]


@given(COUNTS, st.integers(2, 12), st.sampled_from(["all", "one"]))
@settings(max_examples=80, deadline=None)
def test_batches_with_last_one_dropped_have_equal_sizes(counts, size, captions):
    pairs = split(counts)
    found = drawn(pairs, 1, batch=size, captions_per_epoch=captions, last_batch="drop")
    assert {len(rows) for rows in found} <= {size}
    taken = np.concatenate(found).tolist() if found else []
    assert len(set(taken)) == len(taken)
    assert all(len(set(pairs.image_of_caption[rows].tolist())) == size for rows in found)
    passes = [sum(count > number for count in counts) for number in range(7)] if captions == "all" else [len(counts)]
    assert len(found) == sum(number // size for number in passes)


@given(COUNTS, st.integers(2, 12), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_epoch_of_one_caption_has_every_picture_once(counts, size, epoch):
    pairs = split(counts)
    found = drawn(pairs, epoch, batch=size, captions_per_epoch="one")
    assert sorted(pairs.image_of_caption[np.concatenate(found)].tolist()) == list(range(len(counts)))
    assert all(2 <= len(rows) <= max(size, 3) for rows in found)
    assert len(found) == len(drawn(pairs, batch=size, captions_per_epoch="one"))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.integers(0, 3))
def test_second_caption_is_another_of_the_picture_if_any(counts, step) -> None:
    pairs = split(counts, mixed=True)
    rows = np.arange(len(pairs.ids))
    first, second = Texts(pairs, TrainSettings(), VOCABULARY, second=True).of(rows, step)
    assert [ids.tolist() for ids in first] == [[row] for row in rows]
    for row, [other] in zip(rows, second, strict=True):
        assert pairs.image_of_caption[other] == pairs.image_of_caption[row]
        assert (other == row) == (counts[pairs.image_of_caption[row]] == 1)


@pytest.mark.parametrize("kind", ["batches", "second", "auxiliary"])
def test_draws_depend_on_seed_and_number_alone(kind) -> None:
    pairs = split([5] * 20)

    def found(seed: int, number: int) -> tuple[int, ...]:
        asked = TrainSettings(seed=seed, beside_batch=8, batch=8)
        if kind == "batches":
            return tuple(np.concatenate(batches(pairs, asked, number)).tolist())
        if kind == "auxiliary":
            return tuple(Auxiliary(pairs, asked, VOCABULARY).rows(number).tolist())
        return tuple(np.concatenate(Texts(pairs, asked, VOCABULARY, second=True).of(np.arange(20), number)[1]).tolist())

    assert found(0, 4) == found(0, 4)
    assert len({found(0, 4), found(0, 5), found(1, 4), found(1, 5)}) == 4


@given(st.lists(st.integers(1, 4), min_size=2, max_size=9), st.integers(2, 4), st.integers(0, 2))
def test_auxiliary_captions_pass_through_all_groups(counts, size, seed) -> None:
    size = min(size, len(counts))
    pairs, steps = split(counts, mixed=True), len(counts) // size
    auxiliary = Auxiliary(pairs, TrainSettings(seed=seed, beside_batch=size), VOCABULARY)
    for passed in range(3):
        rows = [auxiliary.rows(passed * steps + step) for step in range(steps)]
        assert len(set(pairs.image_of_caption[np.concatenate(rows)])) == steps * size
        for step, expected in enumerate(rows):
            first, second = (np.concatenate(ids) for ids in auxiliary.of(passed * steps + step))
            assert first.tolist() == expected.tolist()
            assert (pairs.image_of_caption[second] == pairs.image_of_caption[first]).all()
            assert ((first == second) == (np.array(counts)[pairs.image_of_caption[first]] == 1)).all()


@given(st.lists(st.integers(0, 9), max_size=30), st.floats(0, 0.99), st.integers(0, 99))
def test_mistyped_caption_has_only_its_tokens_and_keeps_both_ends(ids, share, seed) -> None:
    row = np.array(ids, np.int64)
    found = mistyped(row, share, np.random.default_rng(seed))
    assert not Counter(found.tolist()) - Counter(ids)
    assert found[:1].tolist() + found[-1:].tolist() == ids[:1] + ids[-1:]
    assert row.tolist() == ids


def test_mistyped_caption_has_as_many_errors_as_its_share() -> None:
    found = [mistyped(np.arange(1002), 0.02, np.random.default_rng(seed)) for seed in range(100)]
    assert 9 < np.mean([1002 - len(one) for one in found]) < 11  # left out
    assert 9 < np.mean([np.sum(np.diff(one) < 0) for one in found]) < 11  # exchanged


def test_typing_errors_depend_on_the_batch_and_not_on_its_order() -> None:
    ids = [np.arange(40) + 100 * row for row in range(4)]
    texts = Texts(replace(split([1] * 4), ids=ids), TrainSettings(typing_errors=0.2), VOCABULARY, second=True)
    forwards, backwards = texts.of(np.arange(4), 7), texts.of(np.arange(4)[::-1], 7)
    for one, other in zip(forwards, backwards, strict=True):
        assert [row.tolist() for row in one] == [row.tolist() for row in other[::-1]]
        assert all(row.tolist() != own.tolist() for row, own in zip(one, ids, strict=True))
    assert [row.tolist() for row in forwards[0]] != [row.tolist() for row in forwards[1]]
    assert [row.tolist() for row in forwards[0]] != [row.tolist() for row in texts.of(np.arange(4), 8)[0]]


def spelled(texts: list[str], *, unit: str = "character") -> tuple[Pairs, Vocabulary]:
    vocabulary = Vocabulary.build(texts, unit=unit)
    ids = [np.array(vocabulary.encode(text)) for text in texts]
    return replace(split([1] * len(texts)), texts=texts, ids=ids), vocabulary


DOGS = ["A brown dog of the girl runs .", "Two dogs , a red ball !"]


@pytest.mark.parametrize("unit", ["character", "word"])
def test_cut_captions_are_runs_and_each_number_of_words_is_drawn(unit) -> None:
    pairs, vocabulary = spelled(DOGS, unit=unit)
    texts = Texts(pairs, TrainSettings(spans=1), vocabulary, second=False)
    found = [texts.of(np.arange(2), step)[0] for step in range(300)]
    long = Counter(vocabulary.decode(one) for one, _ in found)
    assert {len(run.split()) for run in long} == {1, 2, 4}  # of three words, none has content words at both ends
    assert set(long) == {"brown", "dog", "girl", "runs", "brown dog", "girl runs", "dog of the girl"}
    assert all(70 < sum(n for run, n in long.items() if len(run.split()) == words) < 130 for words in (1, 2, 4))
    beside = Auxiliary(pairs, TrainSettings(spans=1, beside_batch=2), vocabulary).of(0)
    assert {len(ids) for texts in beside for ids in texts} == {len(ids) for ids in pairs.ids}
    assert {vocabulary.decode(other) for _, other in found} == {"Two", "dogs", "red", "ball", "Two dogs", "red ball"}


def test_the_captions_that_are_cut_do_not_depend_on_typing_errors() -> None:
    pairs, vocabulary = spelled([f"the dog number {one} runs over the grass" for one in range(200)])
    asked = [TrainSettings(spans=0.3, typing_errors=errors) for errors in (0, 0.1)]
    drawn = [Texts(pairs, one, vocabulary, second=True).of(np.arange(200), 3) for one in asked]
    cut = [[[len(ids) < 25 for ids in texts] for texts in both] for both in drawn]
    assert cut[0] == cut[1]
    assert cut[0][0] != cut[0][1]
    assert all(40 < sum(each) < 80 for each in cut[0])


def test_captions_without_content_words_stay_whole() -> None:
    pairs, vocabulary = spelled(["of the", "..."])
    assert [
        len(one) for one in Texts(pairs, TrainSettings(spans=1), vocabulary, second=False).of(np.arange(2), 0)[0]
    ] == [6, 3]


WHOLE = replace(split([5] * 40), ids=[np.array([row // 5 + 2, row % 5 + 2]) for row in range(200)])


def chosen(**changes: object) -> TrainSettings:
    small = {"cell": "ngrams", "embedding": 8, "ngram_buckets": 64, "batch": 10, "epochs": 1, "cycle": 1}
    return TrainSettings(**{**small, "loss": "infonce", "second_caption": True, "rate_max": 0.01, **changes})


def test_shuffled_pictures_and_clusters_keep_all_else() -> None:
    kept = controlled(WHOLE, chosen())
    assert (kept.features is WHOLE.features, kept.image_of_caption is WHOLE.image_of_caption) == (True, True)
    pictures, clusters = controlled(WHOLE, chosen(pictures="shuffled")), controlled(WHOLE, chosen(clusters="shuffled"))
    assert sorted(pictures.features[:, 0]) == list(range(40))
    assert (pictures.features != WHOLE.features).any(axis=1).mean() > 0.8
    np.testing.assert_array_equal(pictures.image_of_caption, WHOLE.image_of_caption)
    np.testing.assert_array_equal(np.bincount(clusters.image_of_caption), np.full(40, 5))
    assert (clusters.image_of_caption != WHOLE.image_of_caption).mean() > 0.8
    np.testing.assert_array_equal(clusters.features, WHOLE.features)


def trained(pairs: Pairs = WHOLE, **changes: object) -> Encoders:
    return train(
        chosen(pictures="none", **changes), Data(pairs, WHOLE, VOCABULARY), device=torch.device("cpu")
    ).encoders


@pytest.mark.parametrize("scope", ["side", "all", "tensor"])
def test_without_pictures_captions_learn_and_the_picture_side_does_not(scope) -> None:
    limits = {"clip_scope": scope, "clip_images": 1.0, "clip_captions": 1.0}
    end, before = trained(**limits).state_dict(), trained(**limits, rate_max=1e-12, rate_min=1e-12).state_dict()
    for name, weights in before.items():
        moved = (end[name] - weights).abs().max()
        assert moved == 0 if name.startswith("images.") else moved > 0.01


def test_without_pictures_their_features_do_not_matter() -> None:
    other = trained(replace(WHOLE, features=WHOLE.features[::-1] ** 2)).captions.state_dict()
    for name, weights in trained().captions.state_dict().items():
        torch.testing.assert_close(other[name], weights, rtol=0, atol=0)


def test_without_pictures_there_must_be_second_captions() -> None:
    with pytest.raises(ValueError, match="second_caption must be true"):
        chosen(pictures="none", second_caption=False)
