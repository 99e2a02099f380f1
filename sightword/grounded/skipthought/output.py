"""The output layer and its loss in one: the softmax over all words, without keeping a logit.

The logits of a block of lines become their own gradient while they are in the cache, and are multiplied with the states
and the weights at once. A backward pass only scales these gradients.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from sightword.model.products import varying_product

BYTES, ELSEWHERE = 32_000_000, 1_000_000_000
"""Bytes of the logits of a block of lines on a CPU, and elsewhere."""
COLUMNS = 1024
"""Words whose weights are multiplied together on a CPU; elsewhere all are."""
CACHE = 500_000
"""Bytes of the logits of the lines whose softmax is computed together on a CPU: half a core's own cache."""


def output_loss(
    states: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    targets: torch.Tensor,
    scale: torch.Tensor,
    *,
    rows: int | None = None,
    columns: int | None = None,
) -> torch.Tensor:
    """Return the sum over N lines of ``scale`` times the cross-entropy of a linear layer's logits: a scalar.

    Products are computed in the type of the states, sums and the softmax in float32 at least.

    Args:
        states: (N, H).
        weight: of the layer, (V, H).
        bias: of the layer, (V,).
        targets: the right word of each line, int64 (N,).
        scale: the factor of each line's loss, (N,).
        rows: lines in a block; by default as many as fit in the bytes of the device.
        columns: words in a slice of the weights; by default those of the device.
    """
    cpu = states.device.type == "cpu"
    if rows is None:
        rows = max(1, (BYTES if cpu else ELSEWHERE) // (len(weight) * states.element_size()))
    if columns is None:
        columns = COLUMNS if cpu else len(weight)
    keep = torch.is_grad_enabled()
    loss: torch.Tensor = _OutputLoss.apply(states, weight, bias, targets, scale, rows, columns, keep)  # type: ignore[no-untyped-call]  # torch gives it no type
    return loss


class _OutputLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        targets: torch.Tensor,
        scale: torch.Tensor,
        rows: int,
        columns: int,
        keep: bool,
    ) -> torch.Tensor:
        dtype, wide = states.dtype, weight.dtype
        slices = [slice(start, min(start + columns, len(weight))) for start in range(0, len(weight), columns)]
        losses = torch.empty(len(states), dtype=wide, device=states.device)
        if keep:
            d_states = torch.empty_like(states)
            d_weight, d_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        logits = states.new_empty(min(rows, len(states)), len(weight))
        for start in range(0, len(states), rows):
            lines = slice(start, start + rows)
            block = states[lines]
            own = logits[: len(block)]
            for part in slices:
                torch.add(varying_product(block, weight[part].to(dtype)), bias[part], out=own[:, part])
            losses[lines] = _to_gradients(own, targets[lines], scale[lines], d_bias if keep else None)
            if not keep:
                continue
            back = torch.zeros(block.shape, dtype=wide, device=block.device)
            for part in slices:
                back += varying_product(own[:, part], weight[part].to(dtype).t())
                d_weight[part] += varying_product(own[:, part].t(), block.t(), inner=True)
            d_states[lines] = back
        if keep:
            ctx.save_for_backward(d_states, d_weight, d_bias)
        return losses.sum(dtype=torch.float64).to(wide)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        gradients = ctx.saved_tensors
        if outer.device.type != "cpu" or outer != 1:  # to ask would wait for a GPU
            gradients = [values * outer for values in gradients]
        return *gradients, None, None, None, None, None


def _to_gradients(
    logits: torch.Tensor, targets: torch.Tensor, scale: torch.Tensor, total: torch.Tensor | None
) -> torch.Tensor:
    """Return the losses of some lines (R,), and replace their logits (R, V) by the gradient of the sum of the losses.

    On a CPU the lines are taken a few at a time, so that all steps find them in the cache. The gradients' sum is added
    to ``total`` (V,); without it the logits become useless.
    """
    wide = scale.dtype
    losses = torch.empty(len(logits), dtype=wide, device=logits.device)
    cpu = logits.device.type == "cpu"
    rows = max(1, CACHE // (logits.shape[1] * losses.element_size())) if cpu else len(logits)
    for start in range(0, len(logits), rows):
        lines = slice(start, start + rows)
        values = logits[lines].to(wide)  # of the same type: a view
        target, factor = targets[lines, None], scale[lines, None]
        values.sub_(values.amax(1, keepdim=True))
        right = values.gather(1, target)
        sums = values.exp_().sum(1, keepdim=True)
        losses[lines] = (factor * (sums.log() - right))[:, 0]
        if total is not None:
            values.mul_(factor / sums).scatter_add_(1, target, -factor)
            total += values.sum(0)
            if values.dtype != logits.dtype:
                logits[lines] = values
    return losses
