"""Encoders of other training runs beside an encoder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sums import renew

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.export import write_export
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.encoder.sentence_transformers import SightwordModule
from sightword.errors import EncoderError
from sightword.model.encoders import Encoders
from sightword.model.settings import ModelSettings
from sightword.report.attention import attend

TEXTS = ["a dog runs", "", "two big dogs run in the snow .", "\N{SNOWMAN}", "a dog runs"]
VOCABULARY = Vocabulary.build(TEXTS[:3])
GRU = {"hidden": 6, "attention": 4}
BAG = {"cell": "ngrams", "embedding": 5, "longest_ngram": 3, "ngram_buckets": 64}


def one(shape, *, members=1, seed=0, beside=(), vocabulary=VOCABULARY, features=7, **options):
    torch.manual_seed(seed)
    model = ModelSettings(**shape)
    networks = [Encoders(len(vocabulary), features, model) for _ in range(members)]
    return SentenceEncoder(networks, vocabulary, model, beside=beside, **options)


@pytest.fixture
def three():
    """A bag of n-grams, beside it an ensemble of two GRUs and an LSTM."""
    others = [one(GRU, members=2, seed=1), one({**GRU, "cell": "lstm"}, seed=2)]
    return one(BAG, beside=others)


def cosines(captions, images):
    captions, images = (each.astype(np.float64) for each in (captions, images))
    lengths = np.linalg.norm(captions, axis=1)[:, None] * np.linalg.norm(images, axis=1)
    return captions @ images.T / np.where(lengths == 0, 1, lengths)


def test_the_cosine_is_the_mean_of_all_cosines(three):
    features = np.random.default_rng(0).normal(size=(4, 7)).astype(np.float32)
    captions, images = three.encode(TEXTS), three.encode_images(features)
    alone = [one(BAG), *three.beside]
    assert (three.width, three.similarity_name) == (sum(each.width for each in alone), "cosine")
    assert captions.shape == (5, three.width)
    assert captions.dtype == images.dtype == np.float32
    wanted = np.mean([cosines(each.encode(TEXTS), each.encode_images(features)) for each in alone], axis=0)
    np.testing.assert_allclose(three.similarity(captions, images), wanted, atol=2e-7)
    np.testing.assert_allclose(np.linalg.norm(images, axis=1), 1, atol=1e-6)
    sentences = np.mean([cosines(each.encode(TEXTS), each.encode(TEXTS)) for each in alone], axis=0)
    np.testing.assert_allclose(cosines(captions, captions), sentences, atol=2e-7)


def test_one_text_and_one_picture_have_the_same_vectors_as_many(three):
    np.testing.assert_allclose(three.encode(TEXTS[0]), three.encode(TEXTS)[0], atol=1e-6)
    features = np.ones((2, 7))
    np.testing.assert_allclose(three.encode_images(features[0]), three.encode_images(features)[0], atol=1e-6)
    assert "1 x n-grams + 2 x GRU + 1 x LSTM over characters" in repr(three)


@pytest.mark.parametrize("half", [False, True])
def test_a_saved_one_is_loaded_whole(three, tmp_path, half):
    three.save(tmp_path / "encoder", half=half)
    loaded = SentenceEncoder.load(tmp_path / "encoder")
    assert loaded.width == three.width
    assert loaded.similarity_name == "cosine"
    np.testing.assert_allclose(loaded.encode(TEXTS), three.encode(TEXTS), atol=2e-3 if half else 0)
    loaded.save(tmp_path / "again", half=half)
    files = sorted(
        path.relative_to(tmp_path / "encoder") for path in (tmp_path / "encoder").rglob("*") if path.is_file()
    )
    assert len(files) > 12
    assert Path("beside-2/SHA256SUMS") in files
    for path in files:
        assert (tmp_path / "again" / path).read_bytes() == (tmp_path / "encoder" / path).read_bytes()


def test_a_changed_file_of_one_beside_is_told(three, tmp_path):
    three.save(tmp_path / "encoder")
    with (tmp_path / "encoder/beside-2/member-1.safetensors").open("ab") as file:
        file.write(b"x")
    with pytest.raises(EncoderError, match=r"beside-2/member-1.safetensors: is not the file that was saved"):
        SentenceEncoder.load(tmp_path / "encoder")
    renew(tmp_path / "encoder/beside-2")
    with pytest.raises(EncoderError, match=r"beside-2/SHA256SUMS: is not the file that was saved"):
        SentenceEncoder.load(tmp_path / "encoder")


@pytest.mark.parametrize("names", ["beside-1", ["../other"], 3])
def test_names_beside_it_are_checked(three, tmp_path, names):
    three.save(tmp_path / "encoder")
    about = json.loads((tmp_path / "encoder/encoder.json").read_text())
    (tmp_path / "encoder/encoder.json").write_text(json.dumps({**about, "beside": names}))
    renew(tmp_path / "encoder")
    with pytest.raises(EncoderError, match=r"is damaged \(beside is .*; expected beside-1, beside-2"):
        SentenceEncoder.load(tmp_path / "encoder")


def test_sentence_transformers_gets_the_same_embeddings(three):
    module = SightwordModule(three).eval()
    with torch.no_grad():
        found = module(module.preprocess(TEXTS))["sentence_embedding"]
    np.testing.assert_allclose(found, three.encode(TEXTS), atol=1e-6)
    weights = [weight for each in (three, *three.beside) for net in each.members for weight in net.parameters()]
    assert len(list(module.parameters())) == len(weights)


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (lambda: one(GRU, vocabulary=Vocabulary.build(["xyz"])), "has another vocabulary"),
        (lambda: one(GRU, features=8), "takes 8 features of a picture; expected 7"),
        (lambda: one({**GRU, "similarity": "order"}), "was trained with the similarity order; expected cosine"),
        (lambda: one(GRU, beside=[one(BAG)]), "has encoders of other training runs beside it. Name each"),
        (lambda: "models/encoder", "is str; expected a SentenceEncoder"),
    ],
)
def test_one_that_does_not_fit_is_refused(other, told):
    with pytest.raises(EncoderError, match=f"^encoder 2 of beside: {told}"):
        one(BAG, beside=[one(GRU), other()])


def test_one_of_the_order_penalty_takes_none_beside():
    with pytest.raises(EncoderError, match="cannot stand beside an encoder that was trained with the similarity order"):
        one({**GRU, "similarity": "order"}, beside=[one(GRU)])
    with pytest.raises(EncoderError, match="encoder 1 of beside: is int"):
        one(GRU, beside=3)


def test_those_beside_may_come_from_an_iterator():
    assert one(GRU, beside=(one(GRU, seed=seed) for seed in (1, 2))).width == 3 * one(GRU).width


def test_a_loaded_ensemble_takes_one_beside_and_lets_go_of_it(tmp_path):
    """Its own similarity is the dot product, and the similarity with one beside is the cosine."""
    one(GRU, members=2).save(tmp_path / "encoder")
    loaded = SentenceEncoder.load(tmp_path / "encoder")
    assert loaded.similarity_name == "dot"
    with_one = replace(loaded, beside=[one(BAG)])
    assert with_one.similarity_name == "cosine"
    with_one.save(tmp_path / "both")
    again = SentenceEncoder.load(tmp_path / "both")
    assert again.similarity_name == "cosine"
    assert replace(again, beside=[]).similarity_name == "dot"


def test_nothing_is_written_where_a_weight_is_beyond_half_precision(three, tmp_path):
    with torch.no_grad():
        three.beside[1].members[0].images.linear.weight[0, 0] = 1e6
    with pytest.raises(EncoderError, match=r"beside-2/member-1.safetensors: has weights beyond half precision"):
        three.save(tmp_path / "encoder", half=True)
    assert not (tmp_path / "encoder").exists()


def test_what_stood_beside_before_is_gone(three, tmp_path):
    three.save(tmp_path / "encoder")
    foreign = {tmp_path / "encoder" / name for name in ("beside-7/notes.txt", "beside-the-sea/encoder.json")}
    for path in foreign:
        path.parent.mkdir()
        path.write_text("a person's own")
    replace(three, beside=three.beside[:1]).save(tmp_path / "encoder")
    left = {path.name for path in (tmp_path / "encoder").glob("beside-*")}
    assert left == {"beside-1", "beside-7", "beside-the-sea"}
    assert all(path.is_file() for path in foreign)
    assert len(SentenceEncoder.load(tmp_path / "encoder").beside) == 1


def test_attention_is_that_of_all_encoders(three):
    sharp = one(GRU, seed=3)
    with torch.no_grad():
        for weights in sharp.members[0].captions.pooling.parameters():
            weights.mul_(30)
    gru = replace(three.beside[0], beside=[sharp])
    text = "two big dogs run in the snow ."
    parts = [attend(each, [text])[0] for each in (replace(gru, beside=[]), *gru.beside, gru)]
    assert parts[2] not in parts[:2]
    assert attend(three, [text]) is None


def test_its_graph_is_refused(tmp_path):
    with pytest.raises(EncoderError, match=r"has others beside it \(select.beside\)"):
        write_export(tmp_path / "export", one(GRU, beside=[one(GRU, seed=1)]))
    assert not (tmp_path / "export").exists()
