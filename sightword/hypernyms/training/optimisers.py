"""Optimisers of tables of vectors: Adam at the cost of the rows in use, and Riemannian descent in the Poincare ball.

:class:`LazyAdam` equals Adam over the dense table.

A batch has gradients for a few rows; dense Adam moves all others too, since their first moment is not yet zero. A row
that is idle after step s moves, by step s + k, by ``rate m / sqrt(v) * sum_{j=1..k} r^j c_{s+j}`` with r = b1 /
sqrt(b2) and c_t = sqrt(1 - b2^t) / (1 - b1^t). With ``tail[s] = sum_{j>=1} r^j c_{s+j}`` the sum is ``tail[s] - r^k
tail[s+k]``: a row is moved when it is read. Clamping at zero after the move equals clamping after each step, since the
move has one direction.

Dense Adam adds ``epsilon`` to the root, which decays while the row is idle. The move uses ``sqrt(v) + epsilon rho`` in
place of ``sqrt(v)``, rho = tail2 / tail, where tail2 has the ratio b1 / b2 and (1 - b2^t) / (1 - b1^t): exact to first
order in epsilon / sqrt(v), and exact for a negligible epsilon.

A step in the ball follows the Riemannian gradient, ((1 - |x|^2) / 2)^2 times the Euclidean one, along a straight line
(a retraction in place of the exponential map, as released), and projects the point back into the ball.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightword.hypernyms.data.pairs import ROUNDS, PairSet

Array = NDArray[Any]

B1, B2 = 0.9, 0.999
_BEYOND = 2000
"""Steps after the last one that the sums of the tails include; 0.9^2000 is 0 in float64's precision."""
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


