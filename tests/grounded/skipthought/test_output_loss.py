"""The output layer and its loss in one, against torch's cross-entropy of padded logits with a mask."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from sightword.grounded.skipthought import output
from sightword.grounded.skipthought.output import output_loss


def drawn(lengths, hidden, words, dtype=torch.float64, seed=0):
    """States of sentences (B, T, H), padded; weights; targets (B, T); the mask of real places."""
    random = torch.Generator().manual_seed(seed)
    steps = max(lengths)
    states = torch.randn(len(lengths), steps, hidden, generator=random, dtype=torch.float64)
    weight = torch.randn(words, hidden, generator=random, dtype=torch.float64)
    bias = torch.randn(words, generator=random, dtype=torch.float64)
    targets = torch.randint(words, (len(lengths), steps), generator=random)
    mask = torch.arange(steps) < torch.tensor(lengths)[:, None]
    parts = (value.to(dtype).requires_grad_() for value in (states, weight, bias))
    return (*parts, targets, mask)


def padded(states, weight, bias, targets, mask, places):
    """The published way: the logits of all places, a mask, and the sum by a number of places."""
    losses = F.cross_entropy(F.linear(states, weight, bias).flatten(0, 1), targets.flatten(), reduction="none")
    return (losses * mask.flatten()).sum() / places


def gradients(loss, *leaves):
    return [loss.detach(), *torch.autograd.grad(loss, leaves)]


@pytest.mark.parametrize(
    ("lengths", "hidden", "words", "rows", "columns"),
    [
        ([5, 1, 3, 7], 6, 11, None, 4096),
        ([5, 1, 3, 7], 6, 11, 1, 1),
        ([5, 1, 3, 7], 6, 11, 3, 4),
        ([5, 1, 3, 7], 6, 11, 100, 10),
        ([1], 4, 3, None, 2),
        ([1, 1, 1], 1, 1, 2, 1),
        ([30] * 8, 24, 300, 50, 128),
    ],
)
@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_output_loss_and_gradients_equal_those_of_padded_logits(lengths, hidden, words, rows, columns, dtype, close):
    states, weight, bias, targets, mask = drawn(lengths, hidden, words, dtype)
    places = 30 * len(lengths)
    wanted = gradients(padded(states, weight, bias, targets, mask, places), states, weight, bias)
    scale = torch.full((int(mask.sum()),), 1 / places, dtype=dtype)
    loss = output_loss(states[mask], weight, bias, targets[mask], scale, rows=rows, columns=columns)
    for one, other in zip(gradients(loss, states, weight, bias), wanted, strict=True):
        assert (one - other).abs().max() <= close * max(1.0, float(other.abs().max()))


def test_the_gradient_is_that_of_finite_differences(monkeypatch):
    states, weight, bias, targets, mask = drawn([3, 1, 2], 4, 6)
    lines = states.detach()[mask].requires_grad_()
    scale = torch.rand(len(lines), dtype=torch.float64)
    monkeypatch.setattr(output, "CACHE", 2 * 6 * 8)

    def loss(*leaves):
        return 3.0 * output_loss(*leaves, targets[mask], scale, rows=4, columns=5)

    assert torch.autograd.gradcheck(loss, (lines, weight, bias))


@pytest.mark.parametrize("words", [1, 2, 17, 20_000])
def test_equal_logits_have_a_perplexity_of_the_number_of_words(words):
    states = torch.randn(3, 4)
    weight, bias = torch.zeros(words, 4), torch.full((words,), 2.5)
    with torch.no_grad():
        loss = output_loss(states, weight, bias, torch.tensor([0, words - 1, words // 2]), torch.ones(3))
    assert math.exp(float(loss) / 3) == pytest.approx(words, rel=1e-5)


def test_large_logits_stay_finite():
    states = torch.tensor([[1e4], [-1e4]]).requires_grad_()
    weight = torch.tensor([[1.0], [0.0]]).requires_grad_()
    loss = output_loss(states, weight, torch.zeros(2), torch.tensor([1, 1]), torch.ones(2))
    assert loss.item() == pytest.approx(1e4)
    assert all(values.isfinite().all() for values in torch.autograd.grad(loss, (states, weight)))


def test_bfloat16_states_give_the_loss_and_the_gradients_to_its_digits():
    states, weight, bias, targets, mask = drawn([9, 20, 14], 32, 500, torch.float32)
    weight.data /= 8
    places = 3 * 30
    wanted = gradients(padded(states, weight, bias, targets, mask, places), states, weight, bias)
    scale = torch.full((int(mask.sum()),), 1 / places)
    loss = output_loss(states[mask].bfloat16(), weight, bias, targets[mask], scale, rows=16, columns=200)
    for one, other in zip(gradients(loss, states, weight, bias), wanted, strict=True):
        assert one.dtype == torch.float32
        assert (one - other).norm() <= 0.01 * other.norm()


def test_bfloat16_keeps_the_small_gradients_of_a_recipe_that_float16_loses():
    """At the scale of ``reduction: padded`` in batches of 128 sentences of 30 words, with a large vocabulary."""
    states, weight, bias, targets, mask = drawn([9, 20, 14], 16, 20_000, torch.float32)
    scale = torch.full((int(mask.sum()),), 1 / (128 * 30))
    lost = {}
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        loss = output_loss((states[mask] / 8).to(dtype), weight, bias, targets[mask], scale)
        (found,) = torch.autograd.grad(loss, weight)
        lost[dtype] = (found == 0).double().mean().item()
    assert lost[torch.float32] == lost[torch.bfloat16] == 0
    assert lost[torch.float16] > 0.1
