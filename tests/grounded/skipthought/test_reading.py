"""The GRU with initial states, against torch's layer, a NumPy loop in float64, and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from sightword.grounded.skipthought.network import gru_states, last_states
from sightword.model.cells import GruPass, Weights
from sightword.model.packing import Packing
from sightword.model.recurrent import states_by_torch

WIDTH, HIDDEN, WORDS = 3, 4, 6
LENGTHS = [2, 5, 1, 5, 3]


@pytest.fixture
def case():
    """A layer in float64, word vectors, padded places (B, T), their packing, and initial states."""
    torch.manual_seed(1)
    layer = nn.GRU(WIDTH, HIDDEN).double()
    words = torch.randn(WORDS, WIDTH, dtype=torch.float64, requires_grad=True)
    ids = torch.randint(WORDS, (len(LENGTHS), max(LENGTHS)))
    start = torch.randn(len(LENGTHS), HIDDEN, dtype=torch.float64, requires_grad=True)
    return layer, words, ids, Packing.of(torch.tensor(LENGTHS)), start


def numpy_gru(layer, inputs, state):
    """The states of one sentence (T, H) by a loop: Cho et al. 2014, with torch's place of the reset gate."""
    own, recurrent, own_bias, recurrent_bias = (value.detach().numpy() for value in layer.parameters())

    def sigmoid(values):
        return 1 / (1 + np.exp(-values))

    found = []
    for line in inputs:
        by_input, by_state = own @ line + own_bias, recurrent @ state + recurrent_bias
        reset, update = np.split(sigmoid(by_input + by_state)[: 2 * HIDDEN], 2)
        new = np.tanh(by_input[2 * HIDDEN :] + reset * by_state[2 * HIDDEN :])
        state = (1 - update) * new + update * state
        found.append(state)
    return np.array(found)


@pytest.mark.parametrize("started", [True, False])
def test_states_are_those_of_a_loop_sentence_by_sentence(case, started):
    layer, words, ids, packing, start = case
    states = gru_states(layer, words, packing.pack(ids), packing, start if started else None, torch.float64)
    found = packing.unpack(states).detach().numpy()
    for row, length in enumerate(LENGTHS):
        inputs = words.detach().numpy()[ids[row, :length].numpy()]
        first = start[row].detach().numpy() if started else np.zeros(HIDDEN)
        assert np.abs(found[row, :length] - numpy_gru(layer, inputs, first)).max() < 1e-13
    last = last_states(states, packing).detach().numpy()
    assert all(np.array_equal(last[row], found[row, length - 1]) for row, length in enumerate(LENGTHS))


def test_states_and_gradients_are_those_of_torchs_layer_alone_for_each_sentence(case):
    layer, words, ids, packing, start = case
    leaves = [words, start, *layer.parameters()]
    weights = torch.randn(len(LENGTHS), max(LENGTHS), HIDDEN, dtype=torch.float64)
    states = packing.unpack(gru_states(layer, words, packing.pack(ids), packing, start, torch.float64))
    found = torch.autograd.grad((states * weights).sum(), leaves)
    total = torch.zeros((), dtype=torch.float64)
    for row, length in enumerate(LENGTHS):
        own = layer(words[ids[row, :length]][:, None], start[None, row : row + 1])[0][:, 0]
        total = total + (own * weights[row, :length]).sum()
    for one, other in zip(found, torch.autograd.grad(total, leaves), strict=True):
        assert torch.allclose(one, other, rtol=1e-12, atol=1e-13)


def test_the_gradients_of_words_and_initial_states_are_those_of_finite_differences(case):
    layer, words, ids, packing, start = case
    layer.requires_grad_(requires_grad=False)

    def states(words, start):
        return gru_states(layer, words, packing.pack(ids), packing, start, torch.float64)

    assert torch.autograd.gradcheck(states, (words, start))


@pytest.mark.parametrize("backwards", [False, True])
def test_a_pass_in_either_direction_starts_each_row_at_its_own_first_block(case, backwards):
    layer, words, ids, packing, start = case
    blocks = packing.blocks[::-1] if backwards else packing.blocks
    first = start.detach()[packing.order].clone()
    weights = Weights(*(value.detach() for value in layer.parameters()))
    own = GruPass(weights, blocks, first)
    states = own.forward(words.detach()[packing.pack(ids)], keep=True)
    outer = torch.randn_like(states)
    own.backward(outer)
    for place, row in enumerate(packing.order.tolist()):
        lines = [block.start + place for block in blocks if place < block.stop - block.start]
        inputs = words.detach()[packing.pack(ids)[lines]][:, None]
        leaf = start.detach()[None, row : row + 1].clone().requires_grad_()
        wanted = layer(inputs, leaf)[0][:, 0]
        assert torch.allclose(states[lines], wanted, atol=1e-13)
        (gradient,) = torch.autograd.grad((wanted * outer[lines]).sum(), leaf)
        assert torch.allclose(own.start_gradient[place], gradient[0, 0], atol=1e-13)


@pytest.mark.parametrize("started", [True, False])
def test_the_way_of_other_devices_has_the_same_states_and_gradients(case, started):
    layer, words, ids, packing, start = case
    leaves = [words, *([start] if started else []), *layer.parameters()]
    found = gru_states(layer, words, packing.pack(ids), packing, start if started else None, torch.float64)
    first = start[packing.order] if started else None
    wanted = states_by_torch([layer], words[packing.pack(ids)], packing.sizes, first)
    outer = torch.randn_like(found)
    for one, other in zip(
        [found, *torch.autograd.grad(found, leaves, outer)],
        [wanted, *torch.autograd.grad(wanted, leaves, outer)],
        strict=True,
    ):
        assert torch.allclose(one, other, rtol=1e-12, atol=1e-13)


def test_float32_and_bfloat16_are_near_float64(case):
    layer, words, ids, packing, start = case
    wanted = gru_states(layer, words, packing.pack(ids), packing, start, torch.float64)
    for dtype, close in ((torch.float32, 1e-6), (torch.bfloat16, 0.05)):
        found = gru_states(layer, words, packing.pack(ids), packing, start, dtype)
        assert found.dtype == dtype
        assert (found.double() - wanted).abs().max() < close
