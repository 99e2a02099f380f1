"""The encoder of several spaces: its vectors, its folder, damage, and its name on the command line."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from small_encoder import made
from small_ground import TEXTS, encoder
from sums import renew

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.by_name import open_encoder
from sightword.encoder.grounded import GroundedEncoder, Part, head
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError
from sightword.evaluation.semantics.encoding import embed
from sightword.model.encoders import CaptionEncoder


@pytest.fixture
def folder(tmp_path):
    encoder().save(tmp_path / "e")
    return tmp_path / "e"


def test_each_space_is_its_map_of_the_sentences_vectors():
    found, spaces = encoder(), encoder().encode_spaces(TEXTS)
    assert {space: (*values.shape, values.dtype.name) for space, values in spaces.items()} == {
        "sentence": (32, 8, "float32"),
        "grounded": (32, 4, "float32"),
        "visual": (32, 7, "float32"),
    }
    part = found.parts[0]
    with torch.no_grad():
        expected = part.captions.embed([np.asarray(part.vocabulary.encode(text), np.int64) for text in TEXTS])
        np.testing.assert_allclose(spaces["sentence"], expected, atol=1e-6)
        for space, module in found.heads.items():
            np.testing.assert_allclose(spaces[space], module(expected), atol=1e-6)
            np.testing.assert_array_equal(found.encode(TEXTS, space=space), spaces[space])
    np.testing.assert_array_equal(found.encode(TEXTS), spaces["grounded"])
    assert (found.width, found.width_of("visual")) == (4, 7)


def test_one_text_equal_texts_none_and_unit_length():
    found = encoder()
    assert found.encode(TEXTS[0]).shape == (4,)
    assert found.encode_spaces([])["visual"].shape == (0, 7)
    many = found.encode([TEXTS[3], *TEXTS * 40, TEXTS[3]])
    assert (many[0] == many[-1]).all()
    assert (many[0] == many[4]).all()
    np.testing.assert_allclose(np.linalg.norm(found.encode(TEXTS, normalize_embeddings=True), axis=1), 1, atol=1e-6)
    assert found.known("a red monster") == pytest.approx(2 / 3)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_change_no_bit(threads):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        vectors = encoder().encode(TEXTS)
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(vectors, encoder().encode(TEXTS))


def test_a_saved_encoder_comes_back_with_equal_bytes(folder, tmp_path):
    found = GroundedEncoder.load(folder)
    assert (found.spaces, found.default, found.notes) == (("sentence", "grounded", "visual"), "grounded", {"seed": 1})
    for space, values in encoder().encode_spaces(TEXTS).items():
        np.testing.assert_array_equal(found.encode(TEXTS, space=space), values)
    found.save(tmp_path / "again")
    files = sorted(path.name for path in folder.iterdir())
    assert files == ["SHA256SUMS", "encoder.json", "heads.safetensors", "part-1.safetensors", "vocabulary-1.json"]
    assert [(folder / name).read_bytes() for name in files] == [
        (tmp_path / "again" / name).read_bytes() for name in files
    ]
    assert repr(found) == (
        "<GroundedEncoder: GRU over words; sentence 8, grounded 4, visual 7; encodes to grounded; cpu>"
    )


@pytest.mark.parametrize("name", ["encoder.json", "heads.safetensors", "part-1.safetensors", "vocabulary-1.json"])
def test_missing_or_changed_files_are_refused(folder, name):
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(EncoderError, match="is not the file that was saved"):
        GroundedEncoder.load(folder)
    (folder / name).unlink()
    with pytest.raises(EncoderError, match="is missing"):
        GroundedEncoder.load(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"default": "smell"}, "the default space is 'smell'"),
        ({"spaces": {"sentence": [], "grounded": [9, 4]}}, r"spaces.grounded is \[9, 4\]; expected"),
        ({"spaces": {"smell": []}}, "spaces.smell"),
        ({"spaces": {"grounded": [8, 5, 3]}}, "belongs to another network"),
        ({"parts": []}, "parts or notes"),
        ({"parts": [{"scaled": True}]}, "lacks model"),
        ({"parts": [3]}, "damaged"),
        ({"schema": 4}, "from a newer Sightword"),
        ({"kind": "other"}, "without grounded spaces"),
    ],
)
def test_wrong_descriptions_are_refused(folder, changes, message):
    about = json.loads((folder / "encoder.json").read_text())
    (folder / "encoder.json").write_text(json.dumps(about | changes))
    renew(folder)
    with pytest.raises(EncoderError, match=message):
        GroundedEncoder.load(folder)


def test_weights_that_are_not_finite_are_refused(tmp_path):
    broken = encoder()
    with torch.no_grad():
        broken.heads["visual"][0].bias[2] = float("nan")
    broken.save(tmp_path / "e")
    with pytest.raises(EncoderError, match="not finite"):
        GroundedEncoder.load(tmp_path / "e")


def test_each_class_refuses_the_others_folder(folder, tmp_path):
    with pytest.raises(EncoderError, match="GroundedEncoder"):
        SentenceEncoder.load(folder)
    made().save(tmp_path / "plain")
    with pytest.raises(EncoderError, match="SentenceEncoder"):
        GroundedEncoder.load(tmp_path / "plain")
    with pytest.raises(EncoderError, match="holds no encoder"):
        GroundedEncoder.load(tmp_path)


def test_names_of_folders_and_spaces(folder, tmp_path, monkeypatch):
    found = encoder()
    np.testing.assert_array_equal(open_encoder(str(folder))(TEXTS), found.encode(TEXTS))
    named = open_encoder(f"{folder}:visual", batch_size=4)
    np.testing.assert_allclose(named(TEXTS), found.encode(TEXTS, space="visual"), atol=1e-6)
    with pytest.raises(EncoderError, match=r"/\S+: has no space 'smell'; expected sentence or grounded or visual"):
        open_encoder(f"{folder}:smell")
    made().save(tmp_path / "plain")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EncoderError, match="has one space"):
        open_encoder("plain:grounded")
    (tmp_path / "a_module").mkdir()
    (tmp_path / "a_module/__init__.py").write_text("def lengths(texts):\n    return [[len(text)] for text in texts]\n")
    assert open_encoder("a_module:lengths")(["dog"]) == [[3]]
    shutil.rmtree(folder)
    with pytest.raises(EncoderError, match="no such encoder"):
        open_encoder(f"{folder}:visual")


def test_messages_call_tokens_words(caplog):
    vocabulary = Vocabulary.build(TEXTS, unit="treebank")
    shape = encoder().parts[0].shape
    found = GroundedEncoder(
        [Part(CaptionEncoder(len(vocabulary), shape), vocabulary, shape)], {"sentence": head([])}, "sentence"
    )
    assert "over words" in repr(found)
    found.encode("zzz")
    assert "1 of 1 sentences have no word that the encoder knows" in caplog.text


def test_unknown_sentences_are_told_once_for_all_lists_and_networks(caplog):
    one = encoder()
    joined = GroundedEncoder([one.parts[0], one.parts[0]], {"sentence": head([])}, "sentence")
    embed(joined.encode, [TEXTS[0], "qwertz", "qwertz uiop"], chunk=1)
    (record,) = caplog.records
    assert "2 of 3 sentences have no word that the encoder knows (the first: 'qwertz" in record.getMessage()
    caplog.clear()
    embed(joined.encode, TEXTS[:3], chunk=1)
    assert not caplog.records


def test_wrong_arguments():
    found = encoder()
    for arguments, message in (
        ({"space": "smell"}, "has no space 'smell'"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"max_length": 0}, "max_length is 0"),
        ({"max_length": 3}, "sentence 0 has 5 tokens"),
    ):
        with pytest.raises(EncoderError, match=message):
            found.encode(TEXTS, **arguments)
    with pytest.raises(EncoderError, match="sentence 1 is int"):
        found.encode(["a", 1])
    with pytest.raises(EncoderError, match="has no space"):
        encoder(default="smell")


def test_a_head_of_no_widths_is_the_identity():
    assert len(head([])) == 0
    assert [type(layer).__name__ for layer in head([4, 3, 2])] == ["Linear", "ReLU", "Linear"]


def test_a_token_of_the_treebank_is_called_a_word(caplog):
    part = encoder().parts[0]
    vocabulary = Vocabulary(part.vocabulary.tokens, part.vocabulary.normalise, "treebank")
    found = replace(encoder(), parts=[replace(part, vocabulary=vocabulary)])
    assert "GRU over words;" in repr(found)
    found.encode(["qwertz"])
    assert "1 of 1 sentences have no word that the encoder knows" in caplog.text
