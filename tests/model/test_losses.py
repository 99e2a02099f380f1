"""The objectives against plain loops in float64."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sightword.model.losses import hardest, hinge, infonce


def by_loops(scores, pictures, margin):
    total = 0.0
    size = len(pictures)
    for i in range(size):
        for j in range(size):
            if pictures[i] == pictures[j]:
                continue
            total += max(0.0, margin - scores[i][i] + scores[i][j])  # caption i, another picture
            total += max(0.0, margin - scores[j][j] + scores[i][j])  # picture j, another caption
    return total


CASES = st.integers(1, 6).flatmap(
    lambda n: st.tuples(
        st.lists(st.lists(st.floats(-1, 1), min_size=n, max_size=n), min_size=n, max_size=n),
        st.lists(st.integers(0, 3), min_size=n, max_size=n),
    )
)


@given(CASES, st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_sum_and_mean_agree_with_loops_also_when_pictures_repeat(case, margin):
    scores, pictures = case
    matrix = torch.tensor(scores, dtype=torch.float64)
    ids = torch.tensor(pictures)
    same = ids[:, None] == ids[None, :]
    expected = by_loops(scores, pictures, margin)
    assert hinge(matrix, same, margin=margin, reduction="sum").item() == pytest.approx(expected, abs=1e-9)
    mean = hinge(matrix, same, margin=margin, reduction="mean").item()
    assert mean == pytest.approx(expected / len(pictures) ** 2, abs=1e-9)


def mismatches(scores, pictures, pair, *, of_caption):
    """Scores of what the pair's caption (or picture) must not be taken for."""
    others = [other for other in range(len(pictures)) if pictures[other] != pictures[pair]]
    return [scores[pair][other] if of_caption else scores[other][pair] for other in others]


@given(CASES, st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_the_hardest_mismatch_agrees_with_loops(case, margin):
    scores, pictures = case
    expected = 0.0
    for pair in range(len(pictures)):
        for of_caption in (True, False):
            costs = [margin - scores[pair][pair] + s for s in mismatches(scores, pictures, pair, of_caption=of_caption)]
            expected += max([0.0, *costs])
    matrix, ids = torch.tensor(scores, dtype=torch.float64), torch.tensor(pictures)
    same = ids[:, None] == ids[None, :]
    assert hardest(matrix, same, margin=margin, reduction="sum").item() == pytest.approx(expected, abs=1e-9)
    mean = hardest(matrix, same, margin=margin, reduction="mean").item()
    assert mean == pytest.approx(expected / len(pictures), abs=1e-9)


@given(CASES, st.floats(0.05, 2))
@settings(max_examples=60, deadline=None)
def test_infonce_agrees_with_loops(case, temperature):
    scores, pictures = case
    expected = 0.0
    for pair in range(len(pictures)):
        for of_caption in (True, False):
            rivals = mismatches(scores, pictures, pair, of_caption=of_caption)
            right = math.exp(scores[pair][pair] / temperature)
            expected -= math.log(right / (right + sum(math.exp(s / temperature) for s in rivals))) / 2
    matrix, ids = torch.tensor(scores, dtype=torch.float64), torch.tensor(pictures)
    same, heat = ids[:, None] == ids[None, :], torch.tensor(temperature, dtype=torch.float64)
    assert infonce(matrix, same, temperature=heat, reduction="sum").item() == pytest.approx(expected, abs=1e-9)
    mean = infonce(matrix, same, temperature=heat, reduction="mean").item()
    assert mean == pytest.approx(expected / len(pictures), abs=1e-9)


@pytest.mark.parametrize("margin", [0.0, 0.2])
def test_gradients_at_ties_are_finite_and_equal(margin):
    """All scores equal: each mismatch is as near as the pair itself, and each is the hardest."""
    same = torch.eye(4, dtype=torch.bool)
    for loss in (
        lambda s: hinge(s, same, margin=margin, reduction="sum"),
        lambda s: hardest(s, same, margin=margin, reduction="sum"),
        lambda s: infonce(s, same, temperature=torch.tensor(0.1, dtype=torch.float64), reduction="sum"),
    ):
        scores = torch.full((4, 4), 0.5, dtype=torch.float64, requires_grad=True)
        loss(scores).backward()
        assert torch.isfinite(scores.grad).all()
        assert torch.allclose(scores.grad[~same], scores.grad[0, 1], atol=1e-12)
        assert torch.allclose(scores.grad.sum(dim=1), torch.zeros(4, dtype=torch.float64), atol=1e-12)


def test_batch_of_one_picture_has_zero_loss_and_gradient():
    scores = torch.zeros(3, 3, requires_grad=True)
    same = torch.ones(3, 3, dtype=torch.bool)
    heat = torch.tensor(0.07, requires_grad=True)
    total = hardest(scores, same, margin=0.2, reduction="sum") + infonce(
        scores, same, temperature=heat, reduction="sum"
    )
    total.backward()
    assert total.item() == 0
    assert torch.equal(scores.grad, torch.zeros(3, 3))
    assert heat.grad.item() == 0
