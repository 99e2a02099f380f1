"""The losses against plain loops in float64, NumPy, and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sightword.grounded.training.losses import cluster, cosines, perceptual, ranked
from sightword.model.losses import infonce

MARGIN = 0.5


def vectors(rows, width, seed):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(rows, width)))


def cosine(one, other):
    return float(np.dot(one, other) / np.linalg.norm(one) / np.linalg.norm(other))


def hinge(right, wrong):
    return max(0.0, MARGIN - right + wrong)


def by_loops(left, right, same, draws, negatives):
    """Equation 2 of Bordes et al. (2019) over rows i and mismatches j."""
    left, right, count = left.numpy(), right.numpy(), len(left)
    total, rows = 0.0, 0
    for i in range(count):
        mismatches = [j for j in range(count) if not same[i, j]]
        if negatives == "one":
            mismatches = sorted(mismatches, key=lambda j: draws[i, j])[-1:]
        if negatives == "last_ten":
            mismatches = [j for j in mismatches if j >= count - 10 > i]
        own = cosine(left[i], right[i])
        for j in mismatches:
            anchored = hinge(own, cosine(left[i], right[j]))
            other = anchored if negatives == "one" else hinge(own, cosine(left[j], right[i]))
            total += (anchored + other) / 2
        rows += bool(mismatches)
    return total / max(rows, 1)


@pytest.mark.parametrize("negatives", ["one", "all", "last_ten"])
@given(rows=st.integers(1, 16), width=st.integers(1, 5), seed=st.integers(0, 1000), copies=st.booleans())
def test_cluster_is_equation_2(negatives, rows, width, seed, copies):
    left, right = vectors(rows, width, seed), vectors(rows, width, seed + 1)
    random = np.random.default_rng(seed)
    number = random.integers(0, 1 + rows // 2, rows) if copies else np.arange(rows)
    same = torch.from_numpy(number[:, None] == number)
    draws = torch.from_numpy(random.random((rows, rows)))
    found = cluster(left, right, same, draws, margin=MARGIN, negatives=negatives)
    assert float(found) == pytest.approx(by_loops(left, right, same, draws, negatives), abs=1e-12)
    longer = cluster(left * 3.5, right * 0.25, same, draws, margin=MARGIN, negatives=negatives)
    assert float(longer) == pytest.approx(float(found), abs=1e-12)


@pytest.mark.parametrize("negatives", ["one", "all", "last_ten"])
def test_nothing_is_lost_beyond_the_margin(negatives):
    rows = torch.eye(12, dtype=torch.float64)
    same, draws = torch.eye(12, dtype=torch.bool), torch.rand(12, 12)
    assert cluster(rows, rows, same, draws, margin=MARGIN, negatives=negatives) == 0
    assert cluster(rows, rows.flip(0), same, draws, margin=MARGIN, negatives=negatives) > 0


@pytest.mark.parametrize("negatives", ["one", "all", "last_ten"])
def test_copies_of_one_picture_are_never_mismatches(negatives):
    left, right = vectors(12, 3, 0), vectors(12, 3, 1)
    everything = torch.ones(12, 12, dtype=torch.bool)
    assert cluster(left, right, everything, torch.rand(12, 12), margin=MARGIN, negatives=negatives) == 0


def test_each_mismatch_is_drawn_evenly():
    same = torch.eye(4, dtype=torch.bool)
    scores = torch.tensor([[9.0, 1, 2, 3]] * 4)
    random = torch.Generator().manual_seed(0)
    losses = [
        ranked(scores, same, torch.rand(4, 4, generator=random), margin=10, negatives="one").item() for _ in range(3000)
    ]
    # margin - s_ii + s_ij, mean over the three mismatches of each row
    expected = np.mean([10 - scores[i, i] + scores[i, j] for i in range(4) for j in range(4) if i != j])
    assert np.mean(losses) == pytest.approx(expected, abs=0.1)


def test_infonce_is_the_houses_loss_of_the_cosines():
    left, right, same = vectors(5, 3, 0), vectors(5, 3, 1), torch.eye(5, dtype=torch.bool)
    found = cluster(left, right, same, torch.rand(5, 5), margin=MARGIN, negatives="one", temperature=0.1)
    expected = infonce(cosines(left, right), same, temperature=torch.tensor(0.1), reduction="mean")
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    nothing = cluster(left[:0], right[:0], same[:0, :0], torch.rand(0, 0), margin=1, negatives="one", temperature=0.1)
    assert nothing == 0


def listed(rows, pairs):
    """The cosines of the pairs of rows, by a loop."""
    values = rows.numpy()
    off = [(i, j) for i in range(len(values)) for j in range(i + 1, len(values))]
    whole = [(i, j) for i in range(len(values)) for j in range(len(values))]
    return [cosine(values[i], values[j]) for i, j in (off if pairs == "off_diagonal" else whole)]


@pytest.mark.parametrize("pairs", ["off_diagonal", "matrix"])
@given(rows=st.integers(3, 8), width=st.integers(2, 5), seed=st.integers(0, 1000))
def test_perceptual_is_minus_the_correlation_of_the_cosines(pairs, rows, width, seed):
    ours, theirs = vectors(rows, width, seed), vectors(rows, width + 1, seed + 1)
    one, other = listed(ours, pairs), listed(theirs, pairs)
    found = {name: float(perceptual(ours, theirs, pairs=pairs, similarity=name)) for name in ("pearson", "l1", "l2")}
    assert found["pearson"] == pytest.approx(-np.corrcoef(one, other)[0, 1], abs=1e-9)
    centred = [a - sum(one) / len(one) - b + sum(other) / len(other) for a, b in zip(one, other, strict=True)]
    assert found["l1"] == pytest.approx(sum(abs(value) for value in centred) / len(centred), abs=1e-12)
    assert found["l2"] == pytest.approx(sum(value**2 for value in centred) / len(centred), abs=1e-12)


def test_a_rotation_and_a_constant_dimension_have_the_correlation_1():
    pictures = vectors(9, 4, 0)
    turn, _ = torch.linalg.qr(vectors(4, 4, 1))
    unit = torch.nn.functional.normalize(pictures, dim=1)
    longer = torch.cat([unit, torch.full((9, 1), 0.7, dtype=torch.float64)], dim=1)
    for ours in (pictures @ turn, longer):
        assert float(perceptual(ours, pictures, pairs="off_diagonal", similarity="pearson")) == pytest.approx(-1)


@pytest.mark.parametrize("similarity", ["pearson", "l2"])
def test_gradients_of_the_perceptual_loss(similarity):
    pictures = vectors(5, 3, 1)
    ours = vectors(5, 3, 0).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda rows: perceptual(rows, pictures, pairs="off_diagonal", similarity=similarity), (ours,)
    )


@pytest.mark.parametrize("negatives", ["one", "all"])
def test_gradients_of_the_cluster_loss(negatives):
    left, right = vectors(5, 3, 0).requires_grad_(), vectors(5, 3, 1).requires_grad_()
    same, draws = torch.eye(5, dtype=torch.bool), torch.rand(5, 5)
    assert torch.autograd.gradcheck(
        lambda one, other: cluster(one, other, same, draws, margin=MARGIN, negatives=negatives), (left, right)
    )
