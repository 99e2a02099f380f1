"""Batch norm with the following addition and ReLU as one kernel of a GPU, which rounds to bfloat16 once.

torch reads and writes a tensor for each of the three. The kernel computes in float32. It is written in Triton, which
torch's builds for CUDA bring along.
"""

from __future__ import annotations

import functools
import logging
import subprocess

import torch
from torch import nn

try:
    import triton
    from triton import language as tl
except ImportError:
    triton = None

log = logging.getLogger(__name__)

ROWS, CHANNELS = 64, 64
"""The part of a tensor (pixels, channels) that a program of the kernel computes."""

if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator]  # Triton has no types
    def _affine(  # type: ignore[no-untyped-def]  # Triton would read the types
        x, residual, scale, shift, out, rows, channels, x_step, residual_step, out_step,
        add: tl.constexpr, relu: tl.constexpr, height: tl.constexpr, width: tl.constexpr,
    ):  # fmt: skip
        columns = tl.cdiv(channels, width)
        channel = tl.program_id(0) % columns * width + tl.arange(0, width)[None, :]
        row = (tl.program_id(0) // columns).to(tl.int64) * height + tl.arange(0, height)[:, None]
        wide = channel < channels
        there = (row < rows) & wide
        found = tl.load(x + row * x_step + channel, mask=there, other=0.0).to(tl.float32)
        found = found * tl.load(scale + channel, mask=wide, other=0.0) + tl.load(shift + channel, mask=wide, other=0.0)
        if add:
            found += tl.load(residual + row * residual_step + channel, mask=there, other=0.0).to(tl.float32)
        if relu:
            found = tl.where(found < 0, 0.0, found)  # NaN stays
        tl.store(out + row * out_step + channel, found.to(out.dtype.element_ty), mask=there)


@functools.cache
def usable(device: torch.device) -> bool:
    """Return whether a GPU runs the kernel: Triton needs a C compiler, and a GPU with bfloat16."""
    if triton is None:
        return False
    one = torch.ones((1, 1, 1, 1), device=device)
    try:
        with torch.cuda.device(device):
            _launch(one, None, one.flatten(), one.flatten(), one.bfloat16(), relu=True)
    except (OSError, RuntimeError, subprocess.CalledProcessError, triton.TritonError) as error:
        log.warning("%s: Triton does not work (%s): features in bfloat16 take longer", device, error)
        return False
    return True


class FusedNorm(nn.Module):
    """A batch norm at inference with the following addition and ReLU, in one kernel."""

    scale: torch.Tensor
    shift: torch.Tensor

    def __init__(self, norm: nn.BatchNorm2d, *, relu: bool) -> None:
        super().__init__()
        assert norm.running_mean is not None
        assert norm.running_var is not None
        scale = (norm.running_var.double() + norm.eps).rsqrt()
        scale = scale if norm.weight is None else scale * norm.weight.detach().double()
        shift = -norm.running_mean.double() * scale
        shift = shift if norm.bias is None else shift + norm.bias.detach().double()
        self.register_buffer("scale", scale.float())
        self.register_buffer("shift", shift.float())
        self.relu = relu

    def forward(self, x: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
        """Return the norm of x (B, C, H, W), plus the residual, as bfloat16, channels last in memory."""
        together = residual is None or residual.shape == x.shape
        out = torch.empty(x.shape, dtype=torch.bfloat16, device=x.device, memory_format=torch.channels_last)
        _launch(x, residual if together else None, self.scale, self.shift, out, relu=self.relu and together)
        if residual is None or together:
            return out
        total = out + residual
        return total.relu_() if self.relu else total


def _launch(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    scale: torch.Tensor,
    shift: torch.Tensor,
    out: torch.Tensor,
    *,
    relu: bool,
) -> None:
    """Write ``x * scale + shift``, with a residual and a ReLU, to ``out``, which is channels last in memory."""
    rows, channels = x.shape[0] * x.shape[2] * x.shape[3], x.shape[1]
    grid = (triton.cdiv(channels, CHANNELS) * triton.cdiv(rows, ROWS),)  # of two axes the second ends at 65,535
    x = _laid_out(x)
    other = x if residual is None else _laid_out(residual)
    _affine[grid](
        x, other, scale, shift, out, rows, channels, _step(x), _step(other), _step(out),
        add=residual is not None, relu=relu, height=ROWS, width=CHANNELS,
    )  # fmt: skip


def _step(x: torch.Tensor) -> int:
    """Return the distance between neighbouring pixels in memory, in numbers."""
    return x.stride(3) if x.shape[3] > 1 else x.stride(2) if x.shape[2] > 1 else x.stride(0)


def _laid_out(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor that is channels last, or some channels of such a tensor; a copy if need be."""
    step, (_, _, height, width) = _step(x), x.shape
    wanted = (step * height * width, 1, step * width, step)
    right = all(size < 2 or own == want for size, own, want in zip(x.shape, x.stride(), wanted, strict=True))
    return x if right else x.contiguous(memory_format=torch.channels_last)


def begin(first: torch.Tensor, channels: int) -> torch.Tensor:
    """Return memory (B, channels, H, W), bfloat16, whose first channels are those of the first tensor (B, C, H, W)."""
    size = (first.shape[0], channels, *first.shape[2:])
    memory = torch.empty(size, dtype=torch.bfloat16, device=first.device, memory_format=torch.channels_last)
    return write(memory, first, 0)


def write(memory: torch.Tensor, part: torch.Tensor, start: int) -> torch.Tensor:
    """Write a tensor (B, C, H, W) to the channels from ``start``; returns the memory."""
    memory[:, start : start + part.shape[1]] = part
    return memory
