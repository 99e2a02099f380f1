"""Calls that users of sentence-transformers make: provided, or refused with a sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from small_encoder import MODEL, TEXTS, made

from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError

OF_EACH_SIMILARITY = {
    "cosine": lambda: made(members=1),
    "dot": made,
    "order": lambda: made(MODEL.model_copy(update={"similarity": "order"})),
    "reversed_order": lambda: made(MODEL.model_copy(update={"similarity": "reversed_order"})),
}


@pytest.mark.parametrize("name", OF_EACH_SIMILARITY)
def test_pairwise_similarities_are_the_diagonal(name) -> None:
    encoder = OF_EACH_SIMILARITY[name]()
    assert encoder.similarity_name == name
    captions = encoder.encode(TEXTS[:4])
    images = encoder.encode_images(np.random.default_rng(1).normal(size=(4, 7)))
    expected = np.diag(encoder.similarity(captions, images))
    found = encoder.similarity_pairwise(captions, images)
    assert (found.dtype, found.shape) == (np.float32, (4,))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    as_tensors = encoder.similarity_pairwise(torch.from_numpy(captions), torch.from_numpy(images))
    assert np.array_equal(as_tensors.numpy(), found)
    assert encoder.similarity_pairwise(captions[0], images[0]) == pytest.approx(expected[:1], abs=1e-6)
    with pytest.raises(EncoderError, match="there are 4 first and 3 second vectors; expected as many of both"):
        encoder.similarity_pairwise(captions, images[:3])
    with pytest.raises(EncoderError, match=r"the second vectors have the shape \(4, 7\)"):
        encoder.similarity_pairwise(captions, np.zeros((4, 7)))


def test_the_constructor_with_a_name_says_what_loads_it() -> None:
    with pytest.raises(EncoderError) as caught:
        SentenceEncoder("flickr8k")
    assert str(caught.value) == (
        "'flickr8k' is a name, and the constructor takes networks. "
        "To load an encoder, call SentenceEncoder.from_pretrained('flickr8k')."
    )
    with pytest.raises(EncoderError, match=r"call SentenceEncoder\.from_pretrained\('models/encoder'\)"):
        SentenceEncoder(Path("models/encoder"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        *((name, "flickr8k stands for an encoder") for name in ("models/encoder", "/models/encoder", "a/b/c")),
        ("models/grounded/cg-0", "`make grounded` makes it"),
        ("own/grounded/cg-0", "flickr8k stands for an encoder"),
    ],
)
def test_missing_folder_is_not_taken_for_a_hub_name(name, said, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EncoderError, match=rf"does not exist.*{said}") as caught:
        SentenceEncoder.from_pretrained(name)
    assert "hub" not in str(caught.value)


def test_load_of_a_packaged_name_says_from_pretrained(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EncoderError, match=r"SentenceEncoder\.from_pretrained\('flickr8k'\) loads"):
        SentenceEncoder.load("flickr8k")


def test_an_output_for_each_token_is_refused_with_a_sentence() -> None:
    encoder = made(members=1)
    assert np.array_equal(encoder.encode(TEXTS, output_value="sentence_embedding"), encoder.encode(TEXTS))
    for value in ("token_embeddings", None):
        with pytest.raises(EncoderError, match="a sentence has one vector here, none for its tokens") as caught:
            encoder.encode(TEXTS, output_value=value)
        assert str(caught.value).endswith("Leave output_value out.")


def test_names_and_types_of_neighbours_are_accepted() -> None:
    encoder = made(members=1)
    expected = encoder.encode(TEXTS)
    for found in (
        encoder.encode(pa.array(TEXTS)),
        encoder.encode(TEXTS, precision="float32"),
        encoder.encode_query(TEXTS),
        encoder.encode_document(TEXTS),
    ):
        assert np.array_equal(found, expected)
    with pytest.raises(TypeError, match="truncate_dim"):
        encoder.encode(TEXTS, truncate_dim=8)
