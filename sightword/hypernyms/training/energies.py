"""The energies of pairs (hyponym, hypernym): low for true pairs. Each has its loss and its initial vectors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cosine_similarity

Array = NDArray[Any]
Weights = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Gradients:
    """The loss of a batch and its gradients; rows that are not listed have the gradient 0."""

    loss: float
    rows: Array  # (A,) places in the batch
    low: Array  # (A, width) for the hyponyms
    high: Array  # (A, width) for the hypernyms
    weights: dict[str, Array]


@dataclass(frozen=True)
class Energy:
    """An energy with the hinge loss of Vendrov et al. (2016), equation 4: E for true pairs, max(0, margin - E) for
    false ones.
    """

    dimension: int
    margin: float = 1.0
    slack: float = 0.0
    nonnegative = False
    """Whether the vectors are clamped at zero."""
    vectors = 1
    """The vectors of a concept, side by side: two for a gaussian."""

    def start(self, concepts: int, init: float, random: np.random.Generator) -> Array:
        """Return the initial (concepts, width) vectors, float32."""
        return init * random.standard_normal((concepts, self.dimension), np.float32)

    def weights(self, random: np.random.Generator) -> dict[str, Array]:
        """Return the initial weights that all pairs share."""
        del random
        return {}

    def energy(self, low: torch.Tensor, high: torch.Tensor, weights: Weights, /) -> torch.Tensor:
        """Return the energies (N,) of hyponyms (N, width) with hypernyms (N, width)."""
        raise NotImplementedError

    def losses(self, true: torch.Tensor, false: torch.Tensor) -> torch.Tensor:
        """Return the losses (2B,) of the energies (B,) of true pairs and of their corrupted pairs."""
        return torch.cat([true, (self.margin - false).clamp(min=0)])

    def scores(self, low: Array, high: Array, weights: Mapping[str, Array], /) -> Array:
        """Return the energies (N,) without gradients; an axis of one row is repeated."""
        with torch.no_grad():
            energies: Array = self.energy(torch.from_numpy(low), torch.from_numpy(high), _tensors(weights)).numpy()
        return energies

    def gradients(self, low: Array, high: Array, weights: Mapping[str, Array], /) -> Gradients:
        """Return the gradients of the mean loss of 2B pairs (2B, width), true ones first, then the corrupted ones."""
        first, second = (torch.from_numpy(side).requires_grad_() for side in (low, high))
        shared = {name: value.requires_grad_() for name, value in _tensors(weights).items()}
        energies = self.energy(first, second, shared)
        half = len(low) // 2
        losses = self.losses(energies[:half], energies[half:])
        loss = losses.mean()
        gradients = torch.autograd.grad(loss, [first, second, *shared.values()])
        down, up, *rest = (gradient.numpy() for gradient in gradients)
        rows = np.flatnonzero((down != 0).any(axis=1) | (up != 0).any(axis=1))
        return Gradients(loss.item(), rows, down[rows], up[rows], dict(zip(shared, rest, strict=True)))


class Order(Energy):
    """``|max(0, hypernym - hyponym)|^2`` of nonnegative vectors (Vendrov et al. 2016, equation 2)."""

    nonnegative = True

    def energy(self, low: torch.Tensor, high: torch.Tensor, _: Weights) -> torch.Tensor:
        """As :meth:`Energy.energy`."""
        return (high - low).clamp(min=0).square().sum(-1)

    def scores(self, low: Array, high: Array, _: Mapping[str, Array]) -> Array:
        """As :meth:`Energy.scores`."""
        violation = np.subtract(high, low)
        np.maximum(violation, 0, out=violation)
        energies: Array = np.einsum("ij,ij->i", violation, violation)
        return energies

    def gradients(self, low: Array, high: Array, _: Mapping[str, Array]) -> Gradients:
        """As :meth:`Energy.gradients`, by formula: ten times as fast as automatic differentiation."""
        violation = np.subtract(high, low)
        np.maximum(violation, 0, out=violation)
        energies = np.einsum("ij,ij->i", violation, violation)
        half = len(low) // 2
        short = np.maximum(self.margin - energies[half:], 0)
        scale = 1 / len(low)
        loss = float((energies[:half].sum(dtype=np.float64) + short.sum(dtype=np.float64)) * scale)
        costs = energies > 0
        costs[half:] &= short > 0
        rows = np.flatnonzero(costs)
        gradient = violation[rows]
        gradient *= np.where(rows < half, 2 * scale, -2 * scale).astype(low.dtype)[:, None]
        return Gradients(loss, rows, -gradient, gradient, {})


class Symmetric(Energy):
    """``(1 - cosine) / 2``, the symmetric baseline of Vendrov et al. (2016)."""

    def energy(self, low: torch.Tensor, high: torch.Tensor, _: Weights) -> torch.Tensor:
        """As :meth:`Energy.energy`."""
        return (1 - cosine_similarity(low, high, dim=-1)) / 2


class Bilinear(Energy):
    """``- hyponym^T W hypernym``, after Socher et al. (2013), with the ranking loss ``max(0, margin + E - E')``."""

    def weights(self, random: np.random.Generator) -> dict[str, Array]:
        """As :meth:`Energy.weights`."""
        shape = (self.dimension, self.dimension)
        return {"matrix": random.standard_normal(shape, np.float32) / np.float32(self.dimension)}

    def energy(self, low: torch.Tensor, high: torch.Tensor, weights: Weights) -> torch.Tensor:
        """As :meth:`Energy.energy`."""
        return -((low @ weights["matrix"]) * high).sum(-1)

    def losses(self, true: torch.Tensor, false: torch.Tensor) -> torch.Tensor:
        """As :meth:`Energy.losses`, one loss for each true pair with its corrupted pair."""
        return (self.margin + true - false).clamp(min=0)


class Gaussian(Energy):
    """``max(0, KL(hyponym || hypernym) - slack)`` of normal distributions with diagonal covariance (Athiwaratkun &
    Wilson 2018, section 3); a vector has the means, then the logarithms of the variances.
    """

    vectors = 2

    def start(self, concepts: int, init: float, random: np.random.Generator) -> Array:
        """As :meth:`Energy.start`; all variances begin at 1."""
        means = init * random.standard_normal((concepts, self.dimension), np.float32)
        return np.concatenate([means, np.zeros_like(means)], axis=1)

    def energy(self, low: torch.Tensor, high: torch.Tensor, _: Weights) -> torch.Tensor:
        """As :meth:`Energy.energy`."""
        (mean, spread), (other, wide) = low.chunk(2, dim=-1), high.chunk(2, dim=-1)
        terms = torch.exp(spread - wide) + (mean - other).square() * torch.exp(-wide) - 1 + wide - spread
        return (terms.sum(-1) / 2 - self.slack).clamp(min=0)


class Cone(Energy):
    """``max(0, angle - aperture)`` of hyperbolic entailment cones (Ganea et al. 2018, equations 28 to 33, K = 0.1).

    A vector is a point of the Poincare ball outside of the ball of radius :attr:`inner`.
    """

    K = 0.1
    inner = 2 * K / (1 + math.sqrt(1 + 4 * K * K))
    """The radius below which a cone is not defined."""
    clip = 1e-7
    """The least distance of cosine and sine to their ends, as released: their angles have no slope there."""

    def start(self, concepts: int, init: float, random: np.random.Generator) -> Array:
        """As :meth:`Energy.start`; lengths from ``inner`` to ``inner + init / 2``, the latter as in the released code
        if ``init`` is 1.
        """
        directions = super().start(concepts, 1.0, random)
        lengths = self.inner + init / 2 * random.random((concepts, 1), np.float32)
        points: Array = directions / np.linalg.norm(directions, axis=1, keepdims=True) * lengths
        return points

    def energy(self, low: torch.Tensor, high: torch.Tensor, _: Weights) -> torch.Tensor:
        """As :meth:`Energy.energy`: the hyponym lies in the cone of the hypernym."""
        xx, yy, xy = (high * high).sum(-1), (low * low).sum(-1), (high * low).sum(-1)
        apart = (high - low).square().sum(-1)
        below = (xx * apart * (1 + xx * yy - 2 * xy)).clamp(min=1e-12).sqrt()
        cosine = (xy * (1 + xx) - xx * (1 + yy)) / below
        angle = torch.acos(cosine.clamp(-1 + self.clip, 1 - self.clip))
        aperture = torch.asin((self.K * (1 - xx) / xx.sqrt()).clamp(max=1 - self.clip))
        return (angle - aperture).clamp(min=0)


ENERGIES: dict[str, type[Energy]] = {
    "order": Order, "symmetric": Symmetric, "bilinear": Bilinear, "gaussian": Gaussian, "cone": Cone
}  # fmt: skip


def _tensors(weights: Mapping[str, Array]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(value) for name, value in weights.items()}
