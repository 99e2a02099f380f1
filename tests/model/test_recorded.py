"""Functions that are recorded for a GPU, with a stand-in for the recording: one memory, computed anew by each call."""

import copy
import weakref

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from sightword.model import recurrent as recorded
from sightword.model.recurrent import CALLS, RECORDED, SHAPES, Recorded


class OnGpu(torch.Tensor):
    is_cuda = True


def compute(weights, inputs):
    return torch.tanh(inputs * weights)


def tensors(size=3, *, start=1.0):
    weights = torch.arange(start, start + size, dtype=torch.float32).as_subclass(OnGpu).requires_grad_()
    return weights, torch.linspace(-1, 1, size).as_subclass(OnGpu)


def gradient(found, weights):
    return torch.autograd.grad(found.sum(), weights)[0]


@pytest.fixture
def replays(monkeypatch):
    """The shapes of the calls that were answered by a recording."""
    seen = []

    def record(function, examples, pool):
        inputs = [one.detach().clone().requires_grad_(one.requires_grad) for one in examples]
        result, gradients = torch.zeros_like(examples[0]), torch.zeros_like(examples[0])

        class Replayed(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *values):
                seen.append(values[0].shape)
                with torch.no_grad():
                    for kept, value in zip(inputs, values, strict=True):
                        kept.copy_(value)
                    return result.copy_(function(*inputs)).detach()

            @staticmethod
            def backward(ctx, outer):
                with torch.enable_grad():
                    gradients.copy_(torch.autograd.grad(function(*inputs), inputs[0], outer)[0])
                return gradients.detach(), None

        return Replayed.apply

    monkeypatch.setattr(torch.cuda, "make_graphed_callables", record)
    return seen


def ready():
    """A function that has a recording for three numbers."""
    function = Recorded(compute)
    for _ in range(CALLS + 1):
        weights, inputs = tensors()
        gradient(function(weights, inputs), weights)
    return function


def test_a_recording_answers_after_some_calls_with_the_same_gradients(replays):
    function = Recorded(compute)
    for number in range(CALLS + 3):
        weights, inputs = tensors(start=number)
        found = function(weights, inputs)
        wanted = compute(weights, inputs)
        assert torch.equal(found, wanted)
        assert torch.equal(gradient(found, weights), gradient(wanted, weights))
        assert len(replays) == max(0, number + 1 - CALLS)


def test_a_second_call_before_the_backward_pass_leaves_the_first_its_gradients(replays):
    function, (one, inputs), (other, _) = ready(), tensors(), tensors(start=5.0)
    before = len(replays)
    found = [function(one, inputs), function(other, inputs)]
    assert len(replays) == before + 1
    for states, weights in zip(found, (one, other), strict=True):
        assert torch.equal(gradient(states, weights), gradient(compute(weights, inputs), weights))


def test_a_result_dropped_without_a_backward_pass_frees_the_recording(replays):
    function, (weights, inputs) = ready(), tensors()
    before = len(replays)
    for number in range(3):
        total = function(weights, inputs).sum()
        assert len(replays) == before + number + 1
        function(weights, inputs)
        assert len(replays) == before + number + 1  # the control: a graph that waits for its backward pass
        del total


@pytest.mark.parametrize("between", [False, True])
def test_a_second_backward_pass_of_a_recorded_call_is_refused(replays, between):
    function, (weights, inputs) = ready(), tensors()
    total = function(weights, inputs).sum()
    torch.autograd.grad(total, weights, retain_graph=True)
    if between:
        gradient(function(weights, inputs), weights)
    with pytest.raises(AssertionError, match="one backward pass"):
        torch.autograd.grad(total, weights)
    wanted = gradient(compute(weights, inputs), weights)
    assert torch.equal(gradient(function(weights, inputs), weights), wanted)


def test_checkpointed_calls_have_the_gradients_of_plain_ones(replays):
    function, (weights, inputs) = ready(), tensors()
    before = len(replays)

    def twice(one, other):
        return function(one, function(one, other))

    found = checkpoint(twice, weights, inputs, use_reentrant=False)
    wanted = torch.autograd.grad(compute(weights, compute(weights, inputs)).sum(), weights)[0]
    found.sum().backward()
    assert torch.equal(weights.grad, wanted)
    assert len(replays) == before


def test_recordings_have_a_bound_that_is_told_once(replays, caplog):
    caplog.set_level("INFO")
    function = Recorded(compute)
    for size in range(1, SHAPES + 4):
        for _ in range(CALLS + 1):
            weights, inputs = tensors(size)
            assert torch.equal(
                gradient(function(weights, inputs), weights), gradient(compute(weights, inputs), weights)
            )
        assert len(caplog.messages) == (size >= SHAPES)
    assert replays == [(size,) for size in range(1, SHAPES + 1)]


def test_a_layer_has_recordings_of_its_own_which_end_with_it(replays):
    def scaled(layer, weights, inputs):
        return layer.weight[0, 0] * weights * inputs

    layer = nn.Linear(1, 1, bias=False).requires_grad_(False)
    twin = copy.deepcopy(layer)
    twin.weight.mul_(2)
    for _ in range(CALLS + 2):
        weights, inputs = tensors()
        one, other = (recorded.recorded(scaled, each)(weights, inputs) for each in (layer, twin))
        assert torch.equal(2 * gradient(one, weights), gradient(other, weights))
    assert len(replays) == 4
    freed = weakref.ref(RECORDED[layer])
    del layer, one
    assert freed() is None
    assert twin in RECORDED
