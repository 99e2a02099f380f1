"""Adam over the rows of a table, exactly as over the dense table, at the cost of the rows in use.

A batch has gradients for a few rows; dense Adam moves all others too, since their first moment is not yet zero. A row
that is idle after step s moves, by step s + k, by ``rate m / sqrt(v) * sum_{j=1..k} r^j c_{s+j}`` with r = b1 /
sqrt(b2) and c_t = sqrt(1 - b2^t) / (1 - b1^t). With ``tail[s] = sum_{j>=1} r^j c_{s+j}`` the sum is ``tail[s] - r^k
tail[s+k]``: a row is moved when it is read. Clamping at zero after the move equals clamping after each step, since the
move has one direction.

Dense Adam adds ``epsilon`` to the root, which decays while the row is idle. The move uses ``sqrt(v) + epsilon rho`` in
place of ``sqrt(v)``, rho = tail2 / tail, where tail2 has the ratio b1 / b2 and (1 - b2^t) / (1 - b1^t): exact to first
order in epsilon / sqrt(v), and exact for a negligible epsilon.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

B1, B2 = 0.9, 0.999
_BEYOND = 2000
"""Steps after the last one that the sums of the tails include; 0.9^2000 is 0 in float64's precision."""


class LazyAdam:
    """A table under training.

    Args:
        values: (rows, width) initial values, float32 or float64; copied.
        rate: the learning rate.
        steps: the largest number of steps.
        epsilon: of Adam.
        nonnegative: clamp all values at zero after each step, and at the start.
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
        found: Array = near[:, self.width :] * moved.astype(near.dtype)[:, None]
        np.subtract(near[:, : self.width], found, out=found)
        return np.maximum(found, 0, out=found) if self.nonnegative else found

    def step(self, ids: Array, gradients: Array, values: Array) -> None:
        """Do one step of Adam on the whole table.

        Args:
            ids: (N,) distinct rows with gradients; all others have the gradient 0.
            gradients: (N, width).
            values: (N, width), what :meth:`rows` gives for these rows; changed.
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
    """Plain Adam on one small array, with the same constants.

    Args:
        values: the initial values; copied.
        rate: the learning rate.
        epsilon: of Adam.
    """

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


def _tails(ratio: float, factors: Array) -> Array:
    """Return ``sum_{j>=1} ratio^j factors[t + j]`` for each t."""
    found = np.zeros_like(factors)
    for place in range(len(factors) - 2, -1, -1):
        found[place] = ratio * (factors[place + 1] + found[place + 1])
    return found


def sums(rows: Array, gradients: Array) -> tuple[Array, Array, Array]:
    """Return the distinct rows in order, the sum of the gradients of each, and the first place of each."""
    if not len(rows):
        return rows, gradients, np.arange(0)
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return ordered[first], np.add.reduceat(gradients.take(order, axis=0), first, axis=0), order[first]
