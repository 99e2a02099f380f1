"""A bag of hashed n-grams, against plain loops, and weighted n-grams, against a plain dictionary."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sightword.model.encoders import CaptionEncoder, pad
from sightword.model.ngrams import BASIS, NGrams, Tfidf, fnv1a, ngrams
from sightword.model.settings import ModelSettings

SHAPE = ModelSettings(embedding=6, cell="ngrams", longest_ngram=4, ngram_buckets=101)
ROWS = st.lists(st.lists(st.integers(1, 90), max_size=9), min_size=1, max_size=5)
FEW = st.lists(st.lists(st.integers(1, 40), max_size=9), min_size=1, max_size=6)


def hash_of(octets: bytes) -> int:
    value = 0x811C9DC5
    for octet in octets:
        value = (value ^ octet) * 0x01000193 % 2**32
    return value


def by_hand(row: list[int], longest: int, buckets: int, id_bytes: int = 1, frame: int = 0) -> Counter[int]:
    framed = [frame, *(row or [0]), frame]
    return Counter(
        hash_of(b"".join(token.to_bytes(id_bytes, "little") for token in framed[start : start + size])) % buckets
        for size in range(2, longest + 1)
        for start in range(len(framed) - size + 1)
    )


@pytest.mark.parametrize(
    ("text", "published"),
    [
        (b"", 0x811C9DC5),
        (b"a", 0xE40C292C),
        (b"foobar", 0xBF9CF968),
        (b"\xff\x00\x00\x01", 0xC48FB86D),
    ],
)
def test_the_hash_has_the_published_values_of_fnv1a(text, published) -> None:
    found = torch.tensor([BASIS])
    for octet in text:
        found = fnv1a(found, torch.tensor([octet]), 1)
    assert found.tolist() == [published]


@pytest.mark.parametrize(("tokens", "id_bytes"), [(1, 1), (2, 1), (256, 1), (257, 2), (65_536, 2), (65_537, 3)])
def test_an_id_has_as_many_bytes_as_the_largest_one_needs(tokens, id_bytes) -> None:
    bag = NGrams(3, tokens=tokens, longest=4, buckets=101)
    assert bag.id_bytes == id_bytes
    row = [tokens - 1, 1, tokens - 1]
    mean = sum(bag.weight[bucket] * count for bucket, count in by_hand(row, 4, 101, id_bytes).items()) / 9
    assert torch.allclose(bag(torch.tensor([row]), torch.tensor([3]))[0], mean, atol=1e-6)


@given(ROWS, st.integers(2, 6), st.integers(1, 1 << 20), st.integers(1, 3))
def test_each_row_has_the_buckets_of_its_ngrams(rows, longest, buckets, id_bytes) -> None:
    ids, lengths = pad([np.array(row, np.int64) for row in [*rows, [1] * 12]])
    ids, lengths = ids[:-1], lengths[:-1]
    found, counts = ngrams(ids, lengths, longest=longest, buckets=buckets, id_bytes=id_bytes)
    parts = torch.split(found, counts.tolist())
    assert [Counter(part.tolist()) for part in parts] == [by_hand(row, longest, buckets, id_bytes) for row in rows]


@given(st.lists(st.integers(1, 90), min_size=1, max_size=9), st.integers(2, 6))
def test_the_frame_stands_before_and_behind_each_row(row, longest) -> None:
    options = {"longest": longest, "buckets": 1 << 20, "id_bytes": 1}
    framed, _ = ngrams(*pad([np.array(row), np.array([1] * 12)]), frame=7, **options)
    bare, _ = ngrams(*pad([np.array([7, *row, 7])]), **options)
    inner = Counter(framed[: len(framed) - sum(14 - size + 1 for size in range(2, longest + 1))].tolist())
    assert inner == by_hand(row, longest, 1 << 20, frame=7)
    assert not inner - Counter(bare.tolist())


@given(ROWS)
def test_an_embedding_is_the_mean_over_the_ngrams_scaled_to_length_one(rows) -> None:
    torch.manual_seed(0)
    encoder = CaptionEncoder(99, SHAPE.shape).eval()
    arrays = [np.array(row, np.int64) for row in rows]
    found = encoder.embed(arrays)
    table = encoder.embedding.weight
    for row, vector in zip(rows, found, strict=True):
        mean = sum(table[bucket] * count for bucket, count in by_hand(row, 4, 101).items())
        assert torch.allclose(vector, mean / mean.norm(), atol=1e-5)
    assert all(torch.equal(encoder.embed([row])[0], vector) for row, vector in zip(arrays, found, strict=True))


def test_no_size_depends_on_ids_of_the_device() -> None:
    """On the device ``meta`` tensors have no values: an operation that has to read one fails."""
    encoder = CaptionEncoder(99, SHAPE.shape).to("meta")
    encoder.embed([np.array([3, 4, 5]), np.array([6])]).sum().backward()
    assert encoder.embedding.weight.grad.shape == (101, 6)


# Weighted by their frequency


def grams(row: list[int], longest: int, frame: int) -> Counter[tuple[int, ...]]:
    framed = [frame, *(row or [0]), frame]
    return Counter(
        tuple(framed[start : start + size]) for size in range(2, longest + 1) for start in range(len(framed) - size + 1)
    )


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
@given(FEW, FEW, st.integers(2, 4), st.sampled_from([0, 2]), st.integers(1, 300))
def test_a_vector_is_the_signed_sum_of_the_weighted_ngrams(captions, rows, longest, frame, width) -> None:
    found = made(captions, width=width, longest=longest, frame=frame)(*batch(rows)).double().numpy()
    expected = np.zeros((len(rows), width))
    for vector, row in zip(expected, rows, strict=True):
        for gram, count in grams(row, longest, frame).items():
            hashed = hash_of(bytes(gram))
            vector[hashed % width] += count * weight(captions, gram, longest, frame) * (-1 if hashed >= 1 << 31 else 1)
    np.testing.assert_allclose(found, expected, atol=1e-4)


@settings(max_examples=25, deadline=None)
@given(FEW, st.randoms())
def test_the_order_of_the_captions_changes_no_weight(captions, random) -> None:
    turned = random.sample(captions, len(captions))
    assert torch.equal(made(captions, buckets=101).weight, made(turned, buckets=101).weight)


def test_padding_and_other_rows_change_no_bit() -> None:
    found = made([[3, 4, 5], [6, 7]])
    rows = [[3, 4, 5, 6, 7, 8], [], [9], [3, 4]]
    whole = found(*batch(rows))
    for place, row in enumerate(rows):
        assert torch.equal(found(*batch([row]))[0], whole[place])
