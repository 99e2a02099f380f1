"""The encoder refuses wrong input with one message."""

import logging

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from small_encoder import TEXTS

from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError, SetupError


def test_a_longer_one_is_refused_at_once_and_not_cut(encoder):
    with pytest.raises(EncoderError, match=r"sentence 1 has 200,000 tokens; expected at most 5,000\. Cut it, or give"):
        encoder.encode(["a dog", "a" * 200_000])
    assert encoder.encode("a dog", max_length=5).shape == (12,)
    with pytest.raises(EncoderError, match="sentence 0 has 6 tokens; expected at most 5"):
        encoder.encode("a dogs", max_length=5)
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
        ({"a dog": 1}, "sentences: got the type dict"),
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
        (np.zeros((1, 3, 7)), r"shape \(1, 3, 7\)"),
        ([[1.0] * 7, [1.0] * 6], "not rows of equal length"),
        (["cat.jpg"], r"features are <U7, not numbers\. Take features of the network .* not pictures or paths"),
        (None, "features are object, not numbers"),
        ([[0.0] * 7, [0.0] * 6 + [float("nan")]], "picture 1 are not finite"),
        ([[1e300] * 7], "picture 0 are not finite, or too large"),
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
