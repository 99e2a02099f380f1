"""The order of the batches and the training run: rate, clipping, what is learned, and what is refused."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from small_text import text_of

from sightword.errors import TrainingError
from sightword.grounded.skipthought import task as training
from sightword.grounded.skipthought.network import build
from sightword.grounded.skipthought.settings import SkipthoughtSettings
from sightword.grounded.skipthought.task import batches

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


def test_buckets_share_out_triples_by_length(random_text):
    def spread(bucket):
        settings = SMALL.model_copy(update={"bucket": bucket})
        order = itertools.islice(batches(random_text, settings, seed=0), 12)
        return np.mean([np.std(random_text.offsets[own + 2] - random_text.offsets[own - 1]) for own in order])

    assert spread(12) < spread(1) / 3


def test_the_rate_falls_continuously_and_the_gradient_is_clipped(random_text, monkeypatch):
    monkeypatch.setattr(training, "DECAY_STEPS", 10)
    monkeypatch.setattr(training, "CLIP", 0.01)
    own = training.TextTask(SMALL, random_text, CPU)
    own.learn(random_text.triples(0)[:16], 5)
    assert own.adam.param_groups[0]["lr"] == pytest.approx(0.01 * math.sqrt(0.5))
    gradients = [weights.grad.ravel() for weights in own.network.parameters()]
    assert torch.cat(gradients).norm().item() == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("objective", ["skipthought", "infonce"])
def test_a_run_that_learns_nothing_is_reported(caplog, objective):
    rows = [[2 + number % 5, 7 + number % 5] for number in range(200)]
    text = text_of(rows, words=12, held_out=range(160, 200))
    settings = SMALL.model_copy(update={"objective": objective, "rate": 0.03})
    run(text, settings)
    assert "learned nothing" not in caplog.text
    run(text, settings.model_copy(update={"rate": 1e30}))
    assert "the encoder learned nothing. Look at skipthought.rate" in caplog.text


def test_initial_weights_are_those_of_the_released_code():
    captions = build(SMALL, 20).captions
    assert captions.embedding.weight.abs().max() <= 0.1
    for gate in captions.recurrent.onward.weight_hh_l0.detach().chunk(3):
        assert torch.allclose(gate @ gate.t(), torch.eye(8), atol=1e-5)


def test_in_bfloat16_it_learns_a_cycle_of_sentences():
    rows = [[2 + number % 5, 7 + number % 5] for number in range(200)]
    text = text_of(rows, words=12, held_out=range(180, 200))
    settings = SMALL.model_copy(update={"steps": 150, "precision": "bf16", "hidden": 16, "rate": 0.03, "bucket": 1})
    assert run(text, settings).perplexity < 1.2


def test_too_little_text_is_one_message():
    text = text_of([[2, 3]] * 10, words=12)
    with pytest.raises(TrainingError, match="the text has 8 triples of successive sentences, fewer than one batch"):
        run(text)
