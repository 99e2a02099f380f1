"""A bag of hashed n-grams, against plain loops."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sightword.model.encoders import CaptionEncoder, Encoders, pad
from sightword.model.ngrams import FACTOR, PRIME, SPREAD, ngrams
from sightword.model.settings import ModelSettings

SHAPE = ModelSettings(embedding=6, cell="ngrams", longest_ngram=4, ngram_buckets=101)
ROWS = st.lists(st.lists(st.integers(1, 90), max_size=9), min_size=1, max_size=5)


def by_hand(row: list[int], longest: int, buckets: int) -> Counter[int]:
    framed = [0, *(row or [0]), 0]
    found = []
    for size in range(2, longest + 1):
        for start in range(len(framed) - size + 1):
            value = size
            for token in framed[start : start + size]:
                value = (value * FACTOR + token + 1) % PRIME
            found.append(value * SPREAD % PRIME % buckets)
    return Counter(found)


@given(ROWS, st.integers(2, 6), st.integers(1, 1 << 20))
def test_each_row_has_the_buckets_of_its_ngrams(rows, longest, buckets) -> None:
    ids, lengths = pad([np.array(row, np.int64) for row in rows], steps=12)
    found, counts = ngrams(ids, lengths, longest=longest, buckets=buckets)
    parts = torch.split(found, counts.tolist())
    assert [Counter(part.tolist()) for part in parts] == [by_hand(row, longest, buckets) for row in rows]


@given(ROWS)
def test_an_embedding_is_the_mean_over_the_ngrams_scaled_to_length_one(rows) -> None:
    torch.manual_seed(0)
    encoder = CaptionEncoder(99, SHAPE).eval()
    arrays = [np.array(row, np.int64) for row in rows]
    found = encoder.embed(arrays, steps=14)
    table = encoder.embedding.weight
    for row, vector in zip(rows, found, strict=True):
        mean = sum(table[bucket] * count for bucket, count in by_hand(row, 4, 101).items())
        assert torch.allclose(vector, mean / mean.norm(), atol=1e-5)
    assert all(torch.equal(encoder.embed([row])[0], vector) for row, vector in zip(arrays, found, strict=True))


def test_no_size_depends_on_ids_of_the_device() -> None:
    """On the device ``meta`` tensors have no values: an operation that has to read one fails."""
    encoder = CaptionEncoder(99, SHAPE).to("meta")
    encoder.embed([np.array([3, 4, 5]), np.array([6])]).sum().backward()
    assert encoder.embedding.weight.grad.shape == (101, 6)


def test_buckets_are_used_evenly() -> None:
    """All pairs of 300 tokens: as even as chance, and pairs and their mirrored pairs are apart."""
    pairs = torch.cartesian_prod(torch.arange(1, 301), torch.arange(1, 301))
    found, _ = ngrams(pairs, torch.full((len(pairs),), 2), longest=4, buckets=512)
    whole = found.view(len(pairs), -1)[:, -1]  # the whole row with its frame
    counts = torch.bincount(whole, minlength=512).double()
    expected = len(pairs) / 512
    assert ((counts - expected).square() / expected).sum() < 512 + 5 * (2 * 512) ** 0.5
    mirrored, _ = ngrams(pairs.flip(1), torch.full((len(pairs),), 2), longest=4, buckets=1 << 30)
    plain, _ = ngrams(pairs, torch.full((len(pairs),), 2), longest=4, buckets=1 << 30)
    same = (mirrored.view(len(pairs), -1)[:, -1] == plain.view(len(pairs), -1)[:, -1]).sum()
    assert same == 300  # pairs of twice the same token


def test_training_moves_the_ngrams_of_the_batch_and_no_others() -> None:
    torch.manual_seed(0)
    encoders = Encoders(99, 7, SHAPE, dropout_states=0.5)
    assert encoders.width == 6
    row = np.array([3, 4, 5])
    encoders.captions.embed([row])[0, 0].backward()
    moved = encoders.captions.embedding.weight.grad.abs().sum(dim=1).nonzero().flatten()
    assert set(moved.tolist()) == set(by_hand([3, 4, 5], 4, 101))


def test_shorter_than_two_is_no_ngram() -> None:
    with pytest.raises(ValueError, match="longest_ngram"):
        ModelSettings(longest_ngram=1)
