"""The encoder as a library."""

import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from small_encoder import MODEL, TEXTS, made

from sightword.compute.devices import threads
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError, SetupError
from sightword.model import embedding
from sightword.model.embedding import Precision, embed_captions
from sightword.model.encoders import Encoders
from sightword.model.settings import ModelSettings


@pytest.fixture
def encoder():
    return made()


def test_an_ensemble_is_the_sum_of_its_members_and_renormalised_when_asked(encoder):
    alone = [SentenceEncoder([part]).encode(TEXTS) for part in encoder.parts]
    assert np.allclose(encoder.encode(TEXTS), alone[0] + alone[1])
    unit = SentenceEncoder(encoder.parts, renormalise=True).encode(TEXTS)
    assert np.allclose(np.linalg.norm(unit, axis=1), 1)
    assert np.allclose(unit * np.linalg.norm(alone[0] + alone[1], axis=1, keepdims=True), alone[0] + alone[1])


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
        encoder.encode_document(TEXTS, prompt=None, prompt_name=None, output_value="sentence_embedding"),
        encoder.encode(pd.Series(TEXTS), device="cpu", truncate_dim=None, pool=None, chunk_size=None),
        encoder.encode(pa.chunked_array([TEXTS]), convert_to_numpy=False, convert_to_tensor=True).numpy(),
    ):
        assert np.array_equal(found, expected)
    wrong = {"prompt": "query: ", "prompt_name": "query", "truncate_dim": 8, "pool": {}, "precision": "int8"}
    for name, value in (
        wrong | {"output_value": "token_embeddings", "convert_to_numpy": False, "chunk_size": 3}
    ).items():
        with pytest.raises(EncoderError, match=rf"^{name} .*; expected"):
            encoder.encode(TEXTS, **{name: value})
    for column in (pd.Series(["a", None]), pa.array(["a", None]), pd.Series(["a", pd.NA], dtype="string")):
        with pytest.raises(EncoderError, match=r"sentence 1 is \w+, not a text"):
            encoder.encode(column)


def test_pictures_are_standardised_inside(encoder):
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


# Wrong input


def test_a_longer_one_is_refused_at_once_and_not_cut(encoder):
    with pytest.raises(EncoderError, match=r"sentence 1 has 200,000 tokens; expected at most 5,000\. Cut it, or give"):
        encoder.encode(["a dog", "a" * 200_000])
    assert encoder.encode("a dog", max_length=5).shape == (12,)
    with pytest.raises(EncoderError, match=r"200,001 tokens; expected at most 200,000\. Cut it\."):
        encoder.encode("a" * 200_001, max_length=200_000)


def test_a_table_is_not_encoded_by_the_names_of_its_columns(encoder):
    frame = pd.DataFrame({"caption": TEXTS})
    for table in (frame, pa.Table.from_pandas(frame)):
        with pytest.raises(EncoderError, match=r"sentences: got the type .*Give one column"):
            encoder.encode(table)
    assert np.array_equal(encoder.encode(frame["caption"]), encoder.encode(TEXTS))


def test_half_a_character_is_an_unknown_one(encoder, caplog):
    assert np.array_equal(encoder.encode("a \ud83d dog"), encoder.encode("a \u4e00 dog"))
    assert encoder.known("\ud83da") == 0.5
    encoder.encode("\ud83d")
    assert r"(the first: '\ud83d')" in caplog.text


