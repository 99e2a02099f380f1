"""Poolings against the plain formula for one caption at a time."""

import pytest
import torch

from sightword.model.pooling import Attention, Plain, pooling
from sightword.model.settings import ModelSettings

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
