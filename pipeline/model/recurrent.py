"""A bidirectional recurrent layer over padded rows, exact for every length.

PyTorch's packed sequences are slow to train on a CPU. Two one-way layers over padded
rows give the same states: the forward one never sees what follows a position, and the
backward one reads each row reversed by its own length, so that padding comes last there too.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

CELLS: dict[str, type[nn.GRU | nn.LSTM]] = {"gru": nn.GRU, "lstm": nn.LSTM}


class Bidirectional(nn.Module):
    """One bidirectional GRU or LSTM layer.

    Args:
        width: numbers in each input vector.
        hidden: states of each direction.
        cell: ``gru`` or ``lstm``.
    """

    def __init__(self, width: int, hidden: int, cell: Literal["gru", "lstm"]) -> None:
        super().__init__()
        self.onward = CELLS[cell](width, hidden, batch_first=True)
        self.backward_ = CELLS[cell](width, hidden, batch_first=True)

    def forward(self, inputs: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """States of both directions at every position.

        Args:
            inputs: float (B, T, width), anything beyond a row's length.
            lengths: int64 (B,), each between 1 and T.

        Returns:
            Float (B, T, 2 * hidden); what stands beyond a row's length has no meaning.
        """
        order = reversal(lengths, inputs.shape[1])  # (B, T)
        onward, _ = self.onward(inputs)  # (B, T, hidden)
        backward, _ = self.backward_(_take(inputs, order))
        return torch.cat((onward, _take(backward, order)), dim=2)  # (B, T, 2 * hidden)


def reversal(lengths: torch.Tensor, steps: int) -> torch.Tensor:
    """Positions that reverse each row by its own length and leave the padding in place: int64 (B, steps)."""
    position = torch.arange(steps, device=lengths.device).expand(len(lengths), steps)
    inside = position < lengths[:, None]
    return torch.where(inside, lengths[:, None] - 1 - position, position)


def _take(values: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    return values.gather(1, positions[:, :, None].expand(-1, -1, values.shape[2]))
