"""Products by oneDNN against float64."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from sightword.model import products
from sightword.model.products import linear


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
