"""Training of hyperbolic cones (Ganea et al. 2018): Riemannian Adagrad in the Poincare ball, from Poincare embeddings.

A step follows the Riemannian gradient, ((1 - |x|^2) / 2)^2 times the Euclidean one, along a straight line (a retraction
in place of the exponential map, as released), and projects the point back into the ball.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightword.hypernyms.data.pairs import ROUNDS, PairSet
from sightword.hypernyms.training.lazy_adam import sums

Array = NDArray[Any]

EDGE = 1e-5
"""The least distance of a point to both edges (``epsilon`` in the released code)."""
EPOCHS, BURN_IN, RATE, BATCH = 100, 20, 0.03, 10
"""Of the Poincare embeddings, as released: epochs, epochs before with a tenth of the rate, rate, pairs a batch."""
NEGATIVES, POWER = 10, 0.75
"""False hyponyms of a true pair; the burn-in draws them by this power of the number of hyponyms (released code)."""
BLOCK = 10_000
"""Batches whose false hyponyms are drawn together."""
START = 1e-4
"""The largest initial coordinate (Nickel & Kiela 2017, section 3)."""
RESCALE = 0.7
"""The factor from Poincare embeddings to the initial vectors of cones (``resc_vecs`` in the released code)."""


class BallAdagrad:
    """Points of the ball under training by Riemannian Adagrad (Becigneul & Ganea 2019, section 3).

    The step of a point is divided by the root of the sum of its squared Riemannian gradient norms.

    Args:
        values: (rows, width) initial points; copied, and projected.
        rate: the learning rate.
        inner: the least length of a point.
    """

    def __init__(self, values: Array, rate: float, inner: float) -> None:
        self.rate, self.inner = rate, inner
        self._points = project(values, inner)
        self._squares = np.zeros(len(values), values.dtype)
        self.done = 0
        """Steps done."""

    def rows(self, ids: Array | slice) -> Array:
        """Return a copy of (N,) points, (N, width); ``slice(None)`` returns the whole table."""
        found: Array = self._points[ids]
        return found.copy() if isinstance(ids, slice) else found

    def step(self, ids: Array, gradients: Array, points: Array) -> None:
        """Move (N,) distinct points, as :meth:`rows` gives them, by their (N, width) Euclidean gradients."""
        scale = (1 - np.einsum("ij,ij->i", points, points)) / 2
        squares = self._squares[ids] + scale**2 * np.einsum("ij,ij->i", gradients, gradients)
        self._squares[ids] = squares
        factor = self.rate * scale**2 / np.sqrt(np.maximum(squares, np.finfo(squares.dtype).tiny))
        self._points[ids] = project(points - factor[:, None] * gradients, self.inner)
        self.done += 1

    def state(self) -> dict[str, Array]:
        """Return all that must be saved to go on."""
        return {"points": self._points, "squares": self._squares, "done": np.array([self.done])}

    def restore(self, state: dict[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        self._points, self._squares = state["points"].copy(), state["squares"].copy()
        self.done = int(state["done"][0])


def project(points: Array, inner: float = 0.0) -> Array:
    """Return (N, width) points with lengths from ``inner + EDGE`` (or 0) to ``1 - EDGE``."""
    lengths = np.sqrt(np.einsum("ij,ij->i", points, points))
    wanted = np.clip(lengths, inner + EDGE if inner else 0.0, 1 - EDGE)
    found: Array = points * (wanted / np.maximum(lengths, np.finfo(lengths.dtype).tiny))[:, None]
    return found


def poincare(
    pairs: tuple[Array, Array], known: PairSet | None, concepts: int, dimension: int, random: np.random.Generator
) -> Array:
    """Train Poincare embeddings (Nickel & Kiela 2017) by Riemannian SGD, as the released code of Ganea et al. does.

    Args:
        pairs: (N,) hyponyms and (N,) hypernyms of the true pairs.
        known: pairs that are not drawn as false ones.
        concepts: the number of concepts.
        dimension: numbers of a point.
        random: the source of all draws.

    Returns:
        The points, (concepts, dimension), float64.
    """
    points = random.uniform(-START, START, (concepts, dimension))
    popular = np.cumsum((1.0 + np.bincount(pairs[1], minlength=concepts)) ** POWER)
    even = np.arange(1.0, concepts + 1)
    for epoch in range(BURN_IN + EPOCHS):
        rate, shares = (RATE / 10, popular) if epoch < BURN_IN else (RATE, even)
        order = random.permutation(len(pairs[0]))
        for first in range(0, len(order), BATCH * BLOCK):
            low, high = (side[order[first : first + BATCH * BLOCK]] for side in pairs)
            every = np.column_stack([low, low, _draw(high, known, shares, random)])
            for start in range(0, len(low), BATCH):
                above, others = high[start : start + BATCH], every[start : start + BATCH]
                _, by_above, by_others = nearness(points[above], points[others])
                gradients = np.concatenate([by_above, by_others.reshape(-1, dimension)])
                ids, total, _ = sums(np.append(above, others), gradients)
                near = points[ids]
                scale = (1 - np.einsum("ij,ij->i", near, near)) / 2
                points[ids] = project(near - rate * (scale**2)[:, None] * total)
    return points


def nearness(hypernyms: Array, others: Array) -> tuple[float, Array, Array]:
    """Return the loss of Poincare embeddings (Nickel & Kiela 2017, equation 6) and its gradients.

    The loss of a hypernym u with its hyponym v is ``d(u, v) + log sum_w exp -d(u, w)``; v is among the w (released).

    Args:
        hypernyms: (B, width) points u.
        others: (B, 1 + W, width) points; first v, then the w.

    Returns:
        The sum of the losses, and the gradients of ``hypernyms`` and of ``others``.
    """
    difference = hypernyms[:, None] - others
    squares = np.einsum("bnd,bnd->bn", difference, difference)
    inside = 1 - np.einsum("bd,bd->b", hypernyms, hypernyms)[:, None]
    insides = 1 - np.einsum("bnd,bnd->bn", others, others)
    cosh = 1 + 2 * squares / (inside * insides)
    distances = np.arccosh(cosh)
    near = np.exp(-distances[:, 1:])
    total = near.sum(axis=1, keepdims=True)
    loss = float(distances[:, 0].sum() + np.log(total).sum())
    weights = np.concatenate([np.ones_like(total), -near / total], axis=1)
    slope = weights * 4 / (inside * insides * np.sqrt(np.maximum(cosh**2 - 1, 1e-24)))  # 0/0 where points are equal
    first = (slope * squares / inside).sum(axis=1, keepdims=True) * hypernyms
    first += np.einsum("bn,bnd->bd", slope, difference)
    second = (slope * squares / insides)[..., None] * others - slope[..., None] * difference
    return loss, first, second


def _draw(high: Array, known: PairSet | None, shares: Array, random: np.random.Generator) -> Array:
    """Return (B, NEGATIVES - 1) false hyponyms of (B,) hypernyms, by cumulative shares; the true one is the tenth."""
    every = np.repeat(high, NEGATIVES - 1)
    found = np.empty(len(every), np.int32)
    left = np.arange(len(every))
    for _ in range(ROUNDS):
        found[left] = np.searchsorted(shares, random.random(len(left)) * shares[-1])
        if known is not None:
            left = left[known.has(found[left], every[left]) | (found[left] == every[left])]
        if known is None or not len(left):
            break  # a hypernym of all concepts keeps its last draw
    return found.reshape(-1, NEGATIVES - 1)
