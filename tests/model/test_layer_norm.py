"""The GRU with layer normalisation against a plain loop in NumPy, and finite differences, in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sightword.model.packing import Packing
from sightword.model.recurrent import LayerNormGru, Recurrent

WIDTH, HIDDEN = 3, 4
LENGTHS = [2, 5, 1, 5, 3]


@pytest.fixture
def case():
    """A layer, inputs (B, T, width) and initial states (B, H)."""
    torch.manual_seed(2)
    layer = LayerNormGru(WIDTH, HIDDEN).double()
    inputs = torch.randn(len(LENGTHS), max(LENGTHS), WIDTH, dtype=torch.float64)
    return layer, inputs, torch.randn(len(LENGTHS), HIDDEN, dtype=torch.float64)


def normal(values):
    return (values - values.mean()) / np.sqrt(values.var() + 1e-12)


def loop(layer, inputs, state):
    """The states of one row (T, H): a norm for both gates, one for the candidate, of inputs and of states."""
    own, recurrent = (weights.detach().numpy() for weights in layer.parameters())
    found = []
    for line in inputs.detach().numpy():
        by_input, by_state = own @ line, recurrent @ state
        both = normal(by_input[: 2 * HIDDEN]) + normal(by_state[: 2 * HIDDEN])
        reset, update = np.split(1 / (1 + np.exp(-both)), 2)
        new = np.tanh(normal(by_input[2 * HIDDEN :]) + reset * normal(by_state[2 * HIDDEN :]))
        state = (1 - update) * state + update * new
        found.append(state)
    return np.array(found)


@pytest.mark.parametrize("started", [True, False])
def test_states_are_those_of_a_loop_row_by_row(case, started):
    layer, inputs, start = case
    packing = Packing.of(torch.tensor(LENGTHS))
    first = start[packing.order] if started else None
    found = packing.unpack(layer.packed(packing.pack(inputs), packing.sizes, start=first)).detach().numpy()
    padded, last = layer(inputs, start[None] if started else None)
    for row, length in enumerate(LENGTHS):
        before = start[row].numpy() if started else np.zeros(HIDDEN)
        assert np.abs(found[row, :length] - loop(layer, inputs[row, :length], before)).max() < 1e-12
        whole = loop(layer, inputs[row], before)  # the padded way reads the padding too, after the row
        assert np.abs(padded[row].detach().numpy() - whole).max() < 1e-12
        assert np.abs(last[0, row].detach().numpy() - whole[-1]).max() < 1e-12


def test_released_weights_give_the_released_states(case):
    """The released cell's matrices multiply from the right; its gates are z, then r, with one norm."""
    layer, inputs, start = case
    random = np.random.default_rng(0)
    w_x, w, w_h, u = (
        random.uniform(-1, 1, (rows, columns)) for rows in (WIDTH, HIDDEN) for columns in (2 * HIDDEN, HIDDEN)
    )
    with torch.no_grad():
        for weights, gates, candidate in zip(layer.parameters(), (w_x, w_h), (w, u), strict=True):
            z, r = np.split(gates, 2, axis=1)
            weights.copy_(torch.from_numpy(np.concatenate([r, z, candidate], axis=1).T))
    states = layer(inputs, start[None])[0].detach().numpy()
    for row, state in enumerate(start.numpy()):
        for step, line in enumerate(inputs[row].numpy()):
            z, r = np.split(1 / (1 + np.exp(-(normal(state @ w_h) + normal(line @ w_x)))), 2)
            state = (1 - z) * state + z * np.tanh(r * normal(state @ u) + normal(line @ w))
            assert np.abs(states[row, step] - state).max() < 1e-12


@pytest.mark.parametrize("backwards", [True, False])
def test_gradients_are_those_of_finite_differences_in_either_direction(case, backwards):
    layer, _, start = case
    packing = Packing.of(torch.tensor(LENGTHS))
    words = torch.randn(6, WIDTH, dtype=torch.float64)  # each is the word of several lines
    places = torch.arange(len(packing.lines)) % 6

    def states(words, start, *_):  # the weights are changed where they are
        return layer.packed(words, packing.sizes, places=places, start=start, backwards=backwards)

    leaves = (words.requires_grad_(), start.requires_grad_(), *layer.parameters())
    assert torch.autograd.gradcheck(states, leaves)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_each_direction_of_packed_rows_is_the_layer_on_each_row_alone(case, bidirectional):
    _, inputs, _ = case
    layer = Recurrent(WIDTH, HIDDEN, "layer_norm_gru", bidirectional=bidirectional).double()
    packing = Packing.of(torch.tensor(LENGTHS))
    states = packing.unpack(layer(packing.pack(inputs), packing))
    outer, alone = torch.randn_like(states), []
    for row, length in zip(inputs, LENGTHS, strict=True):
        line = row[None, :length]
        sides = [layer.onward(line)[0], *([layer.backward_(line.flip(1))[0].flip(1)] if bidirectional else [])]
        alone.append(torch.cat(sides, dim=2)[0])
    wanted = torch.nn.utils.rnn.pad_sequence(alone, batch_first=True)
    assert torch.allclose(states, wanted, rtol=1e-11, atol=1e-13)
    weights = list(layer.parameters())
    pairs = zip(*(torch.autograd.grad((one * outer).sum(), weights) for one in (states, wanted)), strict=True)
    assert all(torch.allclose(one, other, rtol=1e-11, atol=1e-13) for one, other in pairs)
