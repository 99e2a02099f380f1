"""The recurrent layer: one or two directions over packed rows of any lengths.

On a CPU: gradients by hand, and the two directions in parallel. Elsewhere: PyTorch's function, which is cuDNN's on
CUDA, with both directions in one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from sightword.compute.devices import move
from sightword.compute.threads import side_by_side
from sightword.model.cells import PASSES, Pass, Weights
from sightword.model.layer_norm import LayerNormGru
from sightword.model.packing import Packing
from sightword.model.shape import SavedCellName

Layer = nn.GRU | nn.LSTM | LayerNormGru
LAYERS: dict[str, type[Layer]] = {"gru": nn.GRU, "lstm": nn.LSTM, "layer_norm_gru": LayerNormGru}
PADDED = frozenset({torch.bfloat16})
"""The types in which PyTorch's function gets padded rows, a call for each direction: for packed rows cuDNN has one
algorithm alone, which is slow in these types."""
MOST_PADDED = 4
"""The most positions of padded rows for each line; above it the rows are packed in all types."""


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

    def forward(self, inputs: torch.Tensor, packing: Packing) -> torch.Tensor:
        """Compute the states of packed inputs (N, width): float (N, hidden), or (N, 2 * hidden) with the backward last.

        Under autocast everything is computed in its type.
        """
        kind = inputs.device.type
        inputs = inputs.to(torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else inputs.dtype)
        layers, blocks = self.layers, packing.blocks
        with torch.autocast(kind, enabled=False):
            if normed := [layer for layer in layers if isinstance(layer, LayerNormGru)]:
                sides = zip(normed, (False, True), strict=False)
                own = [layer.packed(inputs, packing.sizes, backwards=back) for layer, back in sides]
                return torch.cat(own, dim=1)
            if kind != "cpu":
                return states_by_torch(layers, inputs, packing.sizes)
            weights = [weight.to(inputs.dtype) for layer in layers for weight in layer.parameters()]
            states: tuple[torch.Tensor, ...] = _Directions.apply(  # type: ignore[no-untyped-call]  # torch gives it no types
                inputs, self.cell, [blocks, blocks[::-1]][: len(layers)], torch.is_grad_enabled(), *weights
            )
            return torch.cat(states, dim=1) if len(states) > 1 else states[0]


def states_by_torch(
    layers: Sequence[nn.RNNBase], lines: torch.Tensor, sizes: Sequence[int], start: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the states of packed lines, (N, H) or (N, 2H), by PyTorch's function on any device, in the lines' type.

    The weights are copied to that type, and autocast is off: torch's autocast computes cuDNN's recurrent layers in
    float16 whatever its type is, and without a scaled loss small gradients become 0 there.

    Args:
        layers: the layer of each direction, all GRUs or all LSTMs.
        lines: the inputs, (N, width).
        sizes: the number of lines of each step (:class:`sightword.model.packing.Packing`).
        start: the initial states (B, H) of one GRU, in the packing's order; zero by default.
    """
    hidden, rows = layers[0].hidden_size, sizes[0]
    first = lines.new_zeros(len(layers), rows, hidden) if start is None else start[None].to(lines.dtype)
    with torch.autocast(lines.device.type, enabled=False):
        if lines.dtype in PADDED and rows * len(sizes) <= MOST_PADDED * len(lines):
            sides = zip(layers, first.split(1), (False, True), strict=False)
            return torch.cat([_padded(layer, lines, sizes, one, backwards=back) for layer, one, back in sides], dim=1)
        options = (_copied(layers, lines.dtype), True, 1, 0.0, torch.is_grad_enabled(), len(layers) == 2)
        if layers[0].mode == "GRU":
            return torch.gru(lines, torch.tensor(sizes), first, *options)[0]
        return torch.lstm(lines, torch.tensor(sizes), (first, torch.zeros_like(first)), *options)[0]


def _copied(layers: Sequence[nn.RNNBase], dtype: torch.dtype) -> list[torch.Tensor]:
    """Return the weights of the layers in a type, in the order of PyTorch's functions."""
    names = ("weight_ih_l0", "weight_hh_l0"), ("bias_ih_l0", "bias_hh_l0")
    kept: list[torch.Tensor] = [getattr(layer, name) for kind in names for layer in layers for name in kind]
    # One buffer in cuDNN's order, all matrices before all biases: any other cuDNN would copy, with a warning.
    buffer = torch.cat([weight.flatten() for weight in kept]).to(dtype)
    sizes_of = [weight.numel() for weight in kept]
    parts = [part.view_as(weight) for part, weight in zip(torch.split(buffer, sizes_of), kept, strict=True)]
    half = 2 * len(layers)
    return [part for place in range(0, half, 2) for at in (place, half + place) for part in parts[at : at + 2]]


def _padded(
    layer: nn.RNNBase, lines: torch.Tensor, sizes: Sequence[int], first: torch.Tensor, *, backwards: bool
) -> torch.Tensor:
    """Return the states (N, H) of one direction, computed over padded rows from initial states (1, B, H)."""
    rows, places = sizes[0], move(_places(sizes, backwards=backwards), lines.device)
    inputs = lines.new_zeros(rows * len(sizes), lines.shape[1]).index_copy(0, places, lines)
    options = (_copied([layer], lines.dtype), True, 1, 0.0, torch.is_grad_enabled(), False, False)
    steps = inputs.view(len(sizes), rows, -1)
    if layer.mode == "GRU":
        states = torch.gru(steps, first, *options)[0]
    else:
        states = torch.lstm(steps, (first, torch.zeros_like(first)), *options)[0]
    found: torch.Tensor = _Taken.apply(states.flatten(0, 1), places)  # type: ignore[no-untyped-call]  # torch gives it no types
    return found


def _places(sizes: Sequence[int], *, backwards: bool) -> torch.Tensor:
    """Return the place ``step * B + row`` of each line in padded rows (T, B), int64 (N,).

    Backwards a row begins with its last line, so that its padding is behind its lines too.
    """
    counts = torch.tensor(sizes)
    steps = torch.repeat_interleave(torch.arange(len(sizes)), counts)
    rows = torch.arange(len(steps)) - (counts.cumsum(0) - counts)[steps]
    if backwards:
        lengths = (counts[:, None] > torch.arange(sizes[0])).sum(dim=0)
        steps = lengths[rows] - 1 - steps
    return steps * sizes[0] + rows


class _Taken(torch.autograd.Function):
    """Lines (N, H) of a matrix at places of which none comes twice: the gradients are copied there, and not added."""

    @staticmethod
    def forward(ctx: Any, states: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(places)
        ctx.shape = states.shape
        return states.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, outer: torch.Tensor) -> tuple[torch.Tensor, None]:
        (places,) = ctx.saved_tensors
        return outer.new_zeros(ctx.shape).index_copy(0, places, outer), None


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
