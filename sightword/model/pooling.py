"""The poolings: from the states over time to one vector for each caption."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from sightword.model.packing import Packing
from sightword.model.shape import RecurrentShape


class Attention(nn.Module):
    """The weighted mean of the states of each row: vectorial self-attention (Merkx & Frank 2019, section 3.1.2).

    The weights are a softmax over time for each feature.

    Args:
        width: features of a state.
        hidden: units of the hidden layer.
        mask_padding: give padding no weight; the released code gives it some.
    """

    def __init__(self, width: int, hidden: int, *, mask_padding: bool) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, hidden)
        self.out = nn.Linear(hidden, width)
        self.mask_padding = mask_padding

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Map states, float (.., width), to the logarithms of their weights, of the same shape."""
        logits: torch.Tensor = self.out(torch.tanh(self.hidden(states)))
        return logits

    def forward(self, states: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Pool states, float (B, T, width), of rows with int64 (B,) lengths to float (B, width)."""
        outside = (torch.arange(states.shape[1], device=lengths.device) >= lengths[:, None])[:, :, None]
        states = states.masked_fill(outside, 0.0)  # the states that packed sequences have on padding
        logits = self.logits(states)  # (B, T, width)
        if self.mask_padding:
            logits = logits.masked_fill(outside, float("-inf"))
        return (torch.softmax(logits, dim=1) * states).sum(dim=1)

    def packed(self, states: torch.Tensor, packing: Packing) -> torch.Tensor:
        """Pool packed states, float (N, width), on a CPU to float32 (B, width).

        Unmasked padding has states of zero and therefore one logit: it is counted, not computed.
        """
        logits = self.logits(states)
        outside = None if self.mask_padding else self.logits(states.new_zeros(1, states.shape[1]))[0]
        with torch.autocast("cpu", enabled=False):
            found: torch.Tensor = _Attended.apply(  # type: ignore[no-untyped-call]  # torch gives it no types
                logits, states, packing.blocks, outside, packing.padding
            )
        return found[packing.order.argsort()]


class _Attended(torch.autograd.Function):
    """Softmax-weighted sums over the lines of each row, block by block, so that all stays in the cache.

    Arguments: logits (N, D) and states (N, D) of packed lines, their blocks, the logit of padding (D,) or None for
    masked padding, and the amount of padding of each row, int64 (B,). Sums are float32 at least.
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits: torch.Tensor,
        states: torch.Tensor,
        blocks: Sequence[slice],
        outside: torch.Tensor | None,
        counts: torch.Tensor,
    ) -> torch.Tensor:
        dtype = torch.promote_types(logits.dtype, torch.float32)
        size = (blocks[0].stop, logits.shape[1])
        largest = torch.full(size, float("-inf"), dtype=logits.dtype)
        if outside is not None:
            largest[counts > 0] = outside
        for block in blocks:
            part = largest[: block.stop - block.start]
            torch.maximum(part, logits[block], out=part)
        largest = largest.to(dtype)
        summed, weighted = torch.zeros(size, dtype=dtype), torch.zeros(size, dtype=dtype)
        padding = None
        if outside is not None:
            summed += counts[:, None] * torch.exp(outside.to(dtype) - largest)
            padding = summed.clone()
        weights = torch.empty(logits.shape, dtype=dtype)
        for block in blocks:
            rows = block.stop - block.start
            part = torch.sub(logits[block].to(dtype), largest[:rows], out=weights[block]).exp_()
            summed[:rows].add_(part)
            weighted[:rows].addcmul_(part, states[block].to(dtype))
        pooled = weighted.div_(summed)
        ctx.save_for_backward(logits, states, outside, padding, weights, summed, pooled)
        ctx.blocks = blocks
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        logits, states, outside, padding, weights, summed, pooled = ctx.saved_tensors
        d_logits, d_states = torch.empty_like(logits), torch.empty_like(states)
        scale = outer / summed
        for block in ctx.blocks:
            rows = block.stop - block.start
            part = weights[block] * scale[:rows]
            d_states[block] = part
            torch.mul(part, states[block] - pooled[:rows], out=d_logits[block])
        d_outside = None if outside is None else -(padding * scale * pooled).sum(0).to(outside.dtype)
        return d_logits, d_states, None, d_outside, None


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
