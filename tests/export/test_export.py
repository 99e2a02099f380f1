"""The exported graphs, run by ONNX Runtime, beside the encoder."""

from __future__ import annotations

import itertools
import json
import sys
import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from encoder_kinds import joined, of_sentences, three, weighted

from pipeline.cli import main
from sightword.captions.normalise import Normalisation
from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.parts import Part, parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError, SetupError
from sightword.export import onnx_folder as export
from sightword.export import onnx_graph
from sightword.export.onnx_folder import CAPTIONS, DESCRIPTION, IMAGES, write_export
from sightword.model.encoders import CaptionEncoder, Encoders
from sightword.model.settings import ModelSettings

TEXTS = ["a dog runs", "", "two big dogs run in the snow .", "a", "A D\N{COMBINING RING ABOVE}g \N{SNOWMAN}" * 20]


SUMS = {"gru": "cosine", "lstm": "dot"}
"""By what the sums of two members are compared: those of the first are brought back to length 1."""


def made(*, renormalise=False, unit="character", normalise=None, **change) -> SentenceEncoder:
    torch.manual_seed(0)
    model = ModelSettings(embedding=5, hidden=6, attention=4).model_copy(update=change)
    vocabulary = Vocabulary.build(["a dog runs in the snow .", "two big dogs"], unit=unit, normalise=normalise)
    members = [Encoders(len(vocabulary), 7, model.shape) for _ in range(2)]
    features = np.random.default_rng(0).normal(3, 2, (20, 7)).astype(np.float32)
    features[:, 2] = 1.5  # does not vary: its deviation is infinite
    for member in members:
        member.images.standardise_by(features)
    return SentenceEncoder(parts_of(members, vocabulary, model.shape), renormalise=renormalise)


def unscaled(part: Part) -> Part:
    shape = replace(part.shape, scaled=False)
    captions = CaptionEncoder(len(part.vocabulary), shape)
    captions.load_state_dict(part.captions.state_dict())
    return replace(part, captions=captions, shape=shape)


def foreign(folder: Path, texts: list[str]) -> np.ndarray:
    """What a program of another language would do, by the description alone."""
    about = json.loads((folder / DESCRIPTION).read_text())
    rows = []
    for text in texts:
        if about["normalise"]["unicode"] != "none":
            text = unicodedata.normalize(about["normalise"]["unicode"], text)
        if about["normalise"]["case"] == "lower":
            text = text.lower()
        if about["normalise"]["full_stop"] == "add" and not text.endswith("."):
            text += " ."
        tokens = text.split() if about["unit"] == "word" else list(text)
        rows.append([about["ids"].get(token, about["unknown"]) for token in tokens] or [about["pad"]])
    steps = max(map(len, rows))
    ids = np.array([row + [about["pad"]] * (steps - len(row)) for row in rows], np.int64)
    lengths = np.array([len(row) for row in rows], np.int64)
    session = onnxruntime.InferenceSession(folder / about["captions"]["file"], providers=["CPUExecutionProvider"])
    return session.run(["embeddings"], {"ids": ids, "lengths": lengths})[0]


@pytest.mark.parametrize(
    ("cell", "bidirectional", "pooling"),
    list(itertools.product(["gru", "lstm"], [True, False], ["attention", "max", "mean", "last"])),
)
def test_graph_of_any_network_equals_the_encoder(tmp_path, cell, bidirectional, pooling):
    encoder = made(
        cell=cell,
        bidirectional=bidirectional,
        pooling=pooling,
        similarity="order" if bidirectional else "cosine",
        renormalise=cell == "gru",
    )
    write_export(tmp_path / "out", encoder)
    about = json.loads((tmp_path / "out" / "export.json").read_text())
    assert about["similarity"] == encoder.similarity_name == ("order" if bidirectional else SUMS[cell])
    expected = encoder.encode(TEXTS)
    assert np.abs(foreign(tmp_path / "out", TEXTS) - expected).max() < 1e-5
    for place, text in enumerate(TEXTS):
        assert np.abs(foreign(tmp_path / "out", [text]) - expected[place]).max() < 1e-5
    features = np.random.default_rng(1).normal(3, 2, (4, 7)).astype(np.float32)
    for rows in (features, features[:1], features[:0]):
        assert (
            np.abs(export.run(tmp_path / "out" / IMAGES, features=rows) - encoder.encode_images(rows)).max(initial=0)
            < 1e-5
        )


