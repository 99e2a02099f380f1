"""Encoding in bfloat16."""

import numpy as np
import pytest
import torch
from small_encoder import TEXTS

from sightword.compute.devices import threads
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.model import embedding
from sightword.model.embedding import Precision, embed_captions
from sightword.model.encoders import Encoders
from sightword.model.settings import ModelSettings

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


def test_cpu_without_bfloat16_units_is_logged_once(encoder, monkeypatch, caplog):
    embedding.warn_slow.cache_clear()
    monkeypatch.setattr(embedding, "has_bfloat16_units", lambda: True)
    encoder.encode(TEXTS, precision="bf16")
    monkeypatch.setattr(embedding, "has_bfloat16_units", lambda: False)
    encoder.encode(TEXTS)
    assert "bfloat16" not in caplog.text
    for _ in range(2):
        encoder.encode(TEXTS, precision="bf16")
    assert caplog.text.count("no units for bfloat16") == 1
