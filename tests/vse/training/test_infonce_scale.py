"""The learned scale of InfoNCE never exceeds its limit, and can always come down."""

import math

import numpy as np
import pytest
import torch

from sightword.features.tables.pairs import Pairs
from sightword.vse.training.objective import LARGEST_SCALE, Objective
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.task import CaptionTask

SAME = torch.eye(4, dtype=torch.bool)
WRONG = torch.eye(4).roll(1, dims=0)
"""Scores that are best for a mismatch: the larger their scale, the larger the loss."""


def objective(temperature):
    return Objective(TrainSettings(loss="infonce", temperature=temperature))


def scale(asked):
    return asked.log_scale.exp().item()


@pytest.mark.parametrize("temperature", [0.01, 0.001])
def test_scale_at_the_limit_has_a_gradient_and_comes_down(temperature):
    asked = objective(temperature)
    assert scale(asked) == pytest.approx(LARGEST_SCALE)
    optimiser = torch.optim.SGD(asked.parameters(), lr=1e-3)
    found = []
    for _ in range(3):
        optimiser.zero_grad()
        asked(WRONG, SAME, epoch=0).backward()
        assert asked.log_scale.grad.item() == pytest.approx(scale(asked), rel=1e-4)  # the loss is about the scale
        optimiser.step()
        asked.limit()
        found.append(scale(asked))
    assert LARGEST_SCALE > found[0] > found[1] > found[2]


def test_a_step_beyond_the_limit_ends_at_it():
    asked = objective(0.07)
    with torch.no_grad():
        asked.log_scale.fill_(math.log(150))
    asked.limit()
    assert scale(asked) == pytest.approx(LARGEST_SCALE)
    objective_without = Objective(TrainSettings(loss="hinge"))
    objective_without.limit()  # has none


def alike(temperature):
    """A run on captions that are all the same, which tell no picture from another."""
    random = np.random.default_rng(0)
    pairs = Pairs(
        image_ids=[f"{place:02d}" for place in range(16)],
        features=random.normal(size=(16, 5)).astype(np.float32),
        texts=[""] * 16,
        ids=[np.array([2, 3])] * 16,
        numbers=np.zeros(16, np.int64),
        image_of_caption=np.arange(16),
    )
    settings = TrainSettings(
        embedding=4, hidden=4, attention=3, batch=8, loss="infonce", temperature=temperature, rate_max=0.05, epochs=8,
        schedule="step", cycle=1, clip_images=None, clip_captions=None,
    )  # fmt: skip
    return CaptionTask(settings, pairs, 5, torch.device("cpu"))


def test_scale_too_large_for_the_data_comes_down():
    """Every scale above zero costs more than none."""
    run = alike(temperature=0.005)
    assert scale(run.objective) == pytest.approx(LARGEST_SCALE)
    for number in range(3 * run.every):
        run.step(number)
    assert scale(run.objective) < 90
