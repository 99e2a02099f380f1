"""The losses against plain loops in float64, NumPy, and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sightword.grounded.training.losses import MARGIN, TEMPERATURE, cluster, cosines, perceptual, ranked
from sightword.model.losses import infonce


def vectors(rows, width, seed):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(rows, width)))


def cosine(one, other):
    return float(np.dot(one, other) / np.linalg.norm(one) / np.linalg.norm(other))


def hinge(right, wrong):
    return max(0.0, MARGIN - right + wrong)


def by_loops(scores, same, draws):
    """Equation 2 of Bordes et al. (2019) over rows i and mismatches j: one of a row, or all in both directions."""
    count = len(scores)
    total, rows = 0.0, 0
    for i in range(count):
        mismatches = [j for j in range(count) if not same[i, j]]
        if draws is not None:
            mismatches = sorted(mismatches, key=lambda j: draws[i, j])[-1:]
        for j in mismatches:
            anchored = hinge(scores[i, i], scores[i, j])
            total += anchored if draws is not None else (anchored + hinge(scores[i, i], scores[j, i])) / 2
        rows += bool(mismatches)
    return total / max(rows, 1)


@pytest.mark.parametrize("drawn", [True, False])
@given(rows=st.integers(1, 16), width=st.integers(1, 5), seed=st.integers(0, 1000), copies=st.booleans())
def test_ranked_is_equation_2(drawn, rows, width, seed, copies):
    left, right = vectors(rows, width, seed), vectors(rows, width, seed + 1)
    random = np.random.default_rng(seed)
    number = random.integers(0, 1 + rows // 2, rows) if copies else np.arange(rows)
    same = torch.from_numpy(number[:, None] == number)
    draws = torch.from_numpy(random.random((rows, rows))) if drawn else None
    scores = np.array([[cosine(one, other) for other in right.numpy()] for one in left.numpy()])
    expected = pytest.approx(by_loops(scores, same, draws), abs=1e-12)
    assert float(ranked(cosines(left, right), same, draws)) == expected
    if drawn:
        assert float(cluster(left * 3.5, right * 0.25, same, draws)) == expected


def test_nothing_is_lost_beyond_the_margin():
    rows = torch.eye(12, dtype=torch.float64)
    same, draws = torch.eye(12, dtype=torch.bool), torch.rand(12, 12)
    assert cluster(rows, rows, same, draws) == 0
    assert cluster(rows, rows.flip(0), same, draws) > 0


@pytest.mark.parametrize("draws", [torch.rand(12, 12), None])
def test_copies_of_one_picture_are_never_mismatches(draws):
    scores = cosines(vectors(12, 3, 0), vectors(12, 3, 1))
    assert ranked(scores, torch.ones(12, 12, dtype=torch.bool), draws) == 0


def test_each_mismatch_is_drawn_evenly():
    same = torch.eye(4, dtype=torch.bool)
    scores = torch.tensor([[0.9, 1, 2, 3]] * 4)
    random = torch.Generator().manual_seed(0)
    losses = [ranked(scores, same, torch.rand(4, 4, generator=random)).item() for _ in range(3000)]
    # the mean over the three mismatches of each row
    expected = np.mean([hinge(scores[i, i], scores[i, j]) for i in range(4) for j in range(4) if i != j])
    assert np.mean(losses) == pytest.approx(expected, abs=0.05)


def test_infonce_is_the_houses_loss_of_the_cosines():
    left, right, same = vectors(5, 3, 0), vectors(5, 3, 1), torch.eye(5, dtype=torch.bool)
    found = cluster(left, right, same, torch.rand(5, 5), contrast=True)
    expected = infonce(cosines(left, right), same, temperature=torch.tensor(TEMPERATURE), reduction="mean")
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    assert cluster(left[:0], right[:0], same[:0, :0], torch.rand(0, 0), contrast=True) == 0


@given(rows=st.integers(3, 8), width=st.integers(2, 5), seed=st.integers(0, 1000))
def test_perceptual_is_minus_the_correlation_of_the_cosines(rows, width, seed):
    ours, theirs = vectors(rows, width, seed), vectors(rows, width + 1, seed + 1)
    pairs = [(i, j) for i in range(rows) for j in range(i + 1, rows)]
    one, other = ([cosine(side[i].numpy(), side[j].numpy()) for i, j in pairs] for side in (ours, theirs))
    assert float(perceptual(ours, theirs)) == pytest.approx(-np.corrcoef(one, other)[0, 1], abs=1e-9)


def test_a_rotation_and_a_constant_dimension_have_the_correlation_1():
    pictures = vectors(9, 4, 0)
    turn, _ = torch.linalg.qr(vectors(4, 4, 1))
    unit = torch.nn.functional.normalize(pictures, dim=1)
    longer = torch.cat([unit, torch.full((9, 1), 0.7, dtype=torch.float64)], dim=1)
    for ours in (pictures @ turn, longer):
        assert float(perceptual(ours, pictures)) == pytest.approx(-1)


def test_gradients_of_the_perceptual_loss():
    pictures, ours = vectors(5, 3, 1), vectors(5, 3, 0).requires_grad_()
    assert torch.autograd.gradcheck(lambda rows: perceptual(rows, pictures), (ours,))


@pytest.mark.parametrize("draws", [torch.rand(5, 5), None])
def test_gradients_of_the_cluster_loss(draws):
    left, right = vectors(5, 3, 0).requires_grad_(), vectors(5, 3, 1).requires_grad_()
    same = torch.eye(5, dtype=torch.bool)
    assert torch.autograd.gradcheck(lambda one, other: ranked(cosines(one, other), same, draws), (left, right))
