"""The encoder as a library."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_encoder import MODEL, TEXTS, made

from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError
from sightword.model import embedding


def test_an_ensemble_is_the_sum_of_its_members_and_renormalised_when_asked(encoder):
    alone = [SentenceEncoder([part]).encode(TEXTS) for part in encoder.parts]
    assert np.allclose(encoder.encode(TEXTS), alone[0] + alone[1])
    unit = SentenceEncoder(encoder.parts, renormalise=True).encode(TEXTS)
    assert np.allclose(np.linalg.norm(unit, axis=1), 1)
    assert np.allclose(unit * np.linalg.norm(alone[0] + alone[1], axis=1, keepdims=True), alone[0] + alone[1])


@given(st.lists(st.text("a dogrunsx.", max_size=12), min_size=1, max_size=9), st.integers(1, 5), st.randoms())
@settings(max_examples=15)
def test_a_sentences_embedding_knows_nothing_of_its_neighbours(texts, size, random):
    encoder = made(members=1)
    alone = np.stack([encoder.encode(text) for text in texts])
    order = random.sample(range(len(texts)), len(texts))
    together = encoder.encode([texts[place] for place in order], batch_size=size)
    assert np.abs(together - alone[order]).max() < 1e-6


def test_long_sentences_come_in_smaller_batches_with_the_same_result(encoder, monkeypatch):
    texts = ["a dog " * length for length in range(12)]
    expected = encoder.encode(texts)
    monkeypatch.setattr(embedding, "MOST_TOKENS", 70)
    sizes = []
    forward = type(encoder.parts[0].captions).forward

    def noted(self, ids, lengths):
        sizes.append(ids.shape)
        return forward(self, ids, lengths)

    monkeypatch.setattr(type(encoder.parts[0].captions), "forward", noted)
    assert np.abs(encoder.encode(texts) - expected).max() < 1e-6
    assert all(rows * tokens <= 70 or rows == 1 for rows, tokens in sizes)
    assert sum(rows for rows, _ in sizes) == 2 * len(texts)


@pytest.mark.full
def test_a_very_long_sentence_is_encoded():
    length = 100_000
    encoder = made(MODEL.model_copy(update={"bidirectional": False}), members=1)
    text = "a dog runs in the snow . " * (length // 25)
    assert len(text) == length
    found = encoder.encode([text, "a dog"], max_length=length)
    assert np.isfinite(found).all()
    assert np.abs(found[1] - encoder.encode("a dog")).max() < 1e-6


def test_threads_may_share_an_encoder():
    encoder = made()
    draw = np.random.default_rng(0)
    lists = [["".join(draw.choice(list("a dogruns"), size=draw.integers(1, 30))) for _ in range(5)] for _ in range(24)]
    expected = [encoder.encode(texts) for texts in lists]
    before, all_at_once = torch.get_num_threads(), threading.Barrier(8)
    torch.set_num_threads(2)  # each call then works with a thread of its own for each direction
    try:
        with ThreadPoolExecutor(8, initializer=all_at_once.wait) as pool:
            found = list(pool.map(lambda texts: encoder.encode(texts, batch_size=4), lists * 2))
        assert torch.get_num_threads() == 2
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(torch.get_num_threads).result() == 2
    finally:
        torch.set_num_threads(before)
    for texts, vectors, wanted in zip(lists * 2, found, expected * 2, strict=True):
        assert np.abs(vectors - wanted).max() < 1e-6, texts


def test_on_a_gpu_cudnn_keeps_to_float32_until_the_last_thread_is_done():
    gpu, before = torch.device("cuda"), torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = True
    try:
        with embedding.true_float32(torch.device("cpu")):
            assert torch.backends.cudnn.allow_tf32
        first, second = embedding.true_float32(gpu), embedding.true_float32(gpu)
        first.__enter__()
        second.__enter__()
        assert not torch.backends.cudnn.allow_tf32
        first.__exit__(None, None, None)
        assert not torch.backends.cudnn.allow_tf32
        second.__exit__(None, None, None)
        assert torch.backends.cudnn.allow_tf32
    finally:
        torch.backends.cudnn.allow_tf32 = before


OF_EACH_SIMILARITY = {
    "cosine": lambda: made(renormalise=True),
    "dot": made,
    "order": lambda: made(MODEL.model_copy(update={"similarity": "order"})),
    "reversed_order": lambda: made(MODEL.model_copy(update={"similarity": "reversed_order"})),
}


def by_hand(name, caption, image):
    if name.endswith("order"):
        return -(np.maximum(caption - image if name == "order" else image - caption, 0) ** 2).sum()
    return caption @ image / (np.linalg.norm(caption) * np.linalg.norm(image) if name == "cosine" else 1)


@pytest.mark.parametrize("name", OF_EACH_SIMILARITY)
def test_similarity_is_that_of_each_pair_by_hand(name, tmp_path):
    encoder = OF_EACH_SIMILARITY[name]()
    encoder.save(tmp_path)
    assert json.loads((tmp_path / "encoder.json").read_text())["similarity"] == encoder.similarity_name == name
    captions, images = encoder.encode(TEXTS), encoder.encode_images(np.random.default_rng(1).normal(size=(4, 7)))
    wanted = [[by_hand(name, *(one.astype(np.float64) for one in (c, i))) for i in images] for c in captions]
    found = encoder.similarity(captions, images)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    pairs = encoder.similarity_pairwise(captions[:4], images)
    np.testing.assert_allclose(pairs, np.diag(found), atol=1e-6)
    assert encoder.similarity_pairwise(captions[0], images[0]) == pytest.approx(pairs[:1], abs=1e-6)
    tensors = torch.from_numpy(captions), torch.from_numpy(images)
    assert np.array_equal(encoder.similarity(*tensors).numpy(), found)
    assert np.array_equal(encoder.similarity_pairwise(tensors[0][:4], tensors[1]).numpy(), pairs)
    images.flags.writeable = False
    assert np.array_equal(encoder.similarity(captions[::-1], images), found[::-1])
    if name == "cosine":
        assert not encoder.similarity(np.zeros(12, np.float32), images).any()  # no direction, no likeness
    with pytest.raises(EncoderError, match="there are 4 first and 3 second vectors; expected as many of both"):
        encoder.similarity_pairwise(captions[:4], images[:3])


def test_types_and_options_of_neighbours_are_accepted():
    encoder = made(members=1)
    expected = encoder.encode(TEXTS)
    for found in (
        encoder.encode(pa.array(TEXTS), convert_to_numpy=True),
        encoder.encode(TEXTS, precision="float32"),
        encoder.encode_query(TEXTS),
        encoder.encode_document(TEXTS),
    ):
        assert np.array_equal(found, expected)
    with pytest.raises(TypeError, match="truncate_dim"):
        encoder.encode(TEXTS, truncate_dim=8)


def test_constructor_with_a_name_says_what_loads_it():
    for name in ("flickr8k", Path("models/encoder")):
        with pytest.raises(EncoderError, match=rf"'{name}' is a name.*call SentenceEncoder\.from_pretrained\('{name}'"):
            SentenceEncoder(name)


def test_pictures_are_standardised_inside_and_may_come_one_by_one(encoder):
    features = np.random.default_rng(1).normal(3, 2, size=(5, 7))
    whole = encoder.encode_images(features)
    assert whole.shape == (5, 12)
    expected = np.zeros((5, 12))
    for part in encoder.parts:
        side = part.images
        scaled = (features - side.mean.numpy()) / side.deviation.numpy()
        mapped = scaled @ side.linear.weight.detach().numpy().T + side.linear.bias.detach().numpy()
        expected += mapped / np.linalg.norm(mapped, axis=1, keepdims=True)
    assert np.allclose(whole, expected, atol=1e-5)
    assert np.abs(np.stack([encoder.encode_images(row) for row in features]) - whole).max() < 1e-6
    assert np.abs(encoder.encode_images(torch.from_numpy(features)) - whole).max() < 1e-6
    assert np.abs(encoder.encode_images(features.tolist()) - whole).max() < 1e-6
    assert np.allclose(np.linalg.norm(encoder.encode_images(features, normalize_embeddings=True), axis=1), 1)
    assert encoder.encode_images(np.empty((0, 7))).shape == (0, 12)


def test_it_is_told_in_a_line_and_can_be_a_key(encoder):
    assert repr(encoder) == (
        "<SentenceEncoder: 2 x GRU over characters, 7 features, 12 numbers an embedding, dot, cpu>"
    )
    assert {encoder: "mine"}[encoder] == "mine"
    assert encoder != made()
