"""SkipThought's networks, GRU and output layer against plain loops in float64, NumPy and finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from small_text import text_of
from torch import nn
from torch.nn import functional as F

from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.grounded.skipthought import network as networks
from sightword.grounded.skipthought.network import build, gru_states, load, output_loss, save
from sightword.grounded.skipthought.settings import SkipthoughtSettings
from sightword.model.packing import Packing
from sightword.model.recurrent import states_by_torch

SMALL = SkipthoughtSettings(embedding=6, hidden=8, batch=16, steps=30, validate_every=10)
MIDDLES = np.array([1, 5, 23, 24, 7])


def network_of(text, decode=networks.NEIGHBOURS, **change):
    torch.manual_seed(3)
    network = build(SMALL.model_copy(update=change), len(text.vocabulary), decode).double()
    with torch.no_grad():
        for name, weights in network.named_parameters():
            if "bias" in name:
                weights.uniform_(-0.5, 0.5)
    return network


def vector(network, ids):
    """The last state of a sentence."""
    table = network.captions.embedding.weight
    return network.captions.recurrent.onward(table[torch.from_numpy(ids)][None])[1][0, 0]


def word_losses(network, name, vector, ids):
    """The losses of the words of a neighbour, one word at a time."""
    table, state = network.captions.embedding.weight, vector[None, None]
    word, losses = torch.zeros_like(table[0]), []
    for number in ids:
        states, state = network.decoders[name](word[None, None], state)
        losses.append(F.cross_entropy(network.output(states[0]), torch.tensor([number])))
        word = table[number]
    return losses


def plain_loss(network, text):
    total = torch.zeros((), dtype=torch.float64)
    for name, step in (("previous", -1), ("next", 1)):
        if name not in network.decoders:
            continue
        for middle in MIDDLES:
            own = word_losses(network, name, vector(network, text.row(middle)), text.row(middle + step))
            # The released code: a mean over 30 places a sentence, most of them padding with a mask of zero.
            total = total + torch.stack(own).sum() / (len(MIDDLES) * text.max_tokens)
    return total


@pytest.mark.parametrize("change", [{"decode": ["next"]}, {}])
def test_loss_and_gradients_are_those_of_a_plain_loop(random_text, change):
    network = network_of(random_text, **change)
    found, wanted = [], []
    for values, loss in (
        (found, network.loss(random_text, MIDDLES)),
        (wanted, plain_loss(network, random_text)),
    ):
        values += [loss.detach(), *torch.autograd.grad(loss, list(network.parameters()))]
    found[1][0] = wanted[1][0] = 0.0  # the vector of padding is never trained
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one, other, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("objective", ["skipthought", "infonce"])
def test_vectors_are_those_of_the_encoder(random_text, objective):
    network = network_of(random_text, objective=objective)
    rows = random_text.rows(MIDDLES)
    table, (words,) = network.words([rows])
    found = network.vectors(table, words)
    assert torch.allclose(found, network.captions.embed(rows), rtol=1e-12, atol=1e-14)
    assert torch.allclose(found[2], vector(network, rows[2]), rtol=1e-12, atol=1e-14)


def test_neighbours_loss_leaves_out_copies_and_the_anchor():
    rows = [[2, 3], [4], [2, 3], [5, 6, 7], [8], [9, 2]]
    text = text_of(rows, words=12)
    network = network_of(text, objective="infonce")
    firsts = np.array([0, 2, 3, 4])  # 3 is the right sentence of 2, and 4 that of 3
    vectors = [F.normalize(vector(network, text.row(number)), dim=0) for number in range(6)]
    total = 0.0
    for first in firsts:
        for own, others in ((first + 1, firsts + 1), (first, firsts)):
            asked = first if own != first else first + 1
            wrong = [other for other in others if other != own and rows[other] not in (rows[own], rows[asked])]
            logits = torch.stack([vectors[asked] @ vectors[number] for number in [own, *wrong]]) / networks.TEMPERATURE
            total += F.cross_entropy(logits[None], torch.tensor([0])).item() / 8
    assert network.loss(text, firsts).item() == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("objective", ["skipthought", "infonce"])
def test_network_loaded_equals_the_saved_one(random_text, tmp_path, objective):
    torch.manual_seed(3)
    network = build(SMALL.model_copy(update={"objective": objective}), 20)
    save(tmp_path, network, random_text.vocabulary, result={"steps": 3})
    again = load(tmp_path)
    wanted = network.state_dict()
    assert list(again.state_dict()) == list(wanted)
    assert all(torch.equal(values, wanted[name]) for name, values in again.state_dict().items())
    vectors = SentenceEncoder.load(tmp_path / "encoder").encode(["w0003 w0001", "w0002"], space="sentence")
    ids = [np.array(random_text.vocabulary.encode(text)) for text in ("w0003 w0001", "w0002")]
    assert np.allclose(vectors, network.captions.embed(ids).detach().numpy(), atol=1e-6)


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
        ([5, 1, 3, 7], 6, 11, 1, 1),
        ([5, 1, 3, 7], 6, 11, 3, 4),
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


@pytest.mark.parametrize("words", [1, 20_000])
def test_equal_logits_have_a_perplexity_of_the_number_of_words(words):
    states = torch.randn(3, 4)
    weight, bias = torch.zeros(words, 4), torch.full((words,), 2.5)
    with torch.no_grad():
        loss = output_loss(states, weight, bias, torch.tensor([0, words - 1, words // 2]), torch.ones(3))
    assert math.exp(float(loss) / 3) == pytest.approx(words, rel=1e-5)


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
