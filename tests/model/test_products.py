"""Products by oneDNN against float64."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from sightword.model import products
from sightword.model.products import STEP, linear, varying_product


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
