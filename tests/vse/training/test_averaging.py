"""Averaged weights against plain loops over the weights they are made of."""

import numpy as np
import pytest
import torch

from sightword.model.encoders import Encoders
from sightword.vse.training.averaging import Averaging
from sightword.vse.training.settings import TrainSettings

SETTINGS = TrainSettings(embedding=3, hidden=4, attention=2, epochs=6, cycle=2, standardise="training")


@pytest.fixture
def encoders():
    torch.manual_seed(0)
    found = Encoders(7, 5, SETTINGS.shape)
    features = np.random.default_rng(0).normal(size=(9, 5)).astype(np.float32)
    features[:, 2] = 3  # never varies: its deviation is infinite
    found.images.standardise_by(features)
    return found


def weights(encoders):
    return {name: value.detach().double().clone() for name, value in encoders.named_parameters()}


def walk(encoders, averaging, *, epochs=6, batches=3):
    """Change the weights at random as a training would; give those after each batch, epoch by epoch."""
    draw = torch.Generator().manual_seed(1)
    seen = []
    for epoch in range(epochs):
        seen.append([])
        for _ in range(batches):
            with torch.no_grad():
                for value in encoders.parameters():
                    value += torch.randn(value.shape, generator=draw)
            averaging.after_batch(epoch)
            seen[-1].append(weights(encoders))
        averaging.after_epoch(epoch + 1)
    return seen


def same(result, expected):
    return all(torch.allclose(value.double(), expected[name], atol=1e-5) for name, value in result.named_parameters())


@pytest.mark.parametrize("start", [0, 2])
def test_the_exponential_average_of_all_batches(encoders, start):
    settings = SETTINGS.model_copy(update={"average": "ema", "average_decay": 0.9, "average_start": start})
    averaging = Averaging(encoders, settings)
    assert averaging.result is encoders
    seen = walk(encoders, averaging)
    batches = [batch for epoch in seen[start:] for batch in epoch]
    expected = batches[0]
    for batch in batches[1:]:
        expected = {name: 0.9 * value + 0.1 * batch[name] for name, value in expected.items()}
    assert averaging.result is not encoders
    assert same(averaging.result, expected)


@pytest.mark.parametrize("start", [0, 2, 3])
def test_the_mean_over_the_ends_of_cycles(encoders, start):
    averaging = Averaging(encoders, SETTINGS.model_copy(update={"average": "swa", "average_start": start}))
    seen = walk(encoders, averaging)
    ends = [seen[epoch - 1][-1] for epoch in (2, 4, 6) if epoch > start]
    expected = {name: sum(end[name] for end in ends) / len(ends) for name in ends[0]}
    assert same(averaging.result, expected)


def test_without_averaging_the_encoders_themselves_are_the_result(encoders):
    averaging = Averaging(encoders, SETTINGS)
    walk(encoders, averaging)
    assert averaging.result is encoders
    assert averaging.state() == {}


@pytest.mark.parametrize("kind", ["ema", "swa"])
def test_the_statistics_of_the_features_stay_also_where_they_are_infinite(encoders, kind):
    averaging = Averaging(encoders, SETTINGS.model_copy(update={"average": kind}))
    walk(encoders, averaging)
    assert torch.equal(averaging.result.images.mean, encoders.images.mean)
    assert torch.equal(averaging.result.images.deviation, encoders.images.deviation)
    assert torch.isinf(averaging.result.images.deviation[2])


@pytest.mark.parametrize("kind", ["ema", "swa"])
def test_a_state_put_back_goes_on_alike(encoders, kind):
    settings = SETTINGS.model_copy(update={"average": kind})
    averaging = Averaging(encoders, settings)
    walk(encoders, averaging)
    other = Averaging(encoders, settings)
    other.restore({name: value.clone() for name, value in averaging.state().items()})
    with torch.no_grad():
        for value in encoders.parameters():
            value.mul_(-2)
    for one in (averaging, other):
        one.after_batch(7)
        one.after_epoch(8)
    for name, value in averaging.result.state_dict().items():
        assert torch.equal(value, other.result.state_dict()[name])


@pytest.mark.parametrize(
    "wrong", [{"average": "ema", "average_start": 6}, {"average": "swa", "average_start": 6},
              {"average": "swa", "average_start": 4, "epochs": 5, "snapshots": "epoch"}]
)  # fmt: skip
def test_an_average_of_nothing_is_refused(wrong):
    with pytest.raises(ValueError, match="leaves none of the"):
        TrainSettings(**{**SETTINGS.model_dump(), **wrong})
