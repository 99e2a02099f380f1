"""Batch norm with the following addition and ReLU as one kernel of a GPU, and DenseNet's blocks without ``torch.cat``.

A side of `gpu_features.py`. In bfloat16 a convolutional network waits for memory: torch reads and writes a tensor for
the norm, for the addition, for the ReLU and, in DenseNet, for each concatenation of all earlier results. Here a kernel
of Triton computes in float32 and rounds once, and the results of a dense block are written side by side. What enters
the first block stays float32, as the first convolution does. Without a GPU the same is computed by plain torch.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch
from torch import fx, nn

from sightword.features import fusion

try:
    import triton
    from triton import language as tl
except ImportError:  # torch for CPUs comes without it
    triton = None

ROWS, CHANNELS = 64, 64
"""The part of a tensor (pixels, channels) that a program of the kernel computes."""

if triton is not None:

    @triton.jit
    def _affine(
        x, residual, scale, shift, out, rows, channels, x_step, residual_step, out_step,
        add: tl.constexpr, relu: tl.constexpr, height: tl.constexpr, width: tl.constexpr,
    ):  # fmt: skip
        channel = tl.program_id(0) * width + tl.arange(0, width)[None, :]
        row = tl.program_id(1).to(tl.int64) * height + tl.arange(0, height)[:, None]
        wide = channel < channels
        there = (row < rows) & wide
        found = tl.load(x + row * x_step + channel, mask=there, other=0.0).to(tl.float32)
        found = found * tl.load(scale + channel, mask=wide, other=0.0) + tl.load(shift + channel, mask=wide, other=0.0)
        if add:
            found += tl.load(residual + row * residual_step + channel, mask=there, other=0.0).to(tl.float32)
        if relu:
            found = tl.where(found < 0, 0.0, found)  # NaN stays
        tl.store(out + row * out_step + channel, found.to(out.dtype.element_ty), mask=there)


def affine(
    x: torch.Tensor,
    scale: torch.Tensor,
    shift: torch.Tensor,
    residual: torch.Tensor | None,
    out: torch.Tensor,
    *,
    relu: bool,
) -> None:
    """Write ``x * scale + shift``, with a residual and a ReLU, to ``out``.

    Args:
        x: (B, C, H, W) like the residual and ``out``: channels last in memory, or some channels of such a tensor.
        scale: float32 (C,), like ``shift``.
        shift: added after the product.
        residual: added before the ReLU.
        out: overwritten.
        relu: whether negative numbers become 0.
    """
    if x.device.type != "cuda" and not _interpreted():
        found = x.float() * scale[:, None, None] + shift[:, None, None]
        found = found if residual is None else found + residual.float()
        out.copy_(found.relu() if relu else found)
        return
    rows, channels = x.shape[0] * x.shape[2] * x.shape[3], x.shape[1]
    grid = (triton.cdiv(channels, CHANNELS), triton.cdiv(rows, ROWS))
    x = x if _is_laid_out(x) else x.contiguous(memory_format=torch.channels_last)
    other = x if residual is None else residual
    other = other if _is_laid_out(other) else other.contiguous(memory_format=torch.channels_last)
    steps = (_step(x), _step(other), _step(out))
    _affine[grid](
        x, other, scale, shift, out, rows, channels, *steps,
        add=residual is not None, relu=relu, height=ROWS, width=CHANNELS,
    )  # fmt: skip


@functools.cache
def _interpreted() -> bool:
    return triton is not None and type(_affine).__name__ == "InterpretedFunction"


def _step(x: torch.Tensor) -> int:
    """Return the numbers from a pixel to the next."""
    return x.stride(3) if x.shape[3] > 1 else x.stride(2) if x.shape[2] > 1 else x.stride(0)


def _is_laid_out(x: torch.Tensor) -> bool:
    """Return whether a tensor is channels last, or some channels of such a tensor."""
    step, (_, _, height, width) = _step(x), x.shape
    wanted = (step * height * width, 1, step * width, step)
    return all(size < 2 or own == right for size, own, right in zip(x.shape, x.stride(), wanted, strict=True))


Pieces = tuple[torch.Tensor, ...]
"""Tensors (B, C, H, W) whose channels stand one after the other."""


class Norm(nn.Module):
    """A batch norm of pieces, with the following addition and ReLU."""

    scale: torch.Tensor
    shift: torch.Tensor

    def __init__(self, norm: nn.BatchNorm2d, *, relu: bool, dtype: torch.dtype) -> None:
        super().__init__()
        assert norm.running_mean is not None
        assert norm.running_var is not None
        scale = (norm.running_var.double() + norm.eps).rsqrt()
        scale = scale if norm.weight is None else scale * norm.weight.detach().double()
        shift = -norm.running_mean.double() * scale
        shift = shift if norm.bias is None else shift + norm.bias.detach().double()
        self.register_buffer("scale", scale.float())
        self.register_buffer("shift", shift.float())
        self.relu, self.dtype = relu, dtype

    def forward(self, x: torch.Tensor | Pieces, residual: torch.Tensor | None = None) -> torch.Tensor:
        """Return the norm of all channels."""
        pieces = (x,) if isinstance(x, torch.Tensor) else x
        count, _, height, width = pieces[0].shape
        size = (count, len(self.scale), height, width)
        out = torch.empty(size, dtype=self.dtype, device=pieces[0].device, memory_format=torch.channels_last)
        at = 0
        for piece in pieces:
            if len(pieces) == 1:
                affine(piece, self.scale, self.shift, residual, out, relu=self.relu)
                break
            end = at + piece.shape[1]
            affine(piece, self.scale[at:end], self.shift[at:end], None, out[:, at:end], relu=self.relu)
            at = end
        return out


def begin(first: torch.Tensor, others: int) -> tuple[torch.Tensor | None, torch.Tensor, int]:
    """Return a float32 piece apart, the memory of all other channels, bfloat16, and how many are written."""
    apart, own = (first, 0) if first.dtype == torch.float32 else (None, first.shape[1])
    size = (first.shape[0], own + others, *first.shape[2:])
    memory = torch.empty(size, dtype=torch.bfloat16, device=first.device, memory_format=torch.channels_last)
    if own:
        memory[:, :own] = first
    return apart, memory, own


def append(
    block: tuple[torch.Tensor | None, torch.Tensor, int], new: torch.Tensor
) -> tuple[torch.Tensor | None, torch.Tensor, int]:
    """Write the next channels."""
    apart, memory, at = block
    memory[:, at : at + new.shape[1]] = new
    return apart, memory, at + new.shape[1]


def written(block: tuple[torch.Tensor | None, torch.Tensor, int]) -> Pieces:
    """Return the pieces that are written."""
    apart, memory, at = block
    there = (memory[:, :at],) if at else ()
    return there if apart is None else (apart, *there)


def ready(network: nn.Module, *, precision: str, device: torch.device) -> nn.Module:
    """Do what :func:`sightword.features.fusion.ready` does on a GPU in bfloat16, with one kernel for each norm."""
    assert precision == "bf16"
    first = next(name for name, module in network.named_modules() if isinstance(module, nn.Conv2d))
    traced = fusion._trace(network)
    if traced is None:
        raise ValueError("the network cannot be traced")
    dense = _join(traced)
    _replace(traced, first, torch.float32 if dense else torch.bfloat16)
    traced.graph.lint()
    traced.delete_all_unused_submodules()
    traced.recompile()
    for name, module in list(traced.named_modules()):
        if name == first:
            traced.set_submodule(name, fusion.FullConvolution(module))
        elif isinstance(module, nn.Conv2d | nn.Linear):
            module.to(torch.bfloat16)
    traced.to(device=device, memory_format=torch.channels_last)
    return traced.eval()


def _join(traced: fx.GraphModule) -> bool:
    """Write results that are concatenated again and again side by side; returns whether there are any."""
    modules, found = dict(traced.named_modules()), False
    groups: dict[fx.Node, list[fx.Node]] = {}
    for node in traced.graph.nodes:
        if node.target is torch.cat and node.op == "call_function" and (node.args[1:] or (0,))[0] == 1:
            groups.setdefault(node.args[0][0], []).append(node)
    for start, cats in groups.items():
        parts = list(max((cat.args[0] for cat in cats), key=len))
        normed = all(isinstance(fusion._module(user, modules), nn.BatchNorm2d) for cat in cats for user in cat.users)
        convolutions = [fusion._module(part, modules) for part in parts[1:]]
        same = all(list(cat.args[0]) == parts[: len(cat.args[0])] for cat in cats)
        if len(cats) < 3 or not (same and normed and all(isinstance(one, nn.Conv2d) for one in convolutions)):
            continue
        found = True
        with traced.graph.inserting_after(start):
            block = traced.graph.call_function(begin, (start, sum(one.out_channels for one in convolutions)))
        blocks = [block]
        for part in parts[1:]:
            with traced.graph.inserting_after(part):
                block = traced.graph.call_function(append, (block, part))
            blocks.append(block)
        for cat in cats:
            with traced.graph.inserting_before(cat):
                cat.replace_all_uses_with(traced.graph.call_function(written, (blocks[len(cat.args[0]) - 1],)))
            traced.graph.erase_node(cat)
    return found


def _replace(traced: fx.GraphModule, first: str, stem: torch.dtype) -> None:
    """Replace batch norms, with the following addition and ReLU."""
    modules = dict(traced.named_modules())
    for node in list(traced.graph.nodes):
        norm = fusion._module(node, modules)
        if not isinstance(norm, nn.BatchNorm2d):
            continue
        before = node.args[0]
        last, residual = fusion._added(node, modules)
        after = fusion._only_user(last)
        if relu := fusion._is_relu(after, modules):
            last = after
        dtype = stem if before.target == first else torch.bfloat16
        modules[str(node.target)] = made = Norm(norm, relu=relu, dtype=dtype)
        traced.set_submodule(str(node.target), made)
        if last is not node:
            with traced.graph.inserting_before(last):
                arguments: tuple[Any, ...] = (before,) if residual is None else (before, residual)
                fused = traced.graph.call_module(str(node.target), arguments)
            last.replace_all_uses_with(fused)
    for node in reversed(traced.graph.nodes):  # `eliminate_dead_code` would also do, but trusts no function
        known = node.op == "call_module" or node.target in (operator.add, operator.iadd, *fusion._RELUS)
        if known and not node.users:
            traced.graph.erase_node(node)