@pytest.mark.parametrize("pooling", ["last", "max"])
def test_vectors_that_are_not_scaled_stay_so(tmp_path, pooling):
    scaled = made(pooling=pooling, similarity="order")
    unit = scaled.encode(TEXTS[2])
    encoder = scaled.with_parts(unscaled)
    write_export(tmp_path / "out", encoder)
    expected = encoder.encode(TEXTS)
    assert np.abs(foreign(tmp_path / "out", TEXTS) - expected).max() < 1e-5
    assert np.abs(expected[2] - unit).max() > 0.01


def test_padding_takes_part_where_it_did_in_training(tmp_path):
    encoder = made(mask_padding=False)
    write_export(tmp_path / "out", encoder)
    found = foreign(tmp_path / "out", TEXTS)
    assert np.abs(found - encoder.encode(TEXTS)).max() < 1e-5
    assert np.abs(foreign(tmp_path / "out", TEXTS[:1]) - found[0]).max() > 1e-3


def test_texts_become_ids_as_the_description_says(tmp_path):
    normalise = Normalisation(unicode="NFKC", case="lower", full_stop="add")
    encoder = made(normalise=normalise)
    write_export(tmp_path / "out", encoder)
    assert np.abs(foreign(tmp_path / "out", TEXTS) - encoder.encode(TEXTS)).max() < 1e-5
    words = made(unit="word")
    write_export(tmp_path / "words", words)
    texts = ["a dog runs in the snow .", "two cats"]
    assert np.abs(foreign(tmp_path / "words", texts) - words.encode(texts)).max() < 1e-5


def test_the_same_encoder_gives_the_same_bytes_and_an_earlier_export_is_replaced(tmp_path):
    for name in ("one", "two"):
        assert write_export(tmp_path / name, made()) < 1e-6
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == [CAPTIONS, DESCRIPTION, IMAGES]
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    write_export(tmp_path / "two", made(hidden=9))
    assert json.loads((tmp_path / "two" / DESCRIPTION).read_text())["width"] == 18


def test_other_folders_are_not_replaced(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("years of work")
    (tmp_path / "full" / DESCRIPTION).write_text("{}")
    (tmp_path / "file").write_text("too")
    for name in ("full", "file"):
        with pytest.raises(EncoderError, match="exists, and holds more than an export"):
            write_export(tmp_path / name, made())
    assert (tmp_path / "full" / "thesis.txt").read_text() == "years of work"
    (tmp_path / "empty").mkdir()
    write_export(tmp_path / "empty", made())


def test_graph_with_other_embeddings_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_graph, "_GATES", {"gru": (0, 1, 2)})  # PyTorch's order
    with pytest.raises(EncoderError, match="ONNX Runtime gives embeddings that differ by"):
        write_export(tmp_path / "out", made())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["onnx", "onnxruntime"])
def test_without_the_extra_it_says_what_to_install(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SetupError, match=f"{name} is not installed. Install the extra export: "):
        write_export(tmp_path / "out", made())
    assert not (tmp_path / "out").exists()


def test_what_is_too_large_for_a_graph_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(export, "MOST_BYTES", 1000)
    with pytest.raises(EncoderError, match="too much for a graph"):
        write_export(tmp_path / "out", made())


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: of_sentences(cell="layer_norm_gru"), "a GRU with layer normalisation"),
        (lambda: made(cell="ngrams"), "n-grams"),
        (three, "n-grams"),
        (lambda: joined(of_sentences(), weighted()), "weighted n-grams"),
    ],
)
def test_what_has_no_operator_is_refused(tmp_path, make, what):
    with pytest.raises(EncoderError, match=rf"{what}, .*; expected a GRU or an LSTM\. "):
        write_export(tmp_path / "out", make())
    assert not (tmp_path / "out").exists()


def test_runtimes_of_2022_read_it(tmp_path):
    write_export(tmp_path / "out", made())
    for name in (CAPTIONS, IMAGES):
        found = onnx.load(tmp_path / "out" / name)
        assert found.ir_version <= 8
        assert [entry.version for entry in found.opset_import] == [17]


def test_the_command_tells_what_it_wrote_and_what_went_wrong(tmp_path, capsys):
    made().save(tmp_path / "encoder")
    assert main(["export", str(tmp_path / "encoder"), str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert all(str(tmp_path / "out" / name) in said for name in (CAPTIONS, IMAGES, DESCRIPTION))
    assert "ONNX Runtime and the encoder differ by" in said
    assert main(["export", str(tmp_path / "nothing"), str(tmp_path / "out")]) == 1
    assert "nothing: does not exist" in capsys.readouterr().err
