"""Both ways of the recurrent layer against PyTorch's own over packed sequences."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sightword.model import products, recurrent
from sightword.model.packing import Packing
from sightword.model.products import STEP, linear, varying_product
from sightword.model.recurrent import Recurrent, states_by_torch

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


# Products by oneDNN against float64


@pytest.mark.parametrize("rows", [3, 70])
def test_a_large_linear_layer_has_the_values_and_gradients_of_float64(rows, monkeypatch):
    monkeypatch.setattr(products, "LARGE", 0)
    torch.manual_seed(0)
    lines, weight, bias, outer = (torch.randn(*size) for size in ((rows, 90), (80, 90), (80,), (rows, 80)))
    found, expected = [], []
    for dtype, function, results in ((torch.float32, linear, found), (torch.float64, F.linear, expected)):
        inputs = [one.to(dtype).requires_grad_() for one in (lines, weight, bias)]
        values = function(*inputs)
        results += [values, *torch.autograd.grad(values, inputs, outer.to(dtype))]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=0, atol=1e-4)


def test_a_small_product_has_the_bits_of_torch():
    left, right = torch.randn(30, 20), torch.randn(20, 70)
    assert torch.equal(linear(left, right.t()), F.linear(left, right.t()))


def test_a_linear_layer_under_autocast_is_in_bfloat16(monkeypatch):
    monkeypatch.setattr(products, "LARGE", 0)
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(torch.randn(70, 90), torch.randn(80, 90)).dtype == torch.bfloat16


@pytest.mark.parametrize("size", [3, STEP, STEP + 1, 2 * STEP + 100])
@pytest.mark.parametrize("inner", [False, True])
def test_a_product_of_any_size_has_the_values_of_float64_and_gives_few_shapes_to_one_dnn(size, inner, monkeypatch):
    seen, single = set(), products.single_product
    monkeypatch.setattr(products, "single_product", lambda a, b: (seen.add((*a.shape, *b.shape)), single(a, b))[1])
    torch.manual_seed(0)
    lines, weight = (
        (torch.randn(size, 40).t(), torch.randn(size, 30).t())
        if inner
        else (torch.randn(size, 40), torch.randn(30, 40))
    )
    found = varying_product(lines, weight, inner=inner)
    torch.testing.assert_close(found.double(), lines.double() @ weight.double().t(), rtol=0, atol=1e-4)
    whole = size // STEP * STEP
    assert seen == ({(40, whole, 30, whole) if inner else (whole, 40, 30, 40)} if whole else set())
