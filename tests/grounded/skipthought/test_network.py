"""The loss of the networks against the plain way: sentence by sentence through torch's GRU, in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_text import text_of
from torch.nn import functional as F

from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.grounded.skipthought import network as networks
from sightword.grounded.skipthought.network import build, load, save
from sightword.grounded.skipthought.settings import SkipthoughtSettings

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


@pytest.mark.parametrize("change", [{"decode": ["next"]}, {}, {"layer_norm": "frozen"}])
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


def test_loss_of_sentence_does_not_depend_on_padding(random_text):
    network = network_of(random_text)
    alone = sum(network.total(random_text, np.array([middle]))[0].item() for middle in MIDDLES)
    together, words = network.total(random_text, MIDDLES)
    assert together.item() == pytest.approx(alone, rel=1e-12)
    assert words == sum(len(row) for row in random_text.rows(np.concatenate([MIDDLES - 1, MIDDLES + 1])))
    assert not network.captions.embedding.weight[0].any()
    network.loss(random_text, MIDDLES).backward()
    assert not network.captions.embedding.weight.grad[0].any()


def test_without_weights_the_perplexity_is_the_number_of_words(random_text):
    network = network_of(random_text)
    torch.nn.init.zeros_(network.output.weight)
    torch.nn.init.zeros_(network.output.bias)
    loss, words = network.total(random_text, MIDDLES)
    assert (loss.detach() / words).exp().item() == pytest.approx(20, rel=1e-12)


@pytest.mark.parametrize("layer_norm", ["none", "frozen"])
@pytest.mark.parametrize("objective", ["skipthought", "infonce"])
def test_vectors_are_those_of_the_encoder(random_text, objective, layer_norm):
    network = network_of(random_text, objective=objective, layer_norm=layer_norm)
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


@pytest.mark.parametrize(
    ("objective", "layer_norm"),
    [("skipthought", "none"), ("skipthought", "frozen"), ("infonce", "none")],
)
def test_network_loaded_equals_the_saved_one(random_text, tmp_path, objective, layer_norm):
    torch.manual_seed(3)
    network = build(SMALL.model_copy(update={"objective": objective, "layer_norm": layer_norm}), 20)
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        save(tmp_path / name, network, random_text.vocabulary, result={"steps": 3})
    again = load(tmp_path / "one")
    about = (tmp_path / "one/encoder/encoder.json").read_text()
    assert ("layer_norm_gru" in about) == (layer_norm == "frozen")
    wanted = network.state_dict()
    assert list(again.state_dict()) == list(wanted)
    assert all(torch.equal(values, wanted[name]) for name, values in again.state_dict().items())
    files = [sorted(path for path in (tmp_path / name).rglob("*") if path.is_file()) for name in ("one", "other")]
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]
    vectors = SentenceEncoder.load(tmp_path / "one/encoder").encode(["w0003 w0001", "w0002"], space="sentence")
    ids = [np.array(random_text.vocabulary.encode(text)) for text in ("w0003 w0001", "w0002")]
    assert np.allclose(vectors, network.captions.embed(ids).detach().numpy(), atol=1e-6)
