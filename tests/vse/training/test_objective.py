"""What equal scores cost, and whether the losses of an epoch are that."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from sightword.vse.training.objective import Objective
from sightword.vse.training.settings import TrainSettings

PAIRS = np.array([32, 32, 31])


def objective(**settings: object) -> Objective:
    return Objective(TrainSettings(**{"loss": "hardest", "margin": 0.2, **settings}))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_losses_of_twice_the_margin_in_all_batches_are_flat(reduction):
    losses = 0.4 * np.array([1.002, 0.999, 1.0]) * (PAIRS if reduction == "sum" else 1)
    assert objective(reduction=reduction).flat(losses, PAIRS, epoch=0)
    assert not objective(reduction=reduction).flat(0.9 * losses, PAIRS, epoch=0)


def test_losses_that_only_pass_twice_the_margin_are_not_flat():
    losses = np.linspace(0.46, 0.34, 3)
    assert losses.mean() == pytest.approx(0.4)
    assert not objective(reduction="mean").flat(losses, PAIRS, epoch=0)


def test_losses_are_flat_only_after_the_warm_up_of_hardest():
    losses = np.full(3, 0.4)
    assert not objective(loss="hinge").flat(losses, PAIRS, epoch=0)
    warm = objective(reduction="mean", warm_up=2)
    assert [warm.flat(losses, PAIRS, epoch=epoch) for epoch in (1, 2)] == [False, True]


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("loss", ["hinge", "hardest", "infonce"])
@pytest.mark.parametrize("epoch", [0, 1])
def test_chance_level_is_the_loss_of_equal_scores(loss, reduction, epoch):
    asked = objective(loss=loss, reduction=reduction, warm_up=1)
    for pairs in (2, 9):
        found = asked(torch.full((pairs, pairs), 0.3), torch.eye(pairs, dtype=torch.bool), epoch=epoch)
        assert asked.alike(pairs, epoch=epoch) == pytest.approx(found.item(), rel=1e-5)


@pytest.mark.parametrize("loss", ["hinge", "infonce"])
def test_second_captions_are_paired_with_pictures_and_with_the_first_ones(loss):
    first, second, images = (functional.normalize(torch.randn(5, 7), dim=1) for _ in range(3))
    same = torch.eye(5, dtype=torch.bool)
    asked = objective(loss=loss, second_caption=True)
    each = [asked(one @ other.T, same, epoch=0).item() for one, other in ((first, images), (second, images))]
    beside = asked(first @ second.T, same, epoch=0).item()
    found = asked.both([first, second], images, same, epoch=0).item()
    assert found == pytest.approx(sum(each) / 2 + beside, rel=1e-5)
    assert asked.both([first], images, same, epoch=0).item() == pytest.approx(each[0], rel=1e-5)
    alone = objective(loss=loss, second_caption=True, pictures="none")
    assert alone.both([first, second], images, same, epoch=0).item() == pytest.approx(beside, rel=1e-5)
    assert alone.alike(5, epoch=0) == objective(loss=loss).alike(5, epoch=0)


def test_chance_level_counts_second_captions():
    for reduction in ("mean", "sum"):
        asked = objective(loss="hinge", reduction=reduction, second_caption=True)
        alike = torch.ones(4, 3) / 3**0.5
        found = asked.both([alike, alike], alike, torch.eye(4, dtype=torch.bool), epoch=0)
        assert asked.alike(4, epoch=0) == pytest.approx(found.item(), rel=1e-5)


@pytest.mark.parametrize("loss", ["hinge", "infonce"])
def test_captions_beside_add_their_loss_and_its_chance_level(loss):
    first, second = (functional.normalize(torch.randn(6, 7), dim=1) for _ in range(2))
    asked = objective(loss=loss, beside_batch=6)
    expected = asked(first @ second.T, torch.eye(6, dtype=torch.bool), epoch=0).item()
    assert asked.beside(first, second, epoch=0).item() == pytest.approx(expected, rel=1e-5)
    chance = objective(loss=loss).alike(4, epoch=0) + asked.beside(
        first[:1].expand(6, 7), first[:1].expand(6, 7), epoch=0
    )
    assert asked.alike(4, epoch=0) == pytest.approx(chance.item(), rel=1e-5)


def test_captions_are_not_compared_by_an_order():
    with pytest.raises(ValueError, match="second_caption compares captions"):
        TrainSettings(second_caption=True, similarity="order")
    with pytest.raises(ValueError, match="beside_batch compares captions"):
        TrainSettings(beside_batch=8, similarity="order")
    with pytest.raises(ValueError, match="beside_batch must be 0 or at least 2"):
        TrainSettings(beside_batch=1)
