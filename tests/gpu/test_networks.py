"""The networks' parts on a GPU: types, and the numbers of a CPU."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from encoder_kinds import KINDS, TEXTS, summed

from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.evaluation.retrieval.ranks import rank
from sightword.grounded.skipthought.network import output_loss
from sightword.model.packing import Packing
from sightword.model.recurrent import RECORDED, Recurrent

pytestmark = pytest.mark.gpu


LENGTHS = [30, 12, 5, 30, 1]


@pytest.fixture
def case():
    """The packing of some rows, and their lines (N, width)."""
    torch.manual_seed(0)
    return Packing.of(torch.tensor(LENGTHS)), torch.randn(sum(LENGTHS), 20)


def states_and_gradients(layer, lines, packing, device, *, bf16=False):
    """The states (N, ..), and the gradients of inputs and weights, on the CPU."""
    layer = copy.deepcopy(layer).to(device)
    inputs = lines.detach().to(device).requires_grad_()
    with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
        states = layer(inputs, packing)
    states.float().square().mean().backward()
    return states, [each.grad.cpu() for each in (inputs, *layer.parameters())]


@pytest.mark.parametrize("hidden", [6, 512])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_states_and_gradients_in_float32_equal_those_of_a_cpu(gpu, case, cell, bidirectional, hidden):
    packing, lines = case
    layer = Recurrent(20, hidden, cell, bidirectional=bidirectional)
    wanted, wanted_grads = states_and_gradients(layer, lines, packing, torch.device("cpu"))
    found, grads = states_and_gradients(layer, lines, packing, gpu)
    assert found.dtype == torch.float32
    assert torch.allclose(found.cpu(), wanted, atol=1e-5)
    for one, other in zip(grads, wanted_grads, strict=True):
        assert (one - other).norm() <= 1e-4 * other.norm()


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_under_autocast_states_are_bfloat16_and_near_those_in_float32(gpu, case, cell):
    packing, lines = case
    layer = Recurrent(20, 512, cell)
    wanted, wanted_grads = states_and_gradients(layer, lines, packing, gpu)
    found, grads = states_and_gradients(layer, lines, packing, gpu, bf16=True)
    assert found.dtype == torch.bfloat16
    assert (found - wanted).abs().max() < 0.05
    for one, other in zip(grads, wanted_grads, strict=True):
        assert one.dtype == torch.float32
        assert torch.cosine_similarity(one.flatten(), other.flatten(), dim=0) > 0.99


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_recorded_layers_give_the_bytes_of_the_first_calls(gpu, case, cell):
    packing, lines = case
    layer = Recurrent(20, 256, cell).to(gpu)
    inputs = lines.to(gpu).requires_grad_()
    found = []
    for _ in range(5):
        with torch.autocast("cuda", torch.bfloat16):
            states = layer(inputs, packing)
        found.append(
            [
                states.detach().clone(),
                *torch.autograd.grad(states.float().square().mean(), [inputs, *layer.parameters()]),
            ]
        )
    assert all(RECORDED[one]._graphs for one in layer.layers)
    for later in found[1:]:
        assert all(map(torch.equal, later, found[0]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_output_loss_equals_that_of_a_cpu(gpu, dtype):
    torch.manual_seed(0)
    states, weight, bias = torch.randn(300, 64) / 8, torch.randn(5000, 64), torch.randn(5000)
    targets, scale = torch.randint(5000, (300,)), torch.full((300,), 1 / 3840)
    found = []
    for device in (torch.device("cpu"), gpu):
        leaves = [each.detach().to(device).requires_grad_() for each in (states, weight, bias)]
        loss = output_loss(leaves[0].to(dtype), *leaves[1:], targets.to(device), scale.to(device))
        found.append([one.cpu() for one in (loss.detach(), *torch.autograd.grad(loss, leaves))])
    close = 1e-5 if dtype == torch.float32 else 0.01
    for one, other in zip(*found, strict=True):
        assert (one - other).norm() <= close * other.norm()


@pytest.mark.parametrize("similarity", ["cosine", "order"])
def test_ranks_are_those_of_a_cpu(gpu, similarity):
    random = np.random.default_rng(0)
    images, captions = random.random((60, 40)), random.random((300, 40))
    images[7], captions[5] = images[8], captions[6]  # ties
    owners = np.arange(300) // 5
    one, other = (rank(captions, images, owners, similarity, device=device) for device in (torch.device("cpu"), gpu))
    assert all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("caption_to_image", "image_to_caption")
    )


@pytest.mark.parametrize("kind", KINDS)
def test_encoded_sentences_are_those_of_a_cpu(gpu, tmp_path, kind):
    KINDS[kind]().save(tmp_path)
    found = []
    for device in ("cpu", "cuda"):
        encoder = SentenceEncoder.load(tmp_path, device=device)
        found.append([encoder.encode(TEXTS), encoder.encode(TEXTS, precision="bf16")])
    for one, other, close in zip(*found, (1e-5, 0.1), strict=True):
        assert one.dtype == other.dtype == np.float32
        assert np.abs(one - other).max() < close


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_encoding_depends_on_no_batch(gpu, tmp_path, cell):
    encoder = summed({"hidden": 512, "attention": 32, "cell": cell})
    encoder.save(tmp_path)
    encoder = SentenceEncoder.load(tmp_path, device="cuda")
    texts = [("a dog runs in the snow " * 9)[:length] for length in range(5, 190, 7)]
    alone = np.concatenate([encoder.encode([text]) for text in texts])
    assert np.abs(encoder.encode(texts) - alone).max() < 2e-6
