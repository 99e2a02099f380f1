"""What every kind of encoder does: options of ``encode``, messages, the saved folder, and its name."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from encoder_kinds import KINDS, TEXTS
from small_encoder import made

from sightword.encoder.by_name import open_encoder
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError
from sightword.export.sentence_transformers import SightwordModule

FEATURES = np.random.default_rng(0).normal(size=(4, 7)).astype(np.float32)


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]()


def test_an_embedding_is_the_same_in_every_batch_and_alone(kind):
    whole = kind.encode(TEXTS)
    assert (whole.dtype, whole.shape) == (np.float32, (len(TEXTS), kind.width))
    assert kind.get_sentence_embedding_dimension() == kind.width
    for size in (1, 2, np.int64(5)):
        np.testing.assert_allclose(kind.encode(TEXTS, batch_size=size), whole, atol=1e-6)
    np.testing.assert_allclose([kind.encode(text) for text in TEXTS], whole, atol=1e-6)
    assert np.array_equal(whole[0], whole[4])
    many = kind.encode([TEXTS[0], *(f"a dog {number}" for number in range(40)), TEXTS[0]], batch_size=4)
    assert np.array_equal(many[0], many[-1])
    assert kind.encode([]).shape == (0, kind.width)


def test_options_change_what_they_say(kind):
    whole = kind.encode(TEXTS)
    lengths = np.linalg.norm(whole, axis=1, keepdims=True)
    unit = kind.encode(TEXTS, normalize_embeddings=True, show_progress_bar=None)
    np.testing.assert_allclose(unit * lengths, whole, atol=1e-6)
    tensor = kind.encode(TEXTS, convert_to_tensor=True, convert_to_numpy=False)
    assert tensor.device == kind.device
    assert np.array_equal(tensor.numpy(), whole)
    fast = kind.encode(TEXTS, precision="bf16")
    assert fast.dtype == np.float32
    np.testing.assert_allclose(fast, whole, atol=0.05)
    for texts in (tuple(TEXTS), np.array(TEXTS), iter(TEXTS)):
        assert np.array_equal(kind.encode(texts), whole)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0; expected at least 1"),
        ({"max_length": 0}, "max_length is 0; expected 1 to 200,000"),
        ({"max_length": 2}, "sentence 0 has .* tokens; expected at most 2. Cut it, or give"),
        ({"precision": "fp16"}, "precision is 'fp16'; expected fp32 or bf16"),
        ({"space": "smell"}, "space.*smell"),
    ],
)
def test_wrong_options_are_one_message(options, message):
    with pytest.raises(EncoderError, match=message):
        made().encode(TEXTS, **options)


def test_pictures_have_embeddings_or_a_message(kind):
    if not kind.features_width:
        with pytest.raises(EncoderError, match="the encoder has no embeddings of pictures"):
            kind.encode_images(FEATURES)
        return
    images, captions = kind.encode_images(FEATURES), kind.encode(TEXTS)
    np.testing.assert_allclose([kind.encode_images(row) for row in FEATURES.tolist()], images, atol=1e-6)
    np.testing.assert_allclose(kind.encode_images(FEATURES[::-1]), images[::-1], atol=1e-6)
    unit = kind.encode_images(torch.from_numpy(FEATURES), normalize_embeddings=True)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-6)
    assert kind.encode_images(np.empty((0, 7))).shape == (0, kind.width)
    found = kind.similarity(captions, images)
    np.testing.assert_allclose(kind.similarity_pairwise(captions[:4], images), np.diag(found), atol=1e-6)


def test_a_saved_encoder_is_loaded_with_equal_bits_and_saved_with_equal_bytes(kind, tmp_path):
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    kind.save(tmp_path / "one")
    loaded = SentenceEncoder.load(tmp_path / "one")
    assert torch.equal(torch.rand(4), expected)  # no random number was drawn
    loaded.save(tmp_path / "two")
    assert np.array_equal(loaded.encode(TEXTS), kind.encode(TEXTS))
    assert (repr(loaded), loaded.notes, loaded.similarity_name) == (repr(kind), kind.notes, kind.similarity_name)
    for space, vectors in kind.encode_spaces(TEXTS).items():
        assert np.array_equal(loaded.encode(TEXTS, space=space), vectors)
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "two").iterdir())
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    about = json.loads((tmp_path / "one/encoder.json").read_text())
    assert (about["similarity"], about["width"]) == (kind.similarity_name, kind.width)
    np.testing.assert_allclose(open_encoder(str(tmp_path / "one"), batch_size=4)(TEXTS), kind.encode(TEXTS), atol=1e-6)


def test_half_precision_is_near_and_takes_half_the_place(kind, tmp_path):
    kind.save(tmp_path / "whole")
    kind.save(tmp_path / "half", stored="float16")
    sizes = [sum(path.stat().st_size for path in (tmp_path / name).glob("*.safetensors")) for name in ("half", "whole")]
    assert sizes[0] < 0.8 * sizes[1]
    loaded = SentenceEncoder.load(tmp_path / "half")
    assert {weight.dtype for part in loaded.leaves for weight in part.network.state_dict().values()} == {torch.float32}
    np.testing.assert_allclose(loaded.encode(TEXTS), kind.encode(TEXTS), atol=3e-3)
    with torch.no_grad():
        kind.leaves[-1].captions.embedding.weight[2] = 1e6
    with pytest.raises(EncoderError, match=r"part-\d.safetensors: has weights beyond half precision \(in captions.emb"):
        kind.save(tmp_path / "beyond", stored="float16")
    assert not (tmp_path / "beyond").exists()


def test_int8_rounds_each_row_of_a_matrix_to_a_step_of_its_largest_weight(kind, tmp_path):
    kind.save(tmp_path / "small", stored="int8")
    loaded = SentenceEncoder.load(tmp_path / "small")
    for part, exact in zip(loaded.leaves, kind.leaves, strict=True):
        state, want = part.network.state_dict(), dict(exact.network.named_parameters())
        for name, weights in want.items():
            assert state[name].dtype == torch.float32
            if weights.ndim == 2:
                step = weights.detach().abs().amax(dim=1, keepdim=True) / 127
                assert ((state[name] - weights).abs() <= 0.501 * step).all()
    cosines = (loaded.encode(TEXTS[:3]) * kind.encode(TEXTS[:3])).sum(axis=1) / np.multiply(
        *(np.linalg.norm(one.encode(TEXTS[:3]), axis=1) for one in (loaded, kind))
    )
    assert (cosines > 0.995).all()
    with pytest.raises(EncoderError, match=r"stored is 'int4'; expected float32 or float16 or int8"):
        kind.save(tmp_path / "smaller", stored="int4")


def test_sentence_transformers_get_the_same_embeddings(kind):
    if len({part.vocabulary for part in kind.leaves}) > 1:
        with pytest.raises(EncoderError, match="reads with several vocabularies"):
            SightwordModule(kind)
        return
    module = SightwordModule(kind).eval()
    with torch.no_grad():
        found = module(module.preprocess(TEXTS))["sentence_embedding"]
    np.testing.assert_allclose(found, kind.encode(TEXTS), atol=1e-6)
    weights = {id(weight) for part in kind.leaves for weight in part.network.parameters()}
    assert weights <= {id(weight) for weight in module.parameters()}
