"""Vectorial self-attention: a softmax over time for each feature (Merkx & Frank 2019, equation 2)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from pipeline.model.packing import Packing
from pipeline.model.threads import side_by_side


class Attention(nn.Module):
    """States over time to one vector for each row, weighted feature by feature.

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
        """Float (.., width) to the same shape."""
        logits: torch.Tensor = self.out(torch.tanh(self.hidden(states)))
        return logits

    def forward(self, states: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Float (B, T, width) and int64 (B,) to float (B, width)."""
        outside = (torch.arange(states.shape[1], device=lengths.device) >= lengths[:, None])[:, :, None]
        states = states.masked_fill(outside, 0.0)  # the states that packed sequences have on padding
        logits = self.logits(states)  # (B, T, width)
        if self.mask_padding:
            logits = logits.masked_fill(outside, float("-inf"))
        return (torch.softmax(logits, dim=1) * states).sum(dim=1)

    def packed(self, states: torch.Tensor, packing: Packing) -> torch.Tensor:
        """The same for states without padding, on a processor: float (N, width) to float32 (B, width).

        Padding that takes part has states of zero, so all of it has one logit: it is counted, not computed.
        """
        logits = self.logits(states)
        outside = None if self.mask_padding else self.logits(states.new_zeros(1, states.shape[1]))[0]
        with torch.autocast("cpu", enabled=False):
            found: torch.Tensor = _Attended.apply(  # type: ignore[no-untyped-call]  # torch gives it no types
                logits, states, packing.blocks, outside, packing.padding
            )
        return found[packing.order.argsort()]


class _Attended(torch.autograd.Function):
    """Softmax-weighted sums over the lines of each row, both halves of the features side by side.

    Arguments: logits (N, D) and states (N, D) of packed lines, their blocks, and where padding
    takes part its logit (D,), and how much of it each row has, int64 (B,).
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
        width = logits.shape[1]
        cuts = [slice(0, width // 2), slice(width // 2, width)]
        sums = [
            _Sums(logits[:, cut], states[:, cut], blocks, None if outside is None else outside[cut], counts)
            for cut in cuts
        ]
        pooled = torch.cat(side_by_side([half.forward for half in sums]), dim=1)
        ctx.halves, ctx.cuts, ctx.shape = sums, cuts, logits.shape
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        d_logits = torch.empty(ctx.shape, dtype=ctx.halves[0].logits.dtype)
        d_states = torch.empty(ctx.shape, dtype=ctx.halves[0].states.dtype)
        works = [
            partial(half.backward, outer[:, cut], d_logits[:, cut], d_states[:, cut])
            for half, cut in zip(ctx.halves, ctx.cuts, strict=True)
        ]
        d_outside = side_by_side(works)
        return d_logits, d_states, None, None if d_outside[0] is None else torch.cat(d_outside), None


class _Sums:
    """Some features' weighted sums, block by block, so that all stays in the cache; sums in float32 at least."""

    def __init__(
        self,
        logits: torch.Tensor,
        states: torch.Tensor,
        blocks: Sequence[slice],
        outside: torch.Tensor | None,
        counts: torch.Tensor,
    ) -> None:
        self.logits, self.states, self.blocks = logits, states, blocks
        self.outside, self.counts = outside, counts

    def forward(self) -> torch.Tensor:
        """The sums: (B, D)."""
        dtype = torch.promote_types(self.logits.dtype, torch.float32)
        size = (self.blocks[0].stop, self.logits.shape[1])
        largest = torch.full(size, float("-inf"), dtype=self.logits.dtype)
        if self.outside is not None:
            largest[self.counts > 0] = self.outside
        for block in self.blocks:
            part = largest[: block.stop - block.start]
            torch.maximum(part, self.logits[block], out=part)
        largest = largest.to(dtype)
        summed, weighted = torch.zeros(size, dtype=dtype), torch.zeros(size, dtype=dtype)
        if self.outside is not None:
            summed += self.counts[:, None] * torch.exp(self.outside.to(dtype) - largest)
            self.padding = summed.clone()
        self.weights = torch.empty(self.logits.shape, dtype=dtype)
        for block in self.blocks:
            rows = block.stop - block.start
            part = torch.sub(self.logits[block].to(dtype), largest[:rows], out=self.weights[block]).exp_()
            summed[:rows].add_(part)
            weighted[:rows].addcmul_(part, self.states[block].to(dtype))
        self.summed, self.pooled = summed, weighted.div_(summed)
        return self.pooled

    def backward(self, outer: torch.Tensor, d_logits: torch.Tensor, d_states: torch.Tensor) -> torch.Tensor | None:
        """Fill the gradients (N, D) of logits and states; return that of the padding's logit (D,)."""
        scale = outer / self.summed
        for block in self.blocks:
            rows = block.stop - block.start
            part = self.weights[block] * scale[:rows]
            d_states[block] = part
            torch.mul(part, self.states[block] - self.pooled[:rows], out=d_logits[block])
        if self.outside is None:
            return None
        return -(self.padding * scale * self.pooled).sum(0).to(self.outside.dtype)
