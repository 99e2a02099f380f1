"""Stories from a Markov chain whose conditional entropy is known: the held-out loss reaches it, and no less."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_text import text_of

from sightword.grounded.skipthought import task as training
from sightword.grounded.skipthought.network import SkipThought
from sightword.grounded.skipthought.settings import SkipthoughtSettings

CHAIN = np.array([[0.7, 0.2, 0.05, 0.05], [0.1, 0.1, 0.5, 0.3], [0.1, 0.05, 0.05, 0.8], [0.45, 0.05, 0.45, 0.05]])
SENTENCES = [[2, 3], [4], [5, 3, 6], [7, 6]]
SETTINGS = SkipthoughtSettings(
    embedding=8, hidden=24, batch=64, rate=0.03, steps=250, validate_every=250, validation=100
)  # fmt: skip


def law():
    """The stationary law of the chain."""
    return np.linalg.matrix_power(CHAIN, 200)[0]


def entropy(chances):
    some = chances[chances > 0]
    return float(-(some * np.log(some)).sum())


@pytest.fixture(autouse=True)
def falling_rate(monkeypatch):
    monkeypatch.setattr(training, "DECAY_STEPS", 125)


@pytest.fixture(scope="module")
def stories():
    """9,000 sentences in one passage, the last 3,000 held out."""
    random = np.random.default_rng(2)
    kinds = [0]
    for chance in random.random(8999):
        kinds.append(int(np.searchsorted(np.cumsum(CHAIN[kinds[-1]]), chance)))
    rows = [SENTENCES[kind] for kind in kinds]
    return kinds, text_of(rows, words=8, held_out=range(6000, 9000), max_tokens=6)


def loss_of_a_sentence(text):
    torch.manual_seed(0)
    network = training.train(SETTINGS, text, device=torch.device("cpu")).network
    with torch.no_grad():
        middles = text.triples(1)
        return network.total(text, middles)[0].item() / len(middles)


def test_decoders_reach_the_entropy_given_the_sentence(stories):
    kinds, text = stories
    joint = law()[:, None] * CHAIN
    wanted = 0.0
    for step, given in ((1, joint / joint.sum(1, keepdims=True)), (-1, (joint / joint.sum(0)).T)):
        wanted += float(np.mean([-np.log(given[kinds[middle], kinds[middle + step]]) for middle in text.triples(1)]))
    assert wanted == pytest.approx(2 * (entropy(joint) - entropy(law())), rel=0.03)  # the sampled text itself
    assert loss_of_a_sentence(text) == pytest.approx(wanted, rel=0.02)


def test_decoders_without_the_sentence_stay_at_the_marginal_entropy(stories, monkeypatch):
    kinds, text = stories
    cut = SkipThought.vectors
    monkeypatch.setattr(SkipThought, "vectors", lambda self, table, words: 0.0 * cut(self, table, words))
    wanted = float(np.mean([-np.log(law()[kinds[middle + step]]) for middle in text.triples(1) for step in (1, -1)]))
    assert wanted == pytest.approx(entropy(law()), rel=0.02)
    assert loss_of_a_sentence(text) == pytest.approx(2 * wanted, rel=0.02)
