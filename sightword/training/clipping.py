"""Gradients that are too long are shortened, by each published system in its own way."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch.nn.utils import clip_grad_norm_

from sightword.model.encoders import Encoders
from sightword.training.settings import TrainSettings

Weights = Sequence[torch.nn.Parameter]


def clip(encoders: Encoders, settings: TrainSettings) -> torch.Tensor:
    """Shorten the gradients of both sides in place, where they are above their limits.

    A gradient g with the limit l becomes ``g * min(1, l / (|g| + 1e-6))``. What is one gradient says ``clip_scope``:
    ``side``, all of a side's weights (Merkx & Frank 2019, released code); ``all``, the weights of both sides (VSE++,
    released code); ``tensor``, each tensor of weights (order-embeddings, released code). What the objective learns is
    of no side and never clipped. All stays on the device, nothing is waited for.

    Args:
        encoders: after the backward pass.
        settings: the scope and both limits; without a limit nothing is changed.

    Returns:
        Float (2,): the norms of the picture side and of the caption side before clipping, whatever the scope.
    """
    images, captions = (
        [weight for weight in side.parameters() if weight.grad is not None]
        for side in (encoders.images, encoders.captions)
    )
    sides = ((images, settings.clip_images), (captions, settings.clip_captions))
    if settings.clip_scope == "side":
        return torch.stack([_shorten(weights, limit) for weights, limit in sides])
    if settings.clip_scope == "tensor":
        return torch.stack([_total([_shorten([weight], limit) for weight in weights]) for weights, limit in sides])
    norms = torch.stack([_total([torch.linalg.vector_norm(_of(w)) for w in weights]) for weights, _ in sides])
    _shorten([*images, *captions], settings.clip_images)  # both limits are the same: the settings see to it
    return norms


def _shorten(weights: Weights, limit: float | None) -> torch.Tensor:
    """Without a limit this multiplies by exactly 1, and tells the norm."""
    return clip_grad_norm_(weights, math.inf if limit is None else limit)


def _total(norms: list[torch.Tensor]) -> torch.Tensor:
    total: torch.Tensor = torch.linalg.vector_norm(torch.stack(norms)) if norms else torch.tensor(0.0)
    return total


def _of(weight: torch.nn.Parameter) -> torch.Tensor:
    assert weight.grad is not None
    return weight.grad
