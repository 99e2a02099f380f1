"""From the states over time to one vector for each caption."""

from __future__ import annotations

import torch
from torch import nn

from sightword.model.attention import Attention
from sightword.model.shape import Shape


def valid(lengths: torch.Tensor, steps: int) -> torch.Tensor:
    """True where a row has text and false on its padding: bool (B, steps)."""
    return torch.arange(steps, device=lengths.device) < lengths[:, None]


class Max(nn.Module):
    """The largest value of each feature over time."""

    def forward(self, states: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Float (B, T, width) and int64 (B,) to float (B, width)."""
        outside = ~valid(lengths, states.shape[1])[:, :, None]
        return states.masked_fill(outside, float("-inf")).amax(dim=1)


class Mean(nn.Module):
    """The mean of each feature over time."""

    def forward(self, states: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Float (B, T, width) and int64 (B,) to float (B, width)."""
        outside = ~valid(lengths, states.shape[1])[:, :, None]
        return states.masked_fill(outside, 0.0).sum(dim=1) / lengths[:, None]


class Last(nn.Module):
    """The state where each direction has read the whole row.

    Args:
        bidirectional: the second half of a state has read backwards.
    """

    def __init__(self, *, bidirectional: bool = True) -> None:
        super().__init__()
        self.bidirectional = bidirectional

    def forward(self, states: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Float (B, T, width) and int64 (B,) to float (B, width)."""
        rows = torch.arange(len(states), device=states.device)
        if not self.bidirectional:
            return states[rows, lengths - 1]
        half = states.shape[2] // 2
        return torch.cat((states[rows, lengths - 1, :half], states[:, 0, half:]), dim=1)


def pooling(shape: Shape, *, empty: bool = False) -> nn.Module:
    """Return the pooling that the shape names; ``empty``: its weights have no memory."""
    if shape.pooling == "attention":
        return Attention(shape.width, shape.attention, mask_padding=shape.mask_padding, empty=empty)
    if shape.pooling == "last":
        return Last(bidirectional=shape.bidirectional)
    return {"max": Max, "mean": Mean}[shape.pooling]()