class LazyAdam:
    """A table under training from a copy of (rows, width) values, float32 or float64, for at most so many steps.

    With ``nonnegative`` all values are clamped at zero after each step, and at the start.
    """

    def __init__(self, values: Array, rate: float, steps: int, *, epsilon: float, nonnegative: bool = False) -> None:
        self.rate, self.epsilon, self.nonnegative = rate, epsilon, nonnegative
        self.width = values.shape[1]
        # values and the direction of the idle move side by side, so that one look-up finds both
        self._near = np.concatenate([values, np.zeros_like(values)], axis=1)
        if nonnegative:
            np.maximum(self._near, 0, out=self._near)
        self._moments = np.zeros_like(self._near)
        self._last = np.zeros(len(values), np.int32)
        self.done = 0
        """Steps done."""
        time = np.arange(steps + _BEYOND + 2, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            first, second = 1 - B1**time, 1 - B2**time
            self._tail = _tails(B1 / np.sqrt(B2), np.sqrt(second) / first)[: steps + 2]
            self._rho = _tails(B1 / B2, second / first)[: steps + 2] / self._tail
        self._decay = (B1 / np.sqrt(B2)) ** np.arange(steps + 2)
        self._powers = np.stack([B1 ** np.arange(steps + 2), B2 ** np.arange(steps + 2)])

    def rows(self, ids: Array | slice) -> Array:
        """Return the present values of (N,) rows, (N, width); ``slice(None)`` returns the whole table."""
        # take copies rows at twice the speed of an index
        near = self._near[ids] if isinstance(ids, slice) else self._near.take(ids, axis=0)
        last = self._last[ids]
        moved = self._tail[last] - self._decay[self.done - last] * self._tail[self.done]
        values: Array = near[:, self.width :] * moved.astype(near.dtype)[:, None]
        np.subtract(near[:, : self.width], values, out=values)
        return np.maximum(values, 0, out=values) if self.nonnegative else values

    def step(self, ids: Array, gradients: Array, values: Array) -> None:
        """Do a step of Adam on the whole table.

        (N,) distinct rows have gradients (N, width), all others the gradient 0; ``values`` (N, width) are those that
        :meth:`rows` gives, and are changed.
        """
        width, now = self.width, self.done + 1
        moments = self._moments.take(ids, axis=0)
        idle = now - self._last[ids]
        m, v = moments[:, :width], moments[:, width:]
        decay = self._powers[:, idle].astype(m.dtype)
        m *= decay[0][:, None]
        m += (1 - B1) * gradients
        v *= decay[1][:, None]
        v += (1 - B2) * np.square(gradients)
        self._moments[ids] = moments
        root = np.sqrt(v)
        second = np.sqrt(1 - B2**now)
        values -= (self.rate * second / (1 - B1**now)) * (m / (root + self.epsilon * second))
        if self.nonnegative:
            np.maximum(values, 0, out=values)
        root += self.epsilon * self._rho[now]
        self._near[ids] = np.concatenate([values, self.rate * (m / root)], axis=1)
        self._last[ids] = now
        self.done = now

    def state(self) -> dict[str, Array]:
        """Return all that must be saved to go on."""
        return {"near": self._near, "moments": self._moments, "last": self._last, "done": np.array([self.done])}

    def restore(self, state: dict[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        self._near, self._moments, self._last = (state[name].copy() for name in ("near", "moments", "last"))
        self.done = int(state["done"][0])


class Adam:
    """Plain Adam on a copy of a small array, with the same constants."""

    def __init__(self, values: Array, rate: float, epsilon: float) -> None:
        self.values, self.rate, self.epsilon = values.copy(), rate, epsilon
        self._m, self._v = np.zeros_like(values), np.zeros_like(values)

    def step(self, gradient: Array, now: int) -> None:
        """Do the step number ``now``, counted from 1."""
        self._m += (1 - B1) * (gradient - self._m)
        self._v += (1 - B2) * (np.square(gradient) - self._v)
        root = np.sqrt(self._v / (1 - B2**now)) + self.epsilon
        self.values -= self.rate / (1 - B1**now) * self._m / root

    def state(self) -> dict[str, Array]:
        """Return all that must be saved to go on."""
        return {"values": self.values, "m": self._m, "v": self._v}

    def restore(self, state: dict[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        self.values, self._m, self._v = (state[name].copy() for name in ("values", "m", "v"))


class BallAdagrad:
    """Points of the ball, no shorter than ``inner``, under Riemannian Adagrad (Becigneul & Ganea 2019, section 3).

    The step of a point is divided by the root of the sum of its squared Riemannian gradient norms.
    """

    def __init__(self, values: Array, rate: float, inner: float) -> None:
        self.rate, self.inner = rate, inner
        self._points = project(values, inner)
        self._squares = np.zeros(len(values), values.dtype)
        self.done = 0
        """Steps done."""

    def rows(self, ids: Array | slice) -> Array:
        """Return a copy of (N,) points, (N, width); ``slice(None)`` returns the whole table."""
        values: Array = self._points[ids]
        return values.copy() if isinstance(ids, slice) else values

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
    projected: Array = points * (wanted / np.maximum(lengths, np.finfo(lengths.dtype).tiny))[:, None]
    return projected


def poincare(
    pairs: tuple[Array, Array], known: PairSet | None, concepts: int, dimension: int, random: np.random.Generator
) -> Array:
    """Train Poincare embeddings (Nickel & Kiela 2017) by Riemannian SGD, as the released code of Ganea et al. does.

    ``pairs`` are (N,) hyponyms and hypernyms; pairs in ``known`` are not drawn as false ones. Return the points,
    (concepts, dimension), float64.
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
    """Return the summed loss of Poincare embeddings (Nickel & Kiela 2017, equation 6) and the gradients of both sides.

    The loss of a hypernym u with its hyponym v is ``d(u, v) + log sum_w exp -d(u, w)``; v is among the w (released).
    The points u are (B, width); ``others`` (B, 1 + W, width) are first v, then the w.
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
    drawn = np.empty(len(every), np.int32)
    left = np.arange(len(every))
    for _ in range(ROUNDS):
        drawn[left] = np.searchsorted(shares, random.random(len(left)) * shares[-1])
        if known is not None:
            left = left[known.has(drawn[left], every[left]) | (drawn[left] == every[left])]
        if known is None or not len(left):
            break  # a hypernym of all concepts keeps its last draw
    return drawn.reshape(-1, NEGATIVES - 1)


def _tails(ratio: float, factors: Array) -> Array:
    """Return ``sum_{j>=1} ratio^j factors[t + j]`` for each t."""
    tails = np.zeros_like(factors)
    for place in range(len(factors) - 2, -1, -1):
        tails[place] = ratio * (factors[place + 1] + tails[place + 1])
    return tails


def sums(rows: Array, gradients: Array) -> tuple[Array, Array, Array]:
    """Return the distinct rows in order, the sum of the gradients of each, and the first place of each."""
    if not len(rows):
        return rows, gradients, np.arange(0)
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return ordered[first], np.add.reduceat(gradients.take(order, axis=0), first, axis=0), order[first]
