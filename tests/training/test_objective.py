"""When training counts as stuck, and when it only passes by."""

import numpy as np
import pytest
import torch

from pipeline.training.objective import Objective
from pipeline.training.settings import TrainSettings

PAIRS = np.array([32, 32, 31])


def objective(**settings: object) -> Objective:
    return Objective(TrainSettings(**{"loss": "hardest", "margin": 0.2, **settings}))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_batches_that_all_cost_twice_the_margin_are_stuck(reduction):
    losses = 0.4 * np.array([1.002, 0.999, 1.0]) * (PAIRS if reduction == "sum" else 1)
    assert objective(reduction=reduction).stuck(losses, PAIRS, epoch=0)
    assert not objective(reduction=reduction).stuck(0.9 * losses, PAIRS, epoch=0)


def test_a_training_that_gets_on_passes_by_twice_the_margin():
    losses = np.linspace(0.46, 0.34, 3)
    assert losses.mean() == pytest.approx(0.4)
    assert not objective(reduction="mean").stuck(losses, PAIRS, epoch=0)


def test_only_the_hardest_mismatch_gets_stuck_and_not_while_it_warms_up():
    losses = np.full(3, 0.4)
    assert not objective(loss="hinge").stuck(losses, PAIRS, epoch=0)
    warm = objective(reduction="mean", warm_up=2)
    assert [warm.stuck(losses, PAIRS, epoch=epoch) for epoch in (1, 2)] == [False, True]


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("loss", ["hinge", "hardest", "infonce"])
@pytest.mark.parametrize("epoch", [0, 1])
def test_what_knowing_nothing_costs_is_the_loss_of_equal_scores(loss, reduction, epoch):
    asked = objective(loss=loss, reduction=reduction, warm_up=1)
    for pairs in (2, 9):
        found = asked(torch.full((pairs, pairs), 0.3), torch.eye(pairs, dtype=torch.bool), epoch=epoch)
        assert asked.alike(pairs, epoch=epoch) == pytest.approx(found.item(), rel=1e-5)