def test_sentences_of_which_nothing_is_known_are_told(encoder, caplog):
    with caplog.at_level(logging.WARNING):
        found = encoder.encode(["a dog", "\N{SNOWMAN}", "", "a \N{SNOWMAN}", "\ud800"])
    assert np.isfinite(found).all()
    assert "3 of 5 sentences have no character that the encoder knows (the first: '☃')" in caplog.text
    caplog.clear()
    encoder.encode(["a dog", "a \N{SNOWMAN}"])
    assert not caplog.records
    assert encoder.known("a dog") == 1
    assert encoder.known("ab\N{SNOWMAN}\N{SNOWMAN}") == 0.5
    assert encoder.known("") == encoder.known("\N{SNOWMAN}") == 0


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        (["a dog", 3.0], "sentence 1 is float, not a text"),
        (b"a dog", "sentences: got the type bytes; expected a string or a list of strings"),
        (np.array([["a dog"]]), "sentences: got the type ndarray"),
    ],
)
def test_what_is_no_text_is_named(encoder, sentences, message):
    with pytest.raises(EncoderError, match=message):
        encoder.encode(sentences)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros((3, 8)), r"shape \(3, 8\); expected \(pictures, 7\)"),
        ([[1.0] * 7, [1.0] * 6], "not rows of equal length"),
        (["cat.jpg"], r"features are <U7, not numbers\. Take features of the network .* not pictures or paths"),
        ([[0.0] * 7, [0.0] * 6 + [float("nan")]], "picture 1 are not finite"),
    ],
)
def test_wrong_features_are_reported(encoder, features, message):
    with pytest.raises(EncoderError, match=message):
        encoder.encode_images(features)


def test_wrong_input_is_reported(encoder):
    with pytest.raises(EncoderError, match=r"the first vectors have the shape \(3, 11\); expected \(.., 12\)"):
        encoder.similarity(np.zeros((3, 11)), np.zeros((3, 12)))
    with pytest.raises(EncoderError, match=r"the first vectors are <U5, not numbers\. Take the vectors of encode"):
        encoder.similarity("a dog", np.zeros((3, 12)))
    with pytest.raises(EncoderError, match="is int, not a text"):
        encoder.known(3)


def test_a_device_that_is_not_there_is_named(encoder, tmp_path):
    encoder.save(tmp_path)
    with pytest.raises(SetupError, match="no such device"):
        SentenceEncoder.load(tmp_path, device="tpu")
    with pytest.raises(SetupError, match="no such device here"):
        SentenceEncoder.load(tmp_path, device="cuda:99")
    assert SentenceEncoder.load(tmp_path, device=torch.device("cpu")).device.type == "cpu"
    assert SentenceEncoder.load(tmp_path, device="auto").encode("a dog").shape == (12,)


# In bfloat16


SENTENCES = [
    "A man is playing a guitar.",
    "dogs",
    "Two children in red shirts run along a beach while their mother looks on from under a blue umbrella.",
    "The Dow Jones industrial average closed down 1.2 percent.",
    "a girl is styling her hair",
]


def cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    one, other = one.astype(np.float64), other.astype(np.float64)
    return (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)


def test_n_grams_have_no_bfloat16_and_the_same_bits():
    encoder = SentenceEncoder.from_pretrained("flickr8k")
    assert np.array_equal(encoder.encode(SENTENCES, precision="bf16"), encoder.encode(SENTENCES))


@pytest.mark.parametrize(("cell", "pooling"), [("gru", "attention"), ("lstm", "max"), ("gru", "last")])
def test_each_network_gives_float32_and_the_same_bits_with_any_number_of_threads(cell, pooling):
    torch.manual_seed(0)
    captions = Encoders(30, 4, ModelSettings(hidden=160, cell=cell, pooling=pooling).shape).eval().captions
    draw = np.random.default_rng(0)
    rows = [draw.integers(2, 30, length) for length in draw.integers(1, 30, 140)]
    found: dict[Precision, list[np.ndarray]] = {"fp32": [], "bf16": []}
    for precision, same in found.items():
        for count in (1, 2, 3):  # with 3, batches of 64 are computed side by side, of 256 one after the other
            for batch in (64, 256):
                with threads(count):
                    same.append(embed_captions(captions, rows, batch=batch, precision=precision))
        assert all(np.array_equal(same[0], other) for other in same[2::2])
        assert all(np.array_equal(same[1], other) for other in same[3::2])
    full, fast = found["fp32"][0], found["bf16"][0]
    assert fast.dtype == np.float32
    assert cosines(full, fast).min() > 0.9998


def test_float32_stays_float32_within_autocast(encoder):
    full = encoder.encode(TEXTS)
    with torch.autocast("cpu", torch.bfloat16):
        assert np.array_equal(encoder.encode(TEXTS), full)
