"""SkipThought's training: batches, rate, a chain of known entropy, and the stage with a killed run."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
import torch
from small_text import text_of

from sightword.errors import TrainingError
from sightword.grounded.skipthought import task as training
from sightword.grounded.skipthought.network import SkipThought, build
from sightword.grounded.skipthought.settings import SkipthoughtSettings
from sightword.grounded.skipthought.task import batches
from sightword.io.files import atomic_folder
from sightword.text.storage import write_text
from stages.grounded import skipthought

CPU = torch.device("cpu")
SMALL = SkipthoughtSettings(
    embedding=6, hidden=8, batch=16, steps=30, validate_every=8, rate=0.01, bucket=3, validation=12
)


def run(text, settings=SMALL, **more):
    return training.train(settings, text, device=CPU, **more)


@pytest.mark.parametrize(("bucket", "objective"), [(1, "skipthought"), (4, "skipthought"), (4, "infonce")])
def test_epoch_from_any_start_has_each_triple_at_most_once(random_text, bucket, objective):
    settings = SMALL.model_copy(update={"bucket": bucket, "objective": objective})
    found = random_text.pairs(0) if objective == "infonce" else random_text.triples(0)
    each = len(found) // 16
    order = list(itertools.islice(batches(random_text, settings, seed=1), 2 * each))
    for epoch in (order[:each], order[each:]):
        drawn = np.concatenate(epoch)
        assert len(set(drawn.tolist())) == len(drawn) == 16 * each
        assert set(drawn.tolist()) <= set(found.tolist())
    assert not np.array_equal(order[0], order[each])
    for start in range(2 * each):
        assert np.array_equal(next(batches(random_text, settings, seed=1, start=start)), order[start])
    assert not np.array_equal(next(batches(random_text, settings, seed=2)), order[0])


def test_the_rate_falls_continuously_and_the_gradient_is_clipped(random_text, monkeypatch):
    monkeypatch.setattr(training, "DECAY_STEPS", 10)
    monkeypatch.setattr(training, "CLIP", 0.01)
    own = training.TextTask(SMALL, random_text, CPU)
    own.learn(random_text.triples(0)[:16], 5)
    assert own.adam.param_groups[0]["lr"] == pytest.approx(0.01 * math.sqrt(0.5))
    gradients = [weights.grad.ravel() for weights in own.network.parameters()]
    assert torch.cat(gradients).norm().item() == pytest.approx(0.01, rel=1e-3)


def test_initial_weights_are_those_of_the_released_code():
    captions = build(SMALL, 20).captions
    assert captions.embedding.weight.abs().max() <= 0.1
    for gate in captions.recurrent.onward.weight_hh_l0.detach().chunk(3):
        assert torch.allclose(gate @ gate.t(), torch.eye(8), atol=1e-5)


def test_too_little_text_is_one_message():
    text = text_of([[2, 3]] * 10, words=12)
    with pytest.raises(TrainingError, match="the text has 8 triples of successive sentences, fewer than one batch"):
        run(text)


CHAIN = np.array([[0.7, 0.2, 0.05, 0.05], [0.1, 0.1, 0.5, 0.3], [0.1, 0.05, 0.05, 0.8], [0.45, 0.05, 0.45, 0.05]])
SENTENCES = [[2, 3], [4], [5, 3, 6], [7, 6]]
CHAINED = SkipthoughtSettings(
    embedding=8, hidden=24, batch=64, rate=0.03, steps=250, validate_every=250, validation=100
)  # fmt: skip


def law():
    """The stationary law of the chain."""
    return np.linalg.matrix_power(CHAIN, 200)[0]


def entropy(chances):
    some = chances[chances > 0]
    return float(-(some * np.log(some)).sum())


@pytest.fixture(scope="module")
def stories():
    """9,000 sentences in one passage, the last 3,000 held out."""
    random = np.random.default_rng(2)
    kinds = [0]
    for chance in random.random(8999):
        kinds.append(int(np.searchsorted(np.cumsum(CHAIN[kinds[-1]]), chance)))
    rows = [SENTENCES[kind] for kind in kinds]
    return kinds, text_of(rows, words=8, held_out=range(6000, 9000), max_tokens=6)


def loss_of_a_sentence(text, monkeypatch):
    monkeypatch.setattr(training, "DECAY_STEPS", 125)
    network = training.train(CHAINED, text, device=torch.device("cpu")).network
    with torch.no_grad():
        middles = text.triples(1)
        return network.total(text, middles)[0].item() / len(middles)


def test_decoders_reach_the_entropy_given_the_sentence(stories, monkeypatch):
    kinds, text = stories
    joint = law()[:, None] * CHAIN
    wanted = 0.0
    for step, given in ((1, joint / joint.sum(1, keepdims=True)), (-1, (joint / joint.sum(0)).T)):
        wanted += float(np.mean([-np.log(given[kinds[middle], kinds[middle + step]]) for middle in text.triples(1)]))
    assert wanted == pytest.approx(2 * (entropy(joint) - entropy(law())), rel=0.03)  # the sampled text itself
    assert loss_of_a_sentence(text, monkeypatch) == pytest.approx(wanted, rel=0.02)


def test_decoders_without_the_sentence_stay_at_the_marginal_entropy(stories, monkeypatch):
    kinds, text = stories
    cut = SkipThought.vectors
    monkeypatch.setattr(SkipThought, "vectors", lambda self, table, words: 0.0 * cut(self, table, words))
    wanted = float(np.mean([-np.log(law()[kinds[middle + step]]) for middle in text.triples(1) for step in (1, -1)]))
    assert wanted == pytest.approx(entropy(law()), rel=0.02)
    assert loss_of_a_sentence(text, monkeypatch) == pytest.approx(2 * wanted, rel=0.02)


STAGED = SkipthoughtSettings(embedding=6, hidden=8, batch=16, steps=12, validate_every=5)


@pytest.fixture
def project(random_text, tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHTWORD_SCRATCH", str(tmp_path / "scratch"))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    with atomic_folder("data/text") as folder:
        write_text(
            folder, random_text.vocabulary, [random_text.tokens], np.diff(random_text.offsets), random_text.passage,
            random_text.split, max_tokens=12,
        )  # fmt: skip
    return tmp_path / "project"


def test_the_stage_writes_numbers_curves_and_no_checkpoint(project, tmp_path):
    skipthought.work(STAGED)()
    metrics = json.loads((project / "metrics/grounded/skipthought.json").read_text())
    assert (metrics["steps"], metrics["tokens"], metrics["objective"]) == (12, 20, "skipthought")
    assert metrics["held_out_perplexity"] == pytest.approx(np.exp(metrics["held_out_loss"]), rel=1e-4)
    table = (project / "plots/grounded/skipthought/held_out.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in table] == ["batch", "0", "5", "10", "12"]
    assert not list((tmp_path / "scratch/skipthought").glob("*/"))
