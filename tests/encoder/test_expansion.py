"""Vocabulary expansion: a known map is recovered, and words of the vocabulary keep their embeddings."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_encoder import made
from small_ground import TEXTS, VOCABULARY, encoder

from sightword.encoder.derived import expand
from sightword.encoder.parts import Part
from sightword.errors import EncoderError
from sightword.model.encoders import CaptionEncoder
from sightword.model.shape import NgramShape

RANDOM = np.random.default_rng(0)
WORDS = [*VOCABULARY.tokens, "purple", "zebra", "two words", "an"]
VECTORS = RANDOM.normal(size=(len(WORDS), 3)).astype(np.float32)
MATRIX, BIAS = RANDOM.normal(size=(3, 6)), RANDOM.normal(size=6)


def part():
    """A part whose embeddings are an affine map of the vectors."""
    found = encoder().parts[0]
    with torch.no_grad():
        found.captions.embedding.weight[2:] = torch.from_numpy(VECTORS[: len(VOCABULARY.tokens)] @ MATRIX + BIAS)
    return found


def test_a_known_map_is_recovered_for_new_words():
    old = part()
    found = expand(old, WORDS, VECTORS)
    assert (found.shared, found.added) == (len(VOCABULARY.tokens), 3)
    table, ids = found.part.captions.embedding.weight.detach().numpy(), found.part.vocabulary
    for word in ("purple", "zebra", "an"):
        expected = VECTORS[WORDS.index(word)] @ MATRIX + BIAS
        np.testing.assert_allclose(table[ids.encode(word)[0]], expected, atol=1e-5)
    before = old.captions.embedding.weight.detach().numpy()
    for token in VOCABULARY.tokens:
        np.testing.assert_array_equal(table[ids.encode(token)[0]], before[VOCABULARY.encode(token)[0]])
    np.testing.assert_array_equal(table[:2], before[:2])
    for text in TEXTS[:3]:
        rows = [np.asarray(one.vocabulary.encode(text), np.int64) for one in (old, found.part)]
        assert torch.equal(old.captions.embed(rows[:1]), found.part.captions.embed(rows[1:]))


def test_files_that_share_too_little_and_characters():
    with pytest.raises(EncoderError, match=r"shares 3 words with the vocabulary.*expected more than 3"):
        expand(part(), ["red", "ball", "cup", "purple"], VECTORS[:4])
    old = made(members=1)
    with pytest.raises(EncoderError, match="reads characters"):
        expand(old.parts[0], WORDS, VECTORS)
    bag = NgramShape(3, 5, len(VOCABULARY))
    with pytest.raises(EncoderError, match="reads n-grams"):
        expand(Part(CaptionEncoder(len(VOCABULARY), bag), VOCABULARY, bag), WORDS, VECTORS)
