"""Both ways of the recurrent layer against PyTorch's own over packed sequences."""

import os
import subprocess
import sys
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sightword.model import recurrent
from sightword.model.encoders import CaptionEncoder
from sightword.model.packing import STEPS, Packing, Places
from sightword.model.recurrent import Recurrent, states_by_torch
from sightword.model.settings import ModelSettings

WIDTH, HIDDEN = 5, 6
lengths_of_rows = st.lists(st.integers(1, 9), min_size=1, max_size=6)


def packed_twin(layer: Recurrent, cell: str) -> nn.Module:
    """PyTorch's layer with the same weights."""
    bidirectional = layer.backward_ is not None
    twin = {"gru": nn.GRU, "lstm": nn.LSTM}[cell](WIDTH, HIDDEN, batch_first=True, bidirectional=bidirectional)
    state = dict(layer.onward.state_dict())
    if layer.backward_ is not None:
        state |= {f"{name}_reverse": value for name, value in layer.backward_.state_dict().items()}
    twin.load_state_dict(state)
    return twin.double()


def states_of(layer: Recurrent, way: str, inputs: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """(B, T, states), zero on the padding."""
    packing = Packing.of(lengths, inputs.shape[1])
    lines = packing.pack(inputs)
    return packing.unpack(
        layer(lines, packing) if way == "by hand" else states_by_torch(layer.layers, lines, packing.sizes)
    )


@pytest.mark.parametrize("way", ["by hand", "by torch"])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
@given(lengths_of_rows, st.booleans(), st.integers(0, 99), st.sampled_from([0, 0, 1, 4]))
@settings(max_examples=15, deadline=None)
def test_states_and_gradients_equal_those_of_pytorch(way, cell, lengths, bidirectional, seed, spare):
    """Also where the batch is wider than its longest row."""
    torch.manual_seed(seed)
    layer = Recurrent(WIDTH, HIDDEN, cell, bidirectional=bidirectional).double()
    twin = packed_twin(layer, cell)
    lengths = torch.tensor(lengths)
    ours = torch.randn(len(lengths), int(lengths.max()) + spare, WIDTH, dtype=torch.float64, requires_grad=True)
    theirs = ours.detach().clone().requires_grad_()

    states = states_of(layer, way, ours, lengths)
    packed, _ = twin(pack_padded_sequence(theirs, lengths, batch_first=True, enforce_sorted=False))
    expected, _ = pad_packed_sequence(packed, batch_first=True, total_length=ours.shape[1])
    assert torch.allclose(states, expected, atol=1e-12)

    weight = torch.randn(expected.shape, dtype=torch.float64)
    (states * weight).sum().backward()
    (expected * weight).sum().backward()
    assert torch.allclose(ours.grad, theirs.grad, atol=1e-12)
    for name, value in layer.onward.named_parameters():
        assert torch.allclose(value.grad, getattr(twin, name).grad, atol=1e-12), name
    for name, value in layer.backward_.named_parameters() if bidirectional else []:
        assert torch.allclose(value.grad, getattr(twin, f"{name}_reverse").grad, atol=1e-12), name


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_going_back_twice_gives_the_same(cell):
    torch.manual_seed(0)
    layer, packing = Recurrent(WIDTH, HIDDEN, cell), Packing.of(torch.tensor([4, 2]))
    states = layer(torch.randn(6, WIDTH), packing)
    weights = list(layer.parameters())
    first = torch.autograd.grad(states.sum(), weights, retain_graph=True)
    second = torch.autograd.grad(states.sum(), weights)
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_padded_rows_have_the_states_and_gradients_of_packed_rows(monkeypatch, cell, bidirectional):
    torch.manual_seed(0)
    layer = Recurrent(WIDTH, HIDDEN, cell, bidirectional=bidirectional).double()
    packing = Packing.of(torch.tensor([3, 9, 1, 9, 4]))
    lines = torch.randn(26, WIDTH, dtype=torch.float64, requires_grad=True)
    found, calls = [], []
    honest = getattr(torch, cell)
    monkeypatch.setattr(torch, cell, lambda *words: calls.append(cell) or honest(*words))
    for padded in (frozenset(), frozenset({torch.float64})):
        monkeypatch.setattr(recurrent, "PADDED", padded)
        states = states_by_torch(layer.layers, lines, packing.sizes)
        gradients = torch.autograd.grad(states.square().sum(), [lines, *layer.parameters()])
        found.append([states, *gradients])
    assert len(calls) == 1 + len(layer.layers)
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=1e-12)


def by_the_layer(layer, inputs, packing, dtype):
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        return layer(inputs, packing)


def by_torch(layer, inputs, packing, dtype):
    """Under autocast too, which would compute in float16 on CUDA."""
    with torch.autocast("cpu", torch.float16):
        return states_by_torch(layer.layers, inputs.to(dtype), packing.sizes)


