"""A bag of hashed n-grams, against plain loops."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sightword.model.encoders import CaptionEncoder, Encoders, pad
from sightword.model.ngrams import BASIS, NGrams, fnv1a, ngrams
from sightword.model.settings import ModelSettings

SHAPE = ModelSettings(embedding=6, cell="ngrams", longest_ngram=4, ngram_buckets=101)
ROWS = st.lists(st.lists(st.integers(1, 90), max_size=9), min_size=1, max_size=5)


def hash_of(octets: bytes) -> int:
    value = 0x811C9DC5
    for octet in octets:
        value = (value ^ octet) * 0x01000193 % 2**32
    return value


def by_hand(row: list[int], longest: int, buckets: int, id_bytes: int = 1) -> Counter[int]:
    framed = [0, *(row or [0]), 0]
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
        (b"b", 0xE70C2DE5),
        (b"foobar", 0xBF9CF968),
        (b"chongo was here!\n", 0xD49930D5),
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


def test_buckets_are_used_evenly() -> None:
    """All pairs of 300 tokens: as even as chance, and pairs and their mirrored pairs are apart."""
    pairs = torch.cartesian_prod(torch.arange(1, 301), torch.arange(1, 301))
    found, _ = ngrams(pairs, torch.full((len(pairs),), 2), longest=4, buckets=512, id_bytes=2)
    whole = found.view(len(pairs), -1)[:, -1]  # the whole row with its frame
    counts = torch.bincount(whole, minlength=512).double()
    expected = len(pairs) / 512
    assert ((counts - expected).square() / expected).sum() < 512 + 5 * (2 * 512) ** 0.5
    mirrored, _ = ngrams(pairs.flip(1), torch.full((len(pairs),), 2), longest=4, buckets=1 << 30, id_bytes=2)
    plain, _ = ngrams(pairs, torch.full((len(pairs),), 2), longest=4, buckets=1 << 30, id_bytes=2)
    same = (mirrored.view(len(pairs), -1)[:, -1] == plain.view(len(pairs), -1)[:, -1]).sum()
    assert same == 300  # pairs of twice the same token


def test_trigrams_of_captions_use_as_many_buckets_as_chance(real_data) -> None:
    lines = (real_data / "flickr8k/Flickr8k.token.txt").read_text(encoding="utf-8").splitlines()
    texts = [line.split("\t", 1)[1] for line in lines]
    ids = {character: place for place, character in enumerate(sorted(set("".join(texts))), start=2)}
    distinct = sorted({text[start : start + 3] for text in texts for start in range(len(text) - 2)})
    rows = torch.tensor([[ids[character] for character in trigram] for trigram in distinct])
    found, _ = ngrams(rows, torch.full((len(rows),), 3), longest=3, buckets=65_536, id_bytes=1)
    used = len(found.view(len(rows), -1)[:, 5].unique())  # four pairs and a framed trigram stand before
    unused = 65_536 * (1 - 1 / 65_536) ** len(rows)
    deviation = (65_536 * ((1 - 2 / 65_536) ** len(rows) * 65_535 + (1 - 1 / 65_536) ** len(rows)) - unused**2) ** 0.5
    assert used > 65_536 - unused - 3 * deviation


def test_training_moves_the_ngrams_of_the_batch_and_no_others() -> None:
    torch.manual_seed(0)
    encoders = Encoders(99, 7, SHAPE.shape, dropout_states=0.5)
    assert encoders.captions.width == 6
    row = np.array([3, 4, 5])
    encoders.captions.embed([row])[0, 0].backward()
    moved = encoders.captions.embedding.weight.grad.abs().sum(dim=1).nonzero().flatten()
    assert set(moved.tolist()) == set(by_hand([3, 4, 5], 4, 101))


def test_shorter_than_two_is_no_ngram() -> None:
    with pytest.raises(ValueError, match="longest_ngram"):
        ModelSettings(longest_ngram=1)
