"""A GRU over packed rows on a CPU, without gradients.

The inputs' part of the gates comes from a table with a line for each distinct token of the batch, and the gates of one
step at a time stay in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import nn

from sightword.compute.threads import side_by_side
from sightword.model.cells import Weights
from sightword.model.packing import Packing
from sightword.model.products import repeated_product


def gru_states(layers: Sequence[nn.GRU], tokens: torch.Tensor, places: torch.Tensor, packing: Packing) -> torch.Tensor:
    """Return the states of one or two directions, float32 (N, H) or (N, 2 * H), as ``Recurrent.packed`` (to 1e-6).

    Args:
        layers: the forward layer, and the backward layer if there is one.
        tokens: float32 (K, width), the embeddings of K tokens.
        places: int64 (N,), the token of each packed line.
        packing: the packing of the batch.
    """
    hidden = layers[0].hidden_size
    states = tokens.new_empty(len(places), hidden * len(layers))
    orders = packing.blocks, packing.blocks[::-1]
    side_by_side(
        [
            partial(_read, layer, tokens, places, order, states[:, number * hidden : (number + 1) * hidden])
            for number, (layer, order) in enumerate(zip(layers, orders, strict=False))
        ],
        size=packing.rows * hidden,
    )
    return states


@torch.inference_mode()  # a thread's own setting
def _read(
    layer: nn.GRU, tokens: torch.Tensor, places: torch.Tensor, blocks: Sequence[slice], states: torch.Tensor
) -> None:
    """Fill in the states (N, H) of one direction, as :class:`sightword.model.cells.GruPass`."""
    weights = Weights(*layer.parameters())
    hidden = layer.hidden_size
    table = torch.addmm(weights.input_bias, tokens, weights.input.t())  # (K, 3H): reset, update, new
    rows = max(block.stop - block.start for block in blocks)
    state = states.new_zeros(rows, hidden)
    product = repeated_product(weights.recurrent, weights.recurrent_bias, rows)
    for block in blocks:
        before = state[: block.stop - block.start]
        from_state = product(before)
        gates = table.index_select(0, places[block])
        reset_update, new = gates[:, : 2 * hidden], gates[:, 2 * hidden :]
        reset_update.add_(from_state[:, : 2 * hidden]).sigmoid_()
        new.addcmul_(reset_update[:, :hidden], from_state[:, 2 * hidden :]).tanh_()
        before.sub_(new).mul_(reset_update[:, hidden:]).add_(new)
        states[block] = before
