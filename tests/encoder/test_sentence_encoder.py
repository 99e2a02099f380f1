"""The encoder as a library."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_encoder import MODEL, TEXTS, made

from sightword.encoder.sentence_encoder import SentenceEncoder
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


@pytest.mark.parametrize("length", [2_000, pytest.param(100_000, marks=pytest.mark.full)])
def test_a_very_long_sentence_is_encoded(length):
    encoder = made(MODEL.model_copy(update={"bidirectional": False}), members=1)
    text = "a dog runs in the snow . " * (length // 25)
    assert len(text) == length
    found = encoder.encode([text, "a dog"], max_length=length)
    assert np.isfinite(found).all()
    assert np.abs(found[1] - encoder.encode("a dog")).max() < 1e-6


def test_arrays_reversed_or_read_only_are_accepted(encoder, tmp_path):
    features = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    np.save(tmp_path / "features.npy", features)
    pictures = encoder.encode_images(features)
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    assert np.array_equal(encoder.encode_images(mapped), pictures)
    assert np.array_equal(encoder.encode_images(mapped[::-1]), pictures[::-1])
    captions = encoder.encode(TEXTS)
    scores = encoder.similarity(captions[::-1].copy(), pictures[:, ::-1].copy())
    assert np.array_equal(encoder.similarity(captions[::-1], pictures[:, ::-1]), scores)
    scores = encoder.similarity(captions, pictures)
    pictures.flags.writeable = False
    assert np.array_equal(encoder.similarity(captions, pictures), scores)


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


@pytest.mark.parametrize("made_of", [{"members": 1}, {"renormalise": True}])
def test_the_similarity_is_the_cosine(made_of):
    encoder = made(**made_of)
    assert encoder.similarity_name == "cosine"
    captions = encoder.encode(TEXTS)
    images = encoder.encode_images(np.random.default_rng(1).normal(size=(4, 7)))
    found = encoder.similarity(captions, images)
    assert found.dtype == np.float32
    for row, caption in enumerate(captions.astype(np.float64)):
        for column, image in enumerate(images.astype(np.float64)):
            cosine = caption @ image / np.sqrt((caption @ caption) * (image @ image))
            assert found[row, column] == pytest.approx(cosine, abs=1e-6)
    assert np.allclose(np.diag(encoder.similarity(captions, captions)), 1)
    assert not encoder.similarity(np.zeros(12, np.float32), images).any()  # no direction, no likeness
    as_tensors = encoder.similarity(torch.from_numpy(captions), torch.from_numpy(images))
    assert np.array_equal(as_tensors.numpy(), found)


def test_the_similarity_of_sums_that_keep_their_lengths_is_the_dot_product(encoder, tmp_path):
    captions = encoder.encode(TEXTS)
    images = encoder.encode_images(np.random.default_rng(1).normal(size=(4, 7)))
    expected = captions.astype(np.float64) @ images.astype(np.float64).T
    encoder.save(tmp_path)
    assert json.loads((tmp_path / "encoder.json").read_text())["similarity"] == "dot"
    for one in (encoder, SentenceEncoder.load(tmp_path)):
        assert one.similarity_name == "dot"
        assert np.allclose(one.similarity(captions, images), expected, atol=1e-6)
        as_tensors = one.similarity(torch.from_numpy(captions), torch.from_numpy(images))
        assert np.array_equal(as_tensors.numpy(), one.similarity(captions, images))
    assert np.linalg.norm(captions, axis=1).min() > 1.05  # no cosine


@pytest.mark.parametrize("name", ["order", "reversed_order"])
def test_the_similarity_is_the_orders_penalty_where_it_was_trained_for_one(name):
    encoder = made(MODEL.model_copy(update={"similarity": name}))
    captions = encoder.encode(TEXTS)
    images = encoder.encode_images(np.random.default_rng(1).normal(size=(4, 7)))
    found = encoder.similarity(captions, images)
    for row, caption in enumerate(captions.astype(np.float64)):
        for column, image in enumerate(images.astype(np.float64)):
            excess = caption - image if name == "order" else image - caption
            assert found[row, column] == pytest.approx(-(np.maximum(excess, 0) ** 2).sum(), abs=1e-6)


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
