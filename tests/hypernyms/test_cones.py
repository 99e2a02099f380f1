"""Riemannian Adagrad in the Poincare ball against automatic differentiation, and Poincare embeddings."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sightword.hypernyms.data.pairs import PairSet
from sightword.hypernyms.training import cones
from sightword.hypernyms.training.cones import EDGE, BallAdagrad, nearness, poincare, project
from sightword.hypernyms.training.energies import Cone
from sightword.hypernyms.training.lazy_adam import sums


def poincare_with(monkeypatch, epochs, burn_in, rate, *arguments):
    for name, value in {"EPOCHS": epochs, "BURN_IN": burn_in, "RATE": rate}.items():
        monkeypatch.setattr(cones, name, value)
    return poincare(*arguments)


def points(count, width=3, length=0.7, seed=0):
    values = np.random.default_rng(seed).standard_normal((count, width))
    return project(
        values * length / np.linalg.norm(values, axis=1, keepdims=True) * np.linspace(0.3, 1, count)[:, None]
    )


def distance(first, second):
    """The distance in the ball, as the length of -first + second by Moebius addition (Ungar)."""
    xx, yy, xy = (first * first).sum(-1), (second * second).sum(-1), -(first * second).sum(-1)
    above = (1 + 2 * xy + yy)[..., None] * -first + (1 - xx)[..., None] * second
    return 2 * torch.atanh((above / (1 + 2 * xy + xx * yy)[..., None]).norm(dim=-1))


def test_the_gradients_of_poincare_embeddings():
    high, others = points(4), points(24, seed=1).reshape(4, 6, 3)
    first, second = (torch.from_numpy(side).requires_grad_() for side in (high, others))
    distances = distance(first[:, None].expand(4, 6, 3), second)
    loss = (distances[:, 0] + torch.logsumexp(-distances[:, 1:], dim=1)).sum()
    loss.backward()
    found = nearness(high, others)
    assert found[0] == pytest.approx(loss.item())
    np.testing.assert_allclose(found[1], first.grad.numpy(), atol=1e-10)
    np.testing.assert_allclose(found[2], second.grad.numpy(), atol=1e-10)
    assert all(np.isfinite(part).all() for part in nearness(high, np.stack([high, high], axis=1))[1:])


def test_the_steps_are_riemannian_adagrad():
    """Each point by itself, with the metric of the ball as a matrix, and the energy's gradient by torch."""
    cone, start = Cone(3), points(6)
    table = BallAdagrad(start, 0.1, cone.inner)
    plain, squares = [row.copy() for row in project(start, cone.inner)], np.zeros(6)
    for step in range(20):
        low, high = np.random.default_rng(step).choice(6, 2, replace=False)
        pair = [torch.from_numpy(plain[row].copy()).requires_grad_() for row in (low, high)]
        gradients = torch.autograd.grad(1 - cone.energy(pair[0][None], pair[1][None], {}).sum(), pair)
        ids, total, _ = sums(np.array([low, high]), np.stack([one.numpy() for one in gradients]))
        for row, gradient in zip(ids, total, strict=True):
            metric = np.eye(3) * (2 / (1 - plain[row] @ plain[row])) ** 2
            steepest = np.linalg.solve(metric, gradient)
            squares[row] += steepest @ metric @ steepest
            if squares[row] > 0:
                plain[row] = plain[row] - 0.1 * steepest / np.sqrt(squares[row])
            length = np.linalg.norm(plain[row])
            plain[row] *= min(max(length, cone.inner + EDGE), 1 - EDGE) / length
        table.step(ids, total, table.rows(ids))
    np.testing.assert_allclose(table.rows(slice(None)), plain, atol=1e-12)
    assert np.abs(table.rows(slice(None)) - start).max() > 0.05


@given(st.integers(0, 99), st.floats(0.01, 1e6), st.sampled_from((np.float32, np.float64)))
def test_points_stay_in_the_ball(seed, size, kind):
    random = np.random.default_rng(seed)
    table = BallAdagrad((size * random.standard_normal((5, 4))).astype(kind), 10.0, Cone.inner)
    for _ in range(3):
        ids = np.array([0, 2, 3])
        table.step(ids, (size * random.standard_normal((3, 4))).astype(kind), table.rows(ids))
        lengths = np.linalg.norm(table.rows(slice(None)).astype(np.float64), axis=1)
        assert ((lengths > Cone.inner) & (lengths < 1)).all()


def test_poincare_embeddings_are_those_of_the_released_loop(monkeypatch):
    """Burn-in with a tenth of the rate and popular false hyponyms, then even ones; batches of ten, by autograd."""
    low = np.arange(1, 26, dtype=np.int32)
    high = ((low - 1) // 5).astype(np.int32)
    found = poincare_with(monkeypatch, 3, 2, 0.3, (low, high), None, 26, 2, np.random.default_rng(4))

    random = np.random.default_rng(4)
    plain = torch.from_numpy(random.uniform(-1e-4, 1e-4, (26, 2)))
    hyponyms = [1 + sum(one == concept for one in high) for concept in range(26)]
    for epoch in range(5):
        weights = [count**0.75 for count in hyponyms] if epoch < 2 else [1.0] * 26
        order = random.permutation(25)
        numbers = random.random(25 * 9) * sum(weights)
        false = [next(i for i in range(26) if sum(weights[: i + 1]) >= number) for number in numbers]
        for start in range(0, 25, 10):
            leaf = plain.clone().requires_grad_()
            loss = torch.tensor(0.0, dtype=torch.float64)
            for place in range(start, min(start + 10, 25)):
                others = [int(low[order[place]]), *false[9 * place : 9 * place + 9]]
                apart = torch.stack([distance(leaf[high[order[place]]], leaf[w]) for w in others])
                loss = loss + apart[0] + torch.logsumexp(-apart, dim=0)
            (gradient,) = torch.autograd.grad(loss, leaf)
            factor = (1 - plain.square().sum(dim=1, keepdim=True)).square() / 4
            plain = plain - (0.03 if epoch < 2 else 0.3) * factor * gradient
            plain = plain * (1 - EDGE) / plain.norm(dim=1, keepdim=True).clamp(min=1 - EDGE)
    np.testing.assert_allclose(found, plain.numpy(), atol=1e-6)


def test_poincare_embeddings_bring_a_tree_in_order(monkeypatch):
    """A tree of 1 + 4 + 16 concepts: a concept lies farther out than its hypernym, and nearer to it than to others."""
    low = np.arange(1, 21, dtype=np.int32)
    high = ((low - 1) // 4).astype(np.int32)
    known = PairSet(low, high, 21)
    for drawn in (known, None):
        found = poincare_with(monkeypatch, 240, 60, 0.1, (low, high), drawn, 21, 2, np.random.default_rng(0))
        assert (np.linalg.norm(found, axis=1) < 1).all()
        every = torch.from_numpy(found)
        between = distance(every[5:, None].expand(16, 4, 2), every[None, 1:5].expand(16, 4, 2)).numpy()
        assert (between.argmin(axis=1) + 1 == high[4:]).all()
