"""From the states over time to one vector for each caption."""

from __future__ import annotations

import torch
from torch import nn

from pipeline.model.settings import ModelSettings


def valid(lengths: torch.Tensor, steps: int) -> torch.Tensor:
    """True where a row has text and false on its padding: bool (B, steps)."""
    return torch.arange(steps, device=lengths.device) < lengths[:, None]


class Attention(nn.Module):
    """Vectorial self-attention (Merkx & Frank 2019, equation 2): a softmax over time for each feature.

    Args:
        width: features of a state.
        hidden: units of the hidden layer.
        mask_padding: give padding no weight; the released code does.
    """

    def __init__(self, width: int, hidden: int, *, mask_padding: bool) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, hidden)
        self.out = nn.Linear(hidden, width)
        self.mask_padding = mask_padding

    def forward(self, states: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Float (B, T, width) and int64 (B,) to float (B, width)."""
        outside = ~valid(lengths, states.shape[1])[:, :, None]
        states = states.masked_fill(outside, 0.0)  # the states that packed sequences have on padding
        logits = self.out(torch.tanh(self.hidden(states)))  # (B, T, width)
        if self.mask_padding:
            logits = logits.masked_fill(outside, float("-inf"))
        return (torch.softmax(logits, dim=1) * states).sum(dim=1)


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
    """The state where each direction has read the whole row."""

    def forward(self, states: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Float (B, T, width) and int64 (B,) to float (B, width)."""
        half = states.shape[2] // 2
        rows = torch.arange(len(states), device=states.device)
        return torch.cat((states[rows, lengths - 1, :half], states[:, 0, half:]), dim=1)


def pooling(settings: ModelSettings) -> nn.Module:
    """The pooling that the settings name, for states of both directions."""
    width = 2 * settings.hidden
    if settings.pooling == "attention":
        return Attention(width, settings.attention, mask_padding=settings.mask_padding)
    return {"max": Max, "mean": Mean, "last": Last}[settings.pooling]()
