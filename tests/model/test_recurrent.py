"""The fast bidirectional layer against PyTorch's own over packed sequences."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from pipeline.model.pooling import valid
from pipeline.model.recurrent import Bidirectional, reversal

LENGTHS = [7, 1, 4, 7, 2]


def packed_twin(layer: Bidirectional, cell: str, width: int, hidden: int) -> nn.Module:
    twin = {"gru": nn.GRU, "lstm": nn.LSTM}[cell](width, hidden, batch_first=True, bidirectional=True)
    state = dict(layer.onward.state_dict())
    state |= {f"{name}_reverse": value for name, value in layer.backward_.state_dict().items()}
    twin.load_state_dict(state)
    return twin


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_states_and_gradients_equal_those_of_packed_sequences(cell):
    torch.manual_seed(0)
    layer = Bidirectional(5, 6, cell).double()
    twin = packed_twin(layer, cell, 5, 6).double()
    lengths = torch.tensor(LENGTHS)
    ours = torch.randn(len(LENGTHS), 7, 5, dtype=torch.float64, requires_grad=True)
    theirs = ours.detach().clone().requires_grad_()
    weight = torch.randn(len(LENGTHS), 7, 12, dtype=torch.float64) * valid(lengths, 7)[:, :, None]

    states = layer(ours, lengths)
    packed, _ = twin(pack_padded_sequence(theirs, lengths, batch_first=True, enforce_sorted=False))
    expected, _ = pad_packed_sequence(packed, batch_first=True)

    (states * weight).sum().backward()
    (expected * weight).sum().backward()
    inside = valid(lengths, 7)
    assert torch.allclose(states[inside], expected[inside], atol=1e-12)
    assert torch.allclose(ours.grad, theirs.grad, atol=1e-12)
    assert torch.allclose(layer.onward.weight_hh_l0.grad, twin.weight_hh_l0.grad, atol=1e-12)
    assert torch.allclose(layer.backward_.weight_ih_l0.grad, twin.weight_ih_l0_reverse.grad, atol=1e-12)


def test_what_stands_on_the_padding_does_not_matter():
    torch.manual_seed(0)
    layer = Bidirectional(3, 4, "gru")
    inputs, lengths = torch.randn(2, 6, 3), torch.tensor([6, 2])
    other = inputs.clone()
    other[1, 2:] = 1e3
    inside = valid(lengths, 6)
    assert torch.equal(layer(inputs, lengths)[inside], layer(other, lengths)[inside])


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
@settings(max_examples=30, deadline=None)
def test_reversal_reverses_each_row_by_its_own_length_and_is_its_own_inverse(lengths):
    steps = max(lengths)
    order = reversal(torch.tensor(lengths), steps)
    for row, length in zip(order.tolist(), lengths, strict=True):
        assert row == [*range(length - 1, -1, -1), *range(length, steps)]
    assert torch.equal(order.gather(1, order), torch.arange(steps).expand(len(lengths), steps))