@pytest.mark.parametrize("compute", [by_the_layer, by_torch])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_in_bfloat16_states_are_near_and_gradients_in_float32(cell, compute):
    torch.manual_seed(0)
    layer, packing = Recurrent(20, 64, cell), Packing.of(torch.tensor([30, 12, 5]))
    inputs = torch.randn(47, 20)
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        layer.zero_grad()
        states = compute(layer, inputs, packing, dtype)
        assert states.dtype == dtype
        states.float().square().sum().backward()
        gradients = [one.weight_hh_l0.grad.clone() for one in (layer.onward, layer.backward_)]
        found.append((states.float(), gradients))
    (exact, exact_gradients), (near, near_gradients) = found
    assert (near - exact).abs().max() < 0.02
    for one, other in zip(near_gradients, exact_gradients, strict=True):
        assert one.dtype == torch.float32
        assert torch.cosine_similarity(one.flatten(), other.flatten(), dim=0) > 0.999


def test_bfloat16_works_where_onednn_does_not_know_it():
    """As on a processor with AVX2 only; oneDNN asks once, so it takes a process of its own."""
    code = """if True:
        import torch
        from sightword.model.products import repeated_product
        weight, lines = torch.randn(96, 32).bfloat16(), torch.randn(8, 32).bfloat16()
        assert torch.equal(repeated_product(weight, None, 8)(lines), lines @ weight.t())
    """
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_torch_without_those_operators_trains_and_encodes_the_same(cell, monkeypatch):
    """They are torch's own, and another release may rename them."""
    torch.manual_seed(0)
    encoder = CaptionEncoder(9, ModelSettings(embedding=5, hidden=16, attention=4, cell=cell).shape)
    rows = [np.random.default_rng(length).integers(1, 9, length) for length in (3, 11, 1, 7)]
    found = []
    for one_dnn in (torch.ops.mkldnn, SimpleNamespace(_is_mkldnn_bf16_supported=lambda: True)):
        monkeypatch.setattr(torch.ops, "mkldnn", one_dnn)
        encoder.zero_grad()
        with torch.no_grad():
            encoded = encoder.embed(rows)
        encoder.embed(rows)[:, :5].sum().backward()
        found.append([encoded, *(weight.grad.clone() for weight in encoder.parameters())])
        with torch.autocast("cpu", torch.bfloat16):
            encoder.embed(rows).sum().backward()
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_one_and_two_threads_give_the_same_bits():
    torch.manual_seed(0)
    layer, packing = Recurrent(20, 96, "gru"), Packing.of(torch.tensor([9, 30, 4, 4, 17]))
    inputs, threads = torch.randn(64, 20), torch.get_num_threads()
    found = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            layer.zero_grad()
            states = layer(inputs, packing)
            states.square().sum().backward()
            assert torch.get_num_threads() == count
            found.append((states, *(weight.grad.clone() for weight in layer.parameters())))
    finally:
        torch.set_num_threads(threads)
    for one, two in zip(*found, strict=True):
        assert torch.equal(one, two)


@given(lengths_of_rows)
@settings(max_examples=30, deadline=None)
def test_packing_is_that_of_pytorch_and_its_own_inverse(lengths):
    packing = Packing.of(torch.tensor(lengths))
    padded = torch.rand(len(lengths), max(lengths), 2) + 1
    lines = packing.pack(padded)
    theirs = pack_padded_sequence(padded, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    assert torch.equal(lines, theirs.data)
    assert packing.sizes == theirs.batch_sizes.tolist()
    back = packing.unpack(lines)
    for row, length in enumerate(lengths):
        assert torch.equal(back[row, :length], padded[row, :length])
        assert not back[row, length:].any()
    assert packing.padding.tolist() == sorted(max(lengths) - length for length in lengths)


@given(lengths_of_rows, st.booleans())
@settings(max_examples=30, deadline=None)
def test_lines_spread_over_padded_rows_come_back_with_their_gradients(lengths, backwards):
    packing = Packing.of(torch.tensor(lengths))
    lines = torch.rand(sum(lengths), 2).add(1).requires_grad_()
    places, steps, rows = Places.of(packing.sizes, lines.device, backwards=backwards)
    assert (steps, rows) == (STEPS, len(lengths))
    padded = places.spread(lines)
    by_row = padded.view(steps, rows, 2).transpose(0, 1)
    for found, row in zip(by_row, packing.order.tolist(), strict=True):
        own = packing.unpack(lines)[row, : lengths[row]]
        assert torch.equal(found[: lengths[row]], own.flip(0) if backwards else own)
        assert not found[lengths[row] :].any()
    back = places.gather(padded)
    assert torch.equal(back, lines)
    outer = torch.rand(steps * rows, 2)
    place = places.gather(torch.arange(steps * rows)[:, None])[:, 0]
    copied = torch.zeros(steps * rows, 2).index_copy(0, place, lines)
    assert torch.equal(padded, copied)
    assert torch.equal(*(torch.autograd.grad(each, lines, outer)[0] for each in (padded, copied)))
    values = torch.rand(steps * rows, 2, requires_grad=True)
    both = places.gather(values), values.index_select(0, place)
    assert torch.equal(*both)
    assert torch.equal(*(torch.autograd.grad(each, values, outer[: len(place)])[0] for each in both))


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_what_the_way_back_needs_is_freed_with_the_states(cell):
    layer, packing = Recurrent(WIDTH, HIDDEN, cell), Packing.of(torch.tensor([4, 2]))
    states = layer(torch.randn(6, WIDTH), packing)
    passes = states.grad_fn.next_functions[0][0].passes
    freed = weakref.ref(passes[0].kept[1])
    states.sum().backward()
    del states, passes
    assert freed() is None
