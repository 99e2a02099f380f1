"""Both encoders: unit vectors, padding, standardised features."""

import numpy as np
import pytest
import torch

from pipeline.model.encoders import Encoders, ImageEncoder, pad
from pipeline.model.settings import ModelSettings

SMALL = ModelSettings(embedding=5, hidden=6, attention=4)


def test_pad_fills_with_the_padding_id_and_gives_an_empty_row_one_step():
    ids, lengths = pad([np.array([4, 5, 6]), np.array([], np.int64), np.array([7])])
    assert ids.tolist() == [[4, 5, 6], [0, 0, 0], [7, 0, 0]]
    assert lengths.tolist() == [3, 1, 1]


def test_both_sides_give_unit_vectors_of_twice_the_hidden_size():
    torch.manual_seed(0)
    encoders = Encoders(9, 7, SMALL)
    captions = encoders.captions(*pad([np.array([2, 3, 4]), np.array([8])]))
    images = encoders.images(torch.randn(3, 7))
    assert captions.shape == (2, 12)
    assert images.shape == (3, 12)
    assert torch.allclose(captions.norm(dim=1), torch.ones(2))
    assert torch.allclose(images.norm(dim=1), torch.ones(3))


@pytest.mark.parametrize("masked", [True, False])
def test_groups_of_like_length_give_the_vectors_and_gradients_of_one_batch(masked):
    torch.manual_seed(0)
    encoder = Encoders(9, 7, SMALL.model_copy(update={"mask_padding": masked})).double().captions
    rows = [np.arange(length) % 7 + 2 for length in (3, 9, 1, 5, 5, 2, 8)]
    weight = torch.randn(7, 12)
    found = []
    for vectors in (encoder(*pad(rows)), encoder.embed(rows, group=2)):
        encoder.zero_grad()
        (vectors * weight).sum().backward()
        found.append((vectors, encoder.embedding.weight.grad.clone()))
    assert torch.allclose(found[0][0], found[1][0], atol=1e-6)
    assert torch.allclose(found[0][1], found[1][1], atol=1e-6)


def test_standardising_gives_mean_0_and_deviation_1_and_silences_constant_features():
    features = np.random.default_rng(0).normal(50, [1e-3, 1.0, 30.0, 0.0], (200, 4)).astype(np.float32)
    encoder = ImageEncoder(4, SMALL)
    encoder.standardise_by(features)
    standard = ((torch.from_numpy(features) - encoder.mean) / encoder.deviation).numpy()
    assert np.abs(standard.mean(axis=0)).max() < 1e-2
    assert standard.std(axis=0)[:3] == pytest.approx(1, abs=1e-2)
    assert (standard[:, 3] == 0).all()
    assert torch.isfinite(encoder(torch.from_numpy(features))).all()
