"""Weighted n-grams, against a plain dictionary."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sightword.model.encoders import pad
from sightword.model.ngrams import Tfidf

ROWS = st.lists(st.lists(st.integers(1, 40), max_size=9), min_size=1, max_size=6)


def grams(row: list[int], longest: int, frame: int) -> Counter[tuple[int, ...]]:
    framed = [frame, *(row or [0]), frame]
    return Counter(
        tuple(framed[start : start + size]) for size in range(2, longest + 1) for start in range(len(framed) - size + 1)
    )


def hash_of(gram: tuple[int, ...]) -> int:
    value = 0x811C9DC5
    for octet in gram:
        value = (value ^ octet) * 0x01000193 % 2**32
    return value


def weight(captions: list[list[int]], gram: tuple[int, ...], longest: int, frame: int) -> float:
    having = sum(gram in grams(caption, longest, frame) for caption in captions)
    return math.log((len(captions) + 1) / (having + 1))


def batch(rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    return pad([np.array(row, np.int64) for row in rows])


def made(
    captions: list[list[int]], *, width: int = 7, longest: int = 4, buckets: int = 1 << 20, frame: int = 2
) -> Tfidf:
    found = Tfidf(width, tokens=50, longest=longest, buckets=buckets, frame=frame)
    found.count(batch(captions[start : start + 2]) for start in range(0, len(captions), 2))
    return found


@settings(max_examples=50, deadline=None)
@given(ROWS, ROWS, st.integers(2, 4), st.sampled_from([0, 2]), st.integers(1, 300))
def test_a_vector_is_the_signed_sum_of_the_weighted_ngrams(captions, rows, longest, frame, width) -> None:
    found = made(captions, width=width, longest=longest, frame=frame)(*batch(rows)).double().numpy()
    expected = np.zeros((len(rows), width))
    for vector, row in zip(expected, rows, strict=True):
        for gram, count in grams(row, longest, frame).items():
            hashed = hash_of(gram)
            vector[hashed % width] += count * weight(captions, gram, longest, frame) * (-1 if hashed >= 1 << 31 else 1)
    np.testing.assert_allclose(found, expected, atol=1e-4)


@settings(max_examples=25, deadline=None)
@given(ROWS, st.randoms())
def test_the_order_of_the_captions_changes_no_weight(captions, random) -> None:
    turned = random.sample(captions, len(captions))
    assert torch.equal(made(captions, buckets=101).weight, made(turned, buckets=101).weight)


def test_an_ngram_that_no_caption_has_weighs_most_and_one_that_all_have_nothing() -> None:
    captions = [[3, 4], [3, 5], [3, 6]]
    found = made(captions, longest=2).weight
    assert torch.allclose(found.max(), torch.tensor(math.log(4)))
    assert found[hash_of((2, 3)) % (1 << 20)] == 0  # each begins with the frame and 3
    assert torch.allclose(found[hash_of((3, 4)) % (1 << 20)], torch.tensor(math.log(2)))
    assert torch.allclose(found[hash_of((49, 48)) % (1 << 20)], torch.tensor(math.log(4)))


def test_the_cosine_of_few_numbers_approaches_that_of_all_ngrams() -> None:
    random = np.random.default_rng(0)
    captions = [random.integers(3, 12, random.integers(8, 30)).tolist() for _ in range(60)]
    rows = [random.integers(3, 12, random.integers(8, 30)).tolist() for _ in range(40)]
    counts = [grams(row, 4, 2) for row in rows]
    weights = {gram: weight(captions, gram, 4, 2) for gram in sorted(set().union(*counts))}
    whole = np.array([[count[gram] * one for gram, one in weights.items()] for count in counts])
    errors = []
    for width in (64, 1024, 16_384):
        sides = whole, made(captions, width=width)(*batch(rows)).double().numpy()
        exact, hashed = (side @ side.T / np.outer(*[np.linalg.norm(side, axis=1)] * 2) for side in sides)
        errors.append(np.sqrt(np.square(exact - hashed).mean()))
    assert errors[0] > 2 * errors[1] > 4 * errors[2]  # the deviation falls as the root of the numbers
    assert errors[1] < 0.04


def test_padding_and_other_rows_change_no_bit() -> None:
    found = made([[3, 4, 5], [6, 7]])
    rows = [[3, 4, 5, 6, 7, 8], [], [9], [3, 4]]
    whole = found(*batch(rows))
    for place, row in enumerate(rows):
        assert torch.equal(found(*batch([row]))[0], whole[place])
