"""Gradient clipping, in the way of each published system."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch.nn.utils import clip_grad_norm_

from sightword.model.encoders import Encoders
from sightword.vse.training.settings import TrainSettings


def clip(encoders: Encoders, settings: TrainSettings) -> torch.Tensor:
    """Clip the gradients of both sides in place.

    A gradient g with the limit l becomes ``g * min(1, l / (|g| + 1e-6))``. ``clip_scope`` decides which weights share
    one norm: all of a ``side`` (Merkx & Frank 2019, released code), ``all`` weights of both sides (VSE++, released
    code), or each ``tensor`` (order-embeddings, released code). The parameters of the objective are never clipped.
    Nothing waits for the device.

    Args:
        encoders: the network after the backward pass.
        settings: scope and limits; without a limit nothing changes.

    Returns:
        float (2,): the norms of the picture side and of the caption side before clipping, in every scope.
    """
    images, captions = (
        [weight for weight in side.parameters() if weight.grad is not None]
        for side in (encoders.images, encoders.captions)
    )
    sides = ((images, settings.clip_images), (captions, settings.clip_captions))
    if settings.clip_scope == "tensor":
        parts = [torch.stack([_shorten([weight], limit) for weight in weights]) for weights, limit in sides]
        return torch.stack([torch.linalg.vector_norm(norms) for norms in parts])
    shared = settings.clip_scope == "all"
    found = torch.stack([_shorten(weights, None if shared else limit) for weights, limit in sides])
    if shared:
        _shorten([*images, *captions], settings.clip_images)  # both limits are the same: the settings see to it
    return found


def _shorten(weights: Sequence[torch.nn.Parameter], limit: float | None) -> torch.Tensor:
    """Clip the gradients of some weights together, and return their norm; None leaves them as they are."""
    if limit is None and weights:
        norms = torch._foreach_norm([one.grad for one in weights if one.grad is not None])
        whole: torch.Tensor = torch.linalg.vector_norm(torch.stack(norms))
        return whole
    return clip_grad_norm_(weights, math.inf if limit is None else limit)
