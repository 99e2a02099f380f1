"""The poolings: from the states over time to one vector for each caption."""

from __future__ import annotations

import torch
from torch import nn

from sightword.model.attention import Attention
from sightword.model.shape import RecurrentShape


class Plain(nn.Module):
    """A pooling without weights.

    Args:
        name: ``max`` or ``mean`` of each feature over time, or ``last``, the state where each direction has read the
            whole row.
        bidirectional: the second half of a state has read backwards.
    """

    def __init__(self, name: str, *, bidirectional: bool = True) -> None:
        super().__init__()
        self.name, self.bidirectional = name, bidirectional

    def forward(self, states: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Pool states, float (B, T, width), of rows with int64 (B,) lengths to float (B, width)."""
        if self.name == "last":
            rows = torch.arange(len(states), device=states.device)
            half = states.shape[2] // 2 if self.bidirectional else states.shape[2]
            return torch.cat((states[rows, lengths - 1, :half], states[:, 0, half:]), dim=1)
        outside = (torch.arange(states.shape[1], device=lengths.device) >= lengths[:, None])[:, :, None]
        if self.name == "max":
            return states.masked_fill(outside, float("-inf")).amax(dim=1)
        return states.masked_fill(outside, 0.0).sum(dim=1) / lengths[:, None]


def pooling(shape: RecurrentShape) -> nn.Module:
    """Return the pooling that the shape names."""
    if shape.pooling == "attention":
        return Attention(shape.width, shape.attention, mask_padding=shape.mask_padding)
    return Plain(shape.pooling, bidirectional=shape.bidirectional)
