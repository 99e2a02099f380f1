"""The recurrent layer: one or two directions over rows of any lengths, exact for each.

On a CPU: packed lines, gradients by hand, and the two directions in parallel. Elsewhere: PyTorch's layers over padded
rows; the backward layer reads each row reversed by its own length, so that padding comes last in both directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from sightword.compute.threads import side_by_side
from sightword.model.cells import PASSES, Pass, Weights
from sightword.model.layer_norm import LayerNormGru
from sightword.model.packing import Packing
from sightword.model.shape import SavedCellName

Layer = nn.GRU | nn.LSTM | LayerNormGru
LAYERS: dict[str, type[Layer]] = {"gru": nn.GRU, "lstm": nn.LSTM, "layer_norm_gru": LayerNormGru}


class Recurrent(nn.Module):
    """One recurrent layer.

    Args:
        width: numbers in each input vector.
        hidden: states of each direction.
        cell: ``gru``, ``lstm`` or ``layer_norm_gru``.
        bidirectional: read the rows backwards too.
    """

    def __init__(self, width: int, hidden: int, cell: SavedCellName, *, bidirectional: bool = True) -> None:
        super().__init__()
        self.cell = cell
        self.onward = LAYERS[cell](width, hidden, batch_first=True)
        self.backward_ = LAYERS[cell](width, hidden, batch_first=True) if bidirectional else None

    @property
    def layers(self) -> list[Layer]:
        """The layer of each direction."""
        return [self.onward, *([self.backward_] if self.backward_ is not None else [])]

    def forward(self, inputs: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Compute the states at every position by PyTorch's layers.

        Args:
            inputs: float (B, T, width), with any numbers beyond a row's length.
            lengths: int64 (B,), each between 1 and T.

        Returns:
            float (B, T, hidden), or (B, T, 2 * hidden) with the backward states last; the states beyond a row's length
            have no meaning.
        """
        onward: torch.Tensor = self.onward(inputs)[0]  # (B, T, hidden)
        if self.backward_ is None:
            return onward
        order = reversal(lengths, inputs.shape[1])  # (B, T)
        backward, _ = self.backward_(_take(inputs, order))
        return torch.cat((onward, _take(backward, order)), dim=2)  # (B, T, 2 * hidden)

    def packed(self, inputs: torch.Tensor, packing: Packing) -> torch.Tensor:
        """Compute the states of packed inputs (N, width) on a CPU: float (N, hidden) or (N, 2 * hidden).

        Under autocast everything is computed in its type.
        """
        dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else inputs.dtype
        blocks = packing.blocks
        layers = self.layers
        if normed := [layer for layer in layers if isinstance(layer, LayerNormGru)]:
            with torch.autocast("cpu", enabled=False):
                sides = zip(normed, (False, True), strict=False)
                own = [layer.packed(inputs.to(dtype), packing.sizes, backwards=back) for layer, back in sides]
                return torch.cat(own, dim=1)
        weights = [weight.to(dtype) for layer in layers for weight in layer.parameters()]
        with torch.autocast("cpu", enabled=False):
            states: tuple[torch.Tensor, ...] = _Directions.apply(  # type: ignore[no-untyped-call]  # torch gives it no types
                inputs.to(dtype), self.cell, [blocks, blocks[::-1]][: len(layers)], torch.is_grad_enabled(), *weights
            )
            return torch.cat(states, dim=1) if len(states) > 1 else states[0]


class _Directions(torch.autograd.Function):
    """One or two directions over the same inputs, in parallel."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: torch.Tensor,
        cell: str,
        directions: Sequence[Sequence[slice]],
        keep: bool,
        *weights: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        each = len(weights) // len(directions)
        passes: list[Pass] = [
            PASSES[cell](Weights(*weights[number * each : (number + 1) * each]), blocks)
            for number, blocks in enumerate(directions)
        ]
        ctx.passes = passes
        return tuple(side_by_side([partial(one.forward, inputs, keep=keep) for one in passes], size=passes[0].size))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        works = [partial(one.backward, grad) for one, grad in zip(ctx.passes, outer, strict=True)]
        found = side_by_side(works, size=ctx.passes[0].size)
        inputs = found[0][0] if len(found) == 1 else found[0][0] + found[1][0]
        return inputs, None, None, None, *(weights for _, each in found for weights in each)


def reversal(lengths: torch.Tensor, steps: int) -> torch.Tensor:
    """Return positions, int64 (B, steps), that reverse each row by its own length and leave the padding in place."""
    position = torch.arange(steps, device=lengths.device).expand(len(lengths), steps)
    return torch.where(position < lengths[:, None], lengths[:, None] - 1 - position, position)


def _take(values: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    return values.gather(1, positions[:, :, None].expand(-1, -1, values.shape[2]))
