"""The folder of an encoder: wrong entries, weights that are no numbers, and names of folders and spaces."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import safetensors.torch
import torch
from encoder_kinds import KINDS, of_sentences
from small_encoder import MODEL, TEXTS, made
from small_ground import encoder as with_spaces
from sums import renew

from sightword.encoder.by_name import open_encoder
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError
from sightword.model.shape import shape_as_json

PART = {
    "weights": "part-1.safetensors",
    "vocabulary": "vocabulary.json",
    "features_width": 7,
    "shape": shape_as_json(MODEL.shape),
}


@pytest.fixture
def folder(tmp_path):
    """A saved encoder of two parts."""
    made().save(tmp_path / "encoder")
    return tmp_path / "encoder"


def change(folder, **entries):
    about = json.loads((folder / "encoder.json").read_text())
    (folder / "encoder.json").write_text(json.dumps({**about, **entries}))
    renew(folder)


def refusal(folder):
    with pytest.raises(EncoderError) as stopped:
        SentenceEncoder.load(folder)
    return str(stopped.value)


def with_shape(**entries):
    return {"parts": [{**PART, "shape": {**PART["shape"], **entries}}]}


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (with_shape(hidden=8), "belongs to another network"),
        ({"parts": [{}]}, "it has no weights"),
        *[({"notes": {name: [1]}}, f"{name} is [1]; expected an object") for name in ("features", "training")],
        ({"parts": [{**PART, "weights": "../encoder/part-1.safetensors"}]}, "does not list '../encoder/part-1"),
        ({"parts": [{**PART, "features_width": "7"}]}, "features_width is '7'"),
        ({"similarity": "order"}, "similarity is 'order'; expected 'dot', as its parts have it"),
        ({"renormalise": "no"}, "renormalise is 'no'; expected true or false"),
        ({"spaces": {"visual": [12]}, "default": "visual"}, "spaces.visual is [12]; expected the widths of maps"),
    ],
)
def test_wrong_entries_are_named(folder, entries, message):
    change(folder, **entries)
    assert message in refusal(folder)


def rewritten(folder, name, make):
    """Another value for one tensor of the first part, with sums that fit."""
    path = folder / "part-1.safetensors"
    tensors = safetensors.torch.load_file(path)
    tensors[name] = make(tensors[name].clone())
    safetensors.torch.save_file(tensors, path)
    renew(folder)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(folder, value):
    rewritten(folder, "captions.embedding.weight", lambda tensor: tensor.index_fill(0, torch.tensor([3]), value))
    assert "part-1.safetensors: holds values that are not finite (in captions.embedding.weight)" in refusal(folder)


def test_a_feature_may_be_left_out_by_an_infinite_deviation_but_not_by_none(folder):
    rewritten(folder, "images.deviation", lambda tensor: tensor.index_fill(0, torch.tensor([2]), float("inf")))
    SentenceEncoder.load(folder)
    rewritten(folder, "images.deviation", lambda tensor: tensor.index_fill(0, torch.tensor([2]), float("nan")))
    assert "(in images.deviation)" in refusal(folder)


def test_loaded_weights_do_not_change_with_the_file(folder):
    encoder = SentenceEncoder.load(folder)
    expected = encoder.encode(["a dog"])
    path = folder / "part-1.safetensors"
    path.write_bytes(path.read_bytes()[:500] + b"\x7f" * (path.stat().st_size - 500))
    assert np.array_equal(encoder.encode(["a dog"]), expected)


def test_vectors_that_are_not_scaled_stay_so(tmp_path):
    of_sentences(scaled=False).save(tmp_path)
    vectors, unit = SentenceEncoder.load(tmp_path).encode(TEXTS[:1]), of_sentences().encode(TEXTS[:1])
    lengths = np.linalg.norm([*vectors, *unit], axis=1)
    assert abs(lengths[0] - 1) > 0.01
    assert lengths[1] == pytest.approx(1)


def test_names_of_folders_and_spaces(tmp_path, monkeypatch):
    found, folder = with_spaces(), tmp_path / "e"
    found.save(folder)
    named = open_encoder(f"{folder}:visual", batch_size=4)
    np.testing.assert_allclose(named(TEXTS), found.encode(TEXTS, space="visual"), atol=1e-6)
    with pytest.raises(EncoderError, match=r"/e: has no space 'smell'; expected sentence or grounded or visual"):
        open_encoder(f"{folder}:smell")
    KINDS["sum"]().save(tmp_path / "plain")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EncoderError, match=r"plain: has one space only, without a name; not 'grounded'. Remove :grou"):
        open_encoder("plain:grounded")
    (tmp_path / "a_module").mkdir()
    (tmp_path / "a_module/__init__.py").write_text("def lengths(texts):\n    return [[len(text)] for text in texts]\n")
    assert open_encoder("a_module:lengths")(["dog"]) == [[3]]
    shutil.rmtree(folder)
    with pytest.raises(EncoderError, match="no such encoder"):
        open_encoder(f"{folder}:visual")


def test_a_folder_without_an_encoder_says_what_makes_one(tmp_path):
    assert "nothing: does not exist. `dvc repro` makes models/encoder; the name" in refusal(tmp_path / "nothing")
    (tmp_path / "file").write_text("")
    assert "file: is no folder of an encoder. `dvc repro` makes" in refusal(tmp_path / "file")
    assert "holds no encoder (encoder.json is missing)" in refusal(tmp_path)
