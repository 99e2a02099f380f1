"""A GRU over the words of some sentences, from any initial states: states at the real positions only.

A word that comes several times in a batch is multiplied with the input weights once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from sightword.compute.devices import move
from sightword.model.cells import GruPass, Weights
from sightword.model.layer_norm import LayerNormGru
from sightword.model.packing import Packing
from sightword.model.products import varying_product
from sightword.model.recurrent import states_by_torch


def gru_states(
    layer: nn.GRU | LayerNormGru,
    words: torch.Tensor,
    places: torch.Tensor,
    packing: Packing,
    start: torch.Tensor | None,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Return the states at the N real positions of B sentences, (N, H).

    Args:
        layer: one layer in one direction.
        words: the vectors of K words, (K, width).
        places: for each real position its word, int64 (N,), in the order of ``packing``.
        packing: the places of the positions.
        start: the initial states (B, H), in the order of the sentences; zero by default.
        dtype: the type to compute in.
    """
    first = None if start is None else start.index_select(0, move(packing.order, start.device)).to(dtype)
    if isinstance(layer, LayerNormGru):
        return layer.packed(words.to(dtype), packing.sizes, places=places, start=first)
    if words.device.type != "cpu":
        return states_by_torch([layer], words.index_select(0, places).to(dtype), packing.sizes, first)
    weights = [weight.to(dtype) for weight in layer.parameters()]
    blocks, keep = packing.blocks, torch.is_grad_enabled()
    found: torch.Tensor = _Reading.apply(words.to(dtype), places, first, blocks, keep, *weights)  # type: ignore[no-untyped-call]  # torch gives it no type
    return found


def last_states(states: torch.Tensor, packing: Packing) -> torch.Tensor:
    """Return the last state of each sentence, (B, H), in the order of the sentences, from states (N, H)."""
    starts = torch.tensor([block.start for block in packing.blocks])
    lengths = packing.steps - packing.padding  # from the longest sentence to the shortest
    lines = torch.empty_like(packing.order)
    lines[packing.order] = starts[lengths - 1] + torch.arange(packing.rows)
    return states.index_select(0, move(lines, states.device))


class _Pass(GruPass):
    """Multiplies each of K different words (K, width) once; ``places`` (N,) says which word a line has."""

    def __init__(
        self, weights: Weights, blocks: Sequence[slice], start: torch.Tensor | None, places: torch.Tensor
    ) -> None:
        super().__init__(weights, blocks, start)
        self.places = places

    def gates(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the inputs' part of the gates: (N, 3H)."""
        table = varying_product(inputs, self.weights.input).add_(self.weights.input_bias)
        return table.index_select(0, self.places)

    def gradients(
        self, inputs: torch.Tensor, before: torch.Tensor, by_inputs: torch.Tensor, by_states: torch.Tensor
    ) -> tuple[torch.Tensor, Weights]:
        """Return the gradients of the words (K, width) and the weights."""
        hidden = self.hidden
        wide = torch.promote_types(by_inputs.dtype, torch.float32)
        sums = torch.zeros(len(inputs), 3 * hidden, dtype=wide).index_add_(0, self.places, by_inputs.to(wide))
        by_words = sums.roll(-hidden, 1).to(inputs.dtype)  # reset, update, new
        return varying_product(by_words, self.weights.input.t()), Weights(
            varying_product(by_words.t(), inputs.t(), inner=True),
            varying_product(by_states.t(), before.t(), inner=True),
            by_words.sum(0),
            by_states.sum(0),
        )


class _Reading(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        words: torch.Tensor,
        places: torch.Tensor,
        start: torch.Tensor | None,
        blocks: Sequence[slice],
        keep: bool,
        *weights: torch.Tensor,
    ) -> torch.Tensor:
        ctx.reading = _Pass(Weights(*weights), blocks, start, places)
        states: torch.Tensor = ctx.reading.forward(words, keep=keep)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        words, weights = ctx.reading.backward(outer)
        start = None if ctx.reading.start is None else ctx.reading.start_gradient
        return words, None, start, None, None, *weights
