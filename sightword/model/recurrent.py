"""The recurrent layer: one or two directions over packed rows of any lengths.

On a CPU: gradients by hand, and the two directions in parallel. Elsewhere: PyTorch's function, which is cuDNN's on
CUDA, with both directions in one call; in bfloat16 over padded rows, with a recorded call for each direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from sightword.compute.devices import side_by_side
from sightword.model.cells import PASSES, Pass, Weights
from sightword.model.layer_norm import LayerNormGru
from sightword.model.packing import Packing, Places
from sightword.model.recorded import recorded
from sightword.model.shape import SavedCellName

Layer = nn.GRU | nn.LSTM | LayerNormGru
LAYERS: dict[str, type[Layer]] = {"gru": nn.GRU, "lstm": nn.LSTM, "layer_norm_gru": LayerNormGru}
PADDED = frozenset({torch.bfloat16})
"""The types in which a GPU computes a step faster than a host starts its kernels. PyTorch's function then gets padded
rows, in a call for each direction, since only such a call can be recorded."""
MOST_PADDED = 4
"""The most positions for each line, in rows padded to the longest; above it the rows are packed in all types."""
NAMES = ("weight_ih_l0", "weight_hh_l0"), ("bias_ih_l0", "bias_hh_l0")
"""The weights of a layer: matrices and biases."""


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
            return _padded_states(layers, lines, sizes, first)
        weights, counts = _parts(layers, _buffer(layers, lines.dtype)), torch.tensor(sizes)
        options = (weights, True, 1, 0.0, torch.is_grad_enabled(), len(layers) == 2)
        if layers[0].mode == "GRU":
            return torch.gru(lines, counts, first, *options)[0]
        return torch.lstm(lines, counts, (first, torch.zeros_like(first)), *options)[0]


def _buffer(layers: Sequence[nn.RNNBase], dtype: torch.dtype) -> torch.Tensor:
    """Return all weights in a type, in cuDNN's order, all matrices before all biases: any other cuDNN would copy."""
    kept = [getattr(layer, name).flatten() for kind in NAMES for layer in layers for name in kind]
    return torch.cat(kept).to(dtype)


def _parts(layers: Sequence[nn.RNNBase], buffer: torch.Tensor) -> list[torch.Tensor]:
    """Return the weights that a buffer holds, in the order of PyTorch's functions."""
    shapes = [getattr(layer, name).shape for kind in NAMES for layer in layers for name in kind]
    split = torch.split(buffer, [shape.numel() for shape in shapes])
    parts = [part.view(shape) for part, shape in zip(split, shapes, strict=True)]
    half = 2 * len(layers)
    return [part for place in range(0, half, 2) for at in (place, half + place) for part in parts[at : at + 2]]


def _padded_states(
    layers: Sequence[nn.RNNBase], lines: torch.Tensor, sizes: Sequence[int], first: torch.Tensor
) -> torch.Tensor:
    """Return the states (N, H) or (N, 2H) by a call over padded rows for each direction.

    Args:
        layers: the layer of each direction.
        lines: the inputs, (N, width).
        sizes: the number of lines of each step.
        first: the initial states, (layers, B, H).
    """
    found = []
    for layer, start, backwards in zip(layers, first[:, None], (False, True), strict=False):
        places, steps, rows = Places.of(sizes, lines.device, backwards=backwards)
        inputs = places.spread(lines).view(steps, rows, -1)
        states = recorded(_direction, layer)(inputs, start, _buffer([layer], lines.dtype))
        found.append(places.gather(states.flatten(0, 1)))
    return torch.cat(found, dim=1)


def _direction(layer: nn.RNNBase, inputs: torch.Tensor, first: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
    """Return the states (T, B, H) of a layer with the weights of a buffer."""
    options = (_parts([layer], buffer), True, 1, 0.0, torch.is_grad_enabled(), False, False)
    if layer.mode == "GRU":
        return torch.gru(inputs, first, *options)[0]
    return torch.lstm(inputs, (first, torch.zeros_like(first)), *options)[0]


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
