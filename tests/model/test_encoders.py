"""Both encoders: unit vectors, padding, standardised features."""

import numpy as np
import pytest
import torch

from sightword.model.embedding import embed_images
from sightword.model.encoders import Encoders, ImageEncoder, pad
from sightword.model.packing import Packing
from sightword.model.pooling import Attention, Plain, pooling
from sightword.model.settings import ModelSettings
from sightword.model.similarity import unit

SMALL = ModelSettings(embedding=5, hidden=6, attention=4)


@pytest.mark.parametrize("pooling", ["attention", "max", "mean", "last"])
def test_one_direction_gives_vectors_of_the_hidden_size_and_reads_no_padding(pooling):
    settings = SMALL.model_copy(update={"bidirectional": False, "pooling": pooling})
    torch.manual_seed(0)
    encoders = Encoders(9, 7, settings.shape).eval()
    assert encoders.captions.width == settings.shape.width == 6
    rows = [np.array([2, 3, 4, 5]), np.array([8])]
    together = encoders.captions(*pad(rows))
    assert together.shape == (2, 6)
    assert encoders.images(torch.randn(3, 7)).shape == (3, 6)
    for row, found in zip(rows, together, strict=True):
        assert torch.allclose(encoders.captions(*pad([row]))[0], found, atol=1e-6)


@pytest.mark.parametrize("similarity", ["order", "reversed_order"])
def test_for_an_order_both_sides_have_no_signs_and_length_one(similarity):
    torch.manual_seed(0)
    plain = Encoders(9, 7, SMALL.shape).eval()
    encoders = Encoders(9, 7, SMALL.model_copy(update={"similarity": similarity}).shape).eval()
    encoders.load_state_dict(plain.state_dict())
    ids, features = pad([np.array([2, 3, 4]), np.array([8])]), torch.randn(3, 7)
    assert torch.equal(encoders.captions(*ids), plain.captions(*ids).abs())
    assert torch.equal(encoders.images(features), plain.images(features).abs())
    assert (plain.images(features) < 0).any()
    assert torch.allclose(encoders.images(features).norm(dim=1), torch.ones(3))


def test_embeddings_of_pictures_have_the_same_bits_with_any_number_of_threads():
    """One product of many pictures, which MKL would share out among the threads: on some processors to other bits."""
    torch.manual_seed(0)
    encoders = Encoders(9, 1024, SMALL.model_copy(update={"hidden": 96}).shape)
    features = np.random.default_rng(0).normal(size=(300, 1024)).astype(np.float32)
    counts: list[int] = []
    encoders.images.register_forward_pre_hook(lambda *_: counts.append(torch.get_num_threads()))
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append([embed_images(encoders.images, features), embed_images(encoders.images, features, batch=80)])
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert counts == [1] * 15
    for several in found[1:]:
        assert all(np.array_equal(one, other) for one, other in zip(several, found[0], strict=True))


@pytest.mark.parametrize("spare", [0, 3])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("pooling", ["attention", "max", "mean", "last"])
def test_packed_rows_give_the_vectors_and_gradients_of_padded_ones(pooling, masked, spare):
    """Elsewhere than on a processor the pooling reads padded rows. Both count the same padding, also where the batch is
    wider than its longest row."""
    torch.manual_seed(0)
    encoder = (
        Encoders(9, 7, SMALL.model_copy(update={"mask_padding": masked, "pooling": pooling}).shape).double().captions
    )
    ids, lengths = pad([np.arange(length) % 7 + 2 for length in (3, 9, 1, 5, 5, 2, 8)])
    ids = torch.nn.functional.pad(ids, (0, spare))
    packing = Packing.of(lengths, ids.shape[1])
    states = encoder.recurrent(encoder.embedding(packing.pack(ids)), packing)
    padded = encoder.pooling(packing.unpack(states), lengths)
    weight = torch.randn(7, 12)
    found = []
    for vectors in (encoder(ids, lengths), unit(padded, "cosine")):
        encoder.zero_grad()
        (vectors * weight).sum().backward()
        found.append((vectors, *(value.grad.clone() for value in encoder.parameters() if value.grad is not None)))
    for packed, expected in zip(*found, strict=True):
        assert torch.allclose(packed, expected, atol=1e-6)


def test_standardising_gives_mean_0_and_deviation_1_and_silences_constant_features():
    features = np.random.default_rng(0).normal(50, [1e-3, 1.0, 30.0, 0.0], (200, 4)).astype(np.float32)
    encoder = ImageEncoder(4, SMALL.shape)
    encoder.standardise_by(features)
    standard = ((torch.from_numpy(features) - encoder.mean) / encoder.deviation).numpy()
    assert np.abs(standard.mean(axis=0)).max() < 1e-2
    assert standard.std(axis=0)[:3] == pytest.approx(1, abs=1e-2)
    assert (standard[:, 3] == 0).all()
    assert torch.isfinite(encoder(torch.from_numpy(features))).all()


# Poolings against the plain formula for one caption at a time


LENGTHS = torch.tensor([5, 2, 1])


@pytest.fixture
def states():
    torch.manual_seed(1)
    return torch.randn(3, 5, 8)


def test_attention_is_a_softmax_over_time_for_each_feature(states):
    layer = Attention(8, 4, mask_padding=True)
    found = layer(states, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        one = states[row, :length]
        logits = layer.out(torch.tanh(layer.hidden(one)))
        for feature in range(8):
            weights = torch.exp(logits[:, feature]) / torch.exp(logits[:, feature]).sum()
            assert found[row, feature].item() == pytest.approx((weights * one[:, feature]).sum().item(), abs=1e-6)


def test_without_the_mask_padding_takes_weight_as_in_the_released_code(states):
    layer = Attention(8, 4, mask_padding=False)
    alone = layer(states[1:2, :2], LENGTHS[1:2])
    beside_a_longer_one = layer(states, LENGTHS)[1:2]
    assert not torch.allclose(alone, beside_a_longer_one, atol=1e-3)
    zeroed = states.clone()
    zeroed[1, 2:] = 0
    logits = layer.out(torch.tanh(layer.hidden(zeroed[1])))
    assert torch.allclose(beside_a_longer_one[0], (torch.softmax(logits, 0) * zeroed[1]).sum(0), atol=1e-6)


@pytest.mark.parametrize("name", ["attention", "max", "mean", "last"])
def test_no_pooling_sees_the_padding(states, name):
    layer = pooling(ModelSettings(hidden=4, pooling=name, attention=3).shape)
    other = states.clone()
    other[1, 2:], other[2, 1:] = 77.0, -77.0
    assert torch.equal(layer(states, LENGTHS), layer(other, LENGTHS))


def test_plain_poolings(states):
    row, length = 1, 2
    assert torch.equal(Plain("max")(states, LENGTHS)[row], states[row, :length].amax(0))
    assert torch.allclose(Plain("mean")(states, LENGTHS)[row], states[row, :length].mean(0))
    expected = torch.cat((states[row, length - 1, :4], states[row, 0, 4:]))
    assert torch.equal(Plain("last")(states, LENGTHS)[row], expected)
    assert torch.equal(Plain("last", bidirectional=False)(states, LENGTHS)[row], states[row, length - 1])
