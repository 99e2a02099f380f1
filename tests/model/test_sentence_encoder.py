"""The encoder as a library."""

import json

import numpy as np
import pytest
import torch

from pipeline.captions.vocabulary import Vocabulary
from pipeline.errors import EncoderError
from pipeline.model.encoders import Encoders
from pipeline.model.sentence_encoder import SentenceEncoder
from pipeline.model.settings import ModelSettings

MODEL = ModelSettings(embedding=5, hidden=6, attention=4)
TEXTS = ["a dog runs", "", "two big dogs run in the snow .", "a", "ünknöwn çharacters", "a dog runs"]


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    vocabulary = Vocabulary.build(["a dog runs in the snow .", "two big dogs"])
    members = [Encoders(len(vocabulary), 7, MODEL).eval() for _ in range(2)]
    return SentenceEncoder(members, vocabulary, MODEL, notes={"epochs": [8, 4]})


def test_the_same_embedding_whatever_the_batch(encoder):
    whole = encoder.encode(TEXTS)
    assert whole.shape == (6, 12)
    assert whole.dtype == np.float32
    for size in (1, 2, 5):
        assert np.abs(encoder.encode(TEXTS, batch_size=size) - whole).max() < 1e-6
    assert np.array_equal(whole[0], whole[5])


def test_equal_sentences_have_equal_bits_wherever_they_stand(encoder):
    filler = [f"a dog {number}" for number in range(7)]
    found = encoder.encode(["two big dogs", *filler, "two big dogs"], batch_size=4)
    assert np.array_equal(found[0], found[-1])


def test_an_ensemble_is_the_sum_of_its_members_and_renormalised_when_asked(encoder):
    alone = [SentenceEncoder([member], encoder.vocabulary, MODEL).encode(TEXTS) for member in encoder.members]
    assert np.allclose(encoder.encode(TEXTS), alone[0] + alone[1])
    unit = SentenceEncoder(encoder.members, encoder.vocabulary, MODEL, renormalise=True).encode(TEXTS)
    assert np.allclose(np.linalg.norm(unit, axis=1), 1)
    assert np.allclose(unit * np.linalg.norm(alone[0] + alone[1], axis=1, keepdims=True), alone[0] + alone[1])


def test_saved_and_loaded_it_encodes_the_same_and_is_the_same_bytes(encoder, tmp_path):
    encoder.save(tmp_path / "one")
    loaded = SentenceEncoder.load(tmp_path / "one")
    loaded.save(tmp_path / "two")
    assert np.array_equal(loaded.encode(TEXTS), encoder.encode(TEXTS))
    features = np.random.default_rng(0).normal(size=(3, 7))
    assert np.array_equal(loaded.encode_images(features), encoder.encode_images(features))
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == ["encoder.json", "member-1.safetensors", "member-2.safetensors", "vocabulary.json"]
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_word_encoder_for_an_order_is_saved_and_loaded_with_its_unit_and_similarity(tmp_path):
    torch.manual_seed(0)
    model = MODEL.model_copy(update={"similarity": "order", "bidirectional": False, "pooling": "last"})
    vocabulary = Vocabulary.build(["a dog runs in the snow .", "two big dogs"], unit="word")
    encoder = SentenceEncoder([Encoders(len(vocabulary), 7, model).eval()], vocabulary, model)
    encoder.save(tmp_path)
    loaded = SentenceEncoder.load(tmp_path)
    assert (loaded.similarity_name, loaded.vocabulary.unit, loaded.width) == ("order", "word", 6)
    found = loaded.encode(TEXTS)
    assert found.shape == (6, 6)
    assert (found >= 0).all()
    assert np.array_equal(found, encoder.encode(TEXTS))
    spaced = loaded.encode([*TEXTS[1:], "a  dog\truns"], batch_size=2)
    assert np.array_equal(spaced[-1], spaced[-2])  # white space is not read, and equal tokens have equal bits
    about = json.loads((tmp_path / "encoder.json").read_text())
    assert about["similarity"] == "order"
    (tmp_path / "encoder.json").write_text(json.dumps({**about, "similarity": "cosine"}))
    with pytest.raises(EncoderError, match="similarity 'cosine', the model has 'order'"):
        SentenceEncoder.load(tmp_path)


def test_an_encoder_from_before_there_was_a_choice_is_loaded_as_what_it_was(encoder, tmp_path):
    encoder.save(tmp_path)
    about = json.loads((tmp_path / "encoder.json").read_text())
    for key in ("similarity", "bidirectional"):
        del about["model"][key]
    (tmp_path / "encoder.json").write_text(json.dumps(about))
    loaded = SentenceEncoder.load(tmp_path)
    assert loaded.similarity_name == "cosine"
    assert np.array_equal(loaded.encode(TEXTS), encoder.encode(TEXTS))


def test_one_text_gives_one_vector(encoder):
    assert np.array_equal(encoder.encode("a dog"), encoder.encode(["a dog"])[0])
    assert encoder.encode("", normalize_embeddings=True).shape == (12,)


def test_vectors_are_of_length_one_when_asked(encoder):
    plain = encoder.encode(TEXTS)
    unit = encoder.encode(TEXTS, normalize_embeddings=True, show_progress_bar=None)
    assert unit.dtype == np.float32
    assert np.allclose(unit * np.linalg.norm(plain, axis=1, keepdims=True), plain)
    assert np.allclose(np.linalg.norm(unit, axis=1), 1)


def test_no_sentences_give_no_rows(encoder):
    assert encoder.encode([]).shape == (0, 12)


def test_wrong_input_is_named(encoder, tmp_path):
    with pytest.raises(EncoderError, match="batch_size is 0; expected at least 1"):
        encoder.encode(["a dog"], batch_size=0)
    with pytest.raises(EncoderError, match="sentence 1 is no text but float"):
        encoder.encode(["a dog", 3.0])
    with pytest.raises(EncoderError, match=r"shape \(3, 8\); expected \(pictures, 7\)"):
        encoder.encode_images(np.zeros((3, 8)))
    with pytest.raises(EncoderError, match="holds no encoder"):
        SentenceEncoder.load(tmp_path)


def test_damaged_and_newer_encoders_are_refused(encoder, tmp_path):
    encoder.save(tmp_path)
    about = json.loads((tmp_path / "encoder.json").read_text())
    (tmp_path / "encoder.json").write_text(json.dumps({**about, "schema": 99}))
    with pytest.raises(EncoderError, match="has the format 99"):
        SentenceEncoder.load(tmp_path)
    (tmp_path / "encoder.json").write_text(json.dumps({**about, "model": {**about["model"], "hidden": 8}}))
    with pytest.raises(EncoderError, match="belongs to another network"):
        SentenceEncoder.load(tmp_path)
    (tmp_path / "encoder.json").write_text(json.dumps(about))
    weights = tmp_path / "member-2.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(EncoderError, match="not a whole safetensors file"):
        SentenceEncoder.load(tmp_path)
