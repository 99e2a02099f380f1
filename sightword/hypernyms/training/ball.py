"""The Poincare ball: an optimiser for points in it, and Poincare embeddings, from which hyperbolic cones start.

A step follows the Riemannian gradient, which is ((1 - |x|^2) / 2)^2 times the Euclidean one, along a straight line (a
retraction in place of the exponential map, as in the released code of Ganea et al. 2018), and then projects the point
back into the ball.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightword.hypernyms.data.corruption import ROUNDS, PairSet

Array = NDArray[Any]

EDGE = 1e-5
"""The least distance of a point to both edges (``epsilon`` in the released code of Ganea et al.)."""
NEGATIVES, POWER = 10, 0.75
"""The false hyponyms of a true pair, in the burn-in drawn by the power of the number of hyponyms (released code)."""
BLOCK = 10_000
"""Batches whose false hyponyms are drawn together."""
START = 1e-4
"""The largest initial coordinate of :func:`poincare` (Nickel & Kiela 2017, section 3)."""


class BallAdagrad:
    """Points of the ball under training by Riemannian Adagrad (Becigneul & Ganea 2019, section 3): the step of a point
    is divided by the root of the sum of its squared Riemannian gradient norms. Points without a gradient stay.

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


def sums(rows: Array, gradients: Array) -> tuple[Array, Array, Array]:
    """Return the distinct rows in order, the sum of the gradients of each, and the first place of each."""
    if not len(rows):
        return rows, gradients, np.arange(0)
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return ordered[first], np.add.reduceat(gradients.take(order, axis=0), first, axis=0), order[first]


def poincare(
    pairs: tuple[Array, Array],
    known: PairSet | None,
    concepts: int,
    dimension: int,
    *,
    epochs: int,
    burn_in: int,
    rate: float,
    batch: int,
    random: np.random.Generator,
) -> Array:
    """Train Poincare embeddings (Nickel & Kiela 2017) by Riemannian SGD, as the released code of Ganea et al. does.

    The burn-in has a tenth of the rate, and draws false hyponyms by the number of their hyponyms; after the burn-in all
    concepts are drawn evenly.

    Args:
        pairs: (N,) hyponyms and (N,) hypernyms of the true pairs.
        known: pairs that are not drawn as false ones.
        concepts: the number of concepts.
        dimension: numbers of a point.
        epochs: passes through the pairs after the burn-in.
        burn_in: passes through the pairs before.
        rate: the learning rate.
        batch: true pairs in a batch.
        random: the source of all draws.

    Returns:
        The points, (concepts, dimension), float64.
    """
    points = random.uniform(-START, START, (concepts, dimension))
    popular = np.cumsum((1.0 + np.bincount(pairs[1], minlength=concepts)) ** POWER)
    even = np.arange(1.0, concepts + 1)
    for epoch in range(burn_in + epochs):
        now, shares = (rate / 10, popular) if epoch < burn_in else (rate, even)
        order = random.permutation(len(pairs[0]))
        for first in range(0, len(order), batch * BLOCK):
            low, high = (side[order[first : first + batch * BLOCK]] for side in pairs)
            every = np.column_stack([low, low, _draw(high, known, shares, random)])
            for start in range(0, len(low), batch):
                above, others = high[start : start + batch], every[start : start + batch]
                _, by_above, by_others = nearness(points[above], points[others])
                ids, total, _ = sums(
                    np.append(above, others), np.concatenate([by_above, by_others.reshape(-1, dimension)])
                )
                near = points[ids]
                scale = (1 - np.einsum("ij,ij->i", near, near)) / 2
                points[ids] = project(near - now * (scale**2)[:, None] * total)
    return points


def nearness(hypernyms: Array, others: Array) -> tuple[float, Array, Array]:
    """Return the loss of Poincare embeddings (Nickel & Kiela 2017, equation 6) and its gradients.

    The loss of a hypernym u with its hyponym v is ``d(u, v) + log sum_w exp -d(u, w)``; the released code of Ganea et
    al. has v among the w.

    Args:
        hypernyms: (B, width) points u.
        others: (B, 1 + W, width) points; first v, then the w.

    Returns:
        The sum of the losses, and the gradients of ``hypernyms`` and of ``others``.
    """
    difference = hypernyms[:, None] - others
    squares = np.einsum("bnd,bnd->bn", difference, difference)
    below = 1 - np.einsum("bd,bd->b", hypernyms, hypernyms)[:, None]
    beside = 1 - np.einsum("bnd,bnd->bn", others, others)
    cosh = 1 + 2 * squares / (below * beside)
    distances = np.arccosh(cosh)
    near = np.exp(-distances[:, 1:])
    total = near.sum(axis=1, keepdims=True)
    loss = float(distances[:, 0].sum() + np.log(total).sum())
    weights = np.concatenate([np.ones_like(total), -near / total], axis=1)
    slope = weights * 4 / (below * beside * np.sqrt(np.maximum(cosh**2 - 1, 1e-24)))  # 0/0 where both points are one
    first = (slope * squares / below).sum(axis=1, keepdims=True) * hypernyms
    first += np.einsum("bn,bnd->bd", slope, difference)
    second = (slope * squares / beside)[..., None] * others - slope[..., None] * difference
    return loss, first, second


def _draw(high: Array, known: PairSet | None, shares: Array, random: np.random.Generator) -> Array:
    """Return (B, NEGATIVES - 1) false hyponyms of (B,) hypernyms; the released code has the true one as the tenth.

    ``shares`` are the concepts' shares of the draws, added up.
    """
    count = NEGATIVES - 1
    every = np.repeat(high, count)
    found = np.empty(len(every), np.int32)
    left = np.arange(len(every))
    for _ in range(ROUNDS):
        found[left] = np.searchsorted(shares, random.random(len(left)) * shares[-1])
        if known is not None:
            left = left[known.has(found[left], every[left]) | (found[left] == every[left])]
        if known is None or not len(left):
            break  # a hypernym of all concepts keeps its last draw
    return found.reshape(-1, count)
