"""Sums, joined vectors and spaces, compared with the vectors of the parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from encoder_kinds import BAG, GRU, TEXTS, joined, summed, three, weighted
from small_encoder import made
from small_ground import TEXTS as GROUND_TEXTS
from small_ground import encoder as with_spaces

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.by_name import open_with_pictures
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError

FEATURES = np.random.default_rng(0).normal(size=(4, 7)).astype(np.float32)


def cosines(captions, images):
    captions, images = (each.astype(np.float64) for each in (captions, images))
    lengths = np.linalg.norm(captions, axis=1)[:, None] * np.linalg.norm(images, axis=1)
    return captions @ images.T / np.where(lengths == 0, 1, lengths)


def test_the_cosine_of_joined_vectors_is_the_mean_of_the_cosines():
    encoder = three()
    captions, images = encoder.encode(TEXTS), encoder.encode_images(FEATURES)
    assert (encoder.width, encoder.similarity_name) == (sum(part.width for part in encoder.parts), "cosine")
    wanted = np.mean([cosines(part.encode(TEXTS), part.encode_images(FEATURES)) for part in encoder.parts], axis=0)
    np.testing.assert_allclose(encoder.similarity(captions, images), wanted, atol=2e-7)
    np.testing.assert_allclose(np.linalg.norm(images, axis=1), 1, atol=1e-6)
    assert "1 x n-grams + 2 x GRU + 1 x LSTM over characters, 7 features" in repr(encoder)


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (lambda: summed(GRU, vocabulary=Vocabulary.build(["xyz"])), "has another vocabulary"),
        (lambda: joined(summed(GRU), summed(BAG)), "is joined of several encoders. Name each"),
        (lambda: "models/encoder", "is str; expected a Part or a SentenceEncoder"),
        (with_spaces, "has spaces of its own; expected an encoder of one space. Join its parts"),
    ],
)
def test_an_encoder_that_does_not_fit_is_not_joined(other, told):
    with pytest.raises(EncoderError, match=f"^part 3: {told}"):
        joined(summed(BAG), summed(GRU), other())


@pytest.mark.parametrize(
    ("parts", "options", "told"),
    [
        (list, {}, "has no parts"),
        (lambda: made().parts, {"combine": "product"}, "is combined by 'product'; expected sum or join"),
        (lambda: [*summed(GRU).parts, *summed(BAG).parts], {}, "part 2: has another shape .* Join them"),
        (lambda: made().parts, {"default": "smell"}, "has no space 'smell'"),
    ],
)
def test_parts_that_cannot_be_combined_are_refused(parts, options, told):
    with pytest.raises(EncoderError, match=told):
        SentenceEncoder(parts(), **options)


def test_an_ensemble_can_be_joined_and_taken_out_again(tmp_path):
    """Its own similarity is the dot product, and the similarity of the joined encoder is the cosine."""
    own = summed(GRU, members=2, notes={"epochs": [2, 1]})
    joined(own, summed(BAG)).save(tmp_path / "both")
    again = SentenceEncoder.load(tmp_path / "both")
    assert [one.similarity_name for one in (own, again, again.parts[0])] == ["dot", "cosine", "dot"]
    assert again.parts[0].notes == own.notes
    assert np.array_equal(again.parts[0].encode(TEXTS), own.encode(TEXTS))
    assert joined(*(one for one in again.parts)).width == again.width


def test_each_space_is_its_map_of_the_combined_vector():
    found, spaces = with_spaces(), with_spaces().encode_spaces(GROUND_TEXTS)
    assert {space: (*values.shape, values.dtype.name) for space, values in spaces.items()} == {
        "sentence": (32, 8, "float32"),
        "grounded": (32, 4, "float32"),
        "visual": (32, 7, "float32"),
    }
    part = found.parts[0]
    rows = [np.asarray(part.vocabulary.encode(text), np.int64) for text in GROUND_TEXTS]
    with torch.no_grad():
        expected = part.captions.embed(rows)
        for space, module in found.heads.items():
            np.testing.assert_allclose(spaces[space], module(expected), atol=1e-6)
            np.testing.assert_array_equal(found.encode(GROUND_TEXTS, space=space), spaces[space])
            np.testing.assert_array_equal(found.in_space(space).encode(GROUND_TEXTS), spaces[space])
    assert (found.width, found.width_of("visual"), found.in_space("visual").features_width) == (4, 7, 7)
    assert "GRU over words, grounded of sentence 8, grounded 4, visual 7, cosine" in repr(found)
    images = found.in_space("visual").encode_images(FEATURES)
    np.testing.assert_allclose(images * np.linalg.norm(FEATURES, axis=1, keepdims=True), FEATURES, atol=1e-6)
    with pytest.raises(EncoderError, match=r"no embeddings of pictures. Take in_space\('visual'\)"):
        found.encode_images(FEATURES)
    with pytest.raises(EncoderError, match="has one space only, without a name; not 'visual'"):
        made().in_space("visual")
    assert made().encode_spaces(TEXTS) == {}


def test_a_lexical_part_that_is_left_out_has_zeros_and_the_same_retrieval() -> None:
    bag = summed(BAG)
    both = joined(bag, weighted(), shares=(0.7, 0.3))
    features = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    without = both.encode(TEXTS[:3], lexical=False)
    assert not without[:, bag.width :].any()
    pictures = both.encode_images(features)
    want = bag.similarity(bag.encode(TEXTS[:3]), bag.encode_images(features))
    np.testing.assert_allclose(both.similarity(without, pictures), want, atol=1e-6)
    whole = both.similarity(both.encode(TEXTS[:3]), pictures)
    np.testing.assert_allclose(whole, want * np.float32(0.7**0.5), atol=1e-6)


def test_an_encoder_of_lexical_parts_alone_cannot_leave_them_out() -> None:
    with pytest.raises(EncoderError, match="lexical is False"):
        weighted().encode("a dog", lexical=False)


@pytest.mark.parametrize("shares", [(0.5,), (0.5, 0.6), (1.0, 0.0)])
def test_shares_that_do_not_belong_to_the_parts_are_refused(shares) -> None:
    with pytest.raises(EncoderError, match=r"shares are .*expected one above 0"):
        joined(summed(BAG), weighted(), shares=shares)


def test_a_search_leaves_out_parts_without_a_side_of_pictures_and_ranks_pictures_the_same(tmp_path):
    whole = joined(summed(BAG), weighted(), summed(GRU, seed=1), shares=[0.5, 0.2, 0.3])
    whole.save(tmp_path / "encoder")
    found = open_with_pictures(tmp_path / "encoder")
    assert found.width == whole.width - weighted().width
    features = np.random.default_rng(0).normal(size=(20, 7)).astype(np.float32)
    ours, theirs = (one.similarity(one.encode(TEXTS), one.encode_images(features)) for one in (found, whole))
    seen = [0, 2, 4]
    np.testing.assert_array_equal(np.argsort(ours[seen]), np.argsort(theirs[seen]))
    np.testing.assert_allclose(ours[seen] * np.sqrt(0.8), theirs[seen], rtol=1e-4, atol=1e-6)
