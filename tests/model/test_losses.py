"""The hinge loss against plain loops in float64."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.model.losses import hinge


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


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.tuples(
            st.lists(st.lists(st.floats(-1, 1), min_size=n, max_size=n), min_size=n, max_size=n),
            st.lists(st.integers(0, 3), min_size=n, max_size=n),
        )
    ),
    st.floats(0, 1),
)
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


def test_gradient():
    torch.manual_seed(0)
    scores = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    same = torch.eye(4, dtype=torch.bool)
    assert torch.autograd.gradcheck(lambda s: hinge(s, same, margin=0.2, reduction="sum"), scores)


def test_pairs_far_enough_apart_cost_nothing():
    scores = torch.eye(3)
    assert hinge(scores, torch.eye(3, dtype=torch.bool), margin=0.9, reduction="sum").item() == 0
    assert hinge(scores, torch.eye(3, dtype=torch.bool), margin=1.5, reduction="sum").item() == pytest.approx(6.0)
