"""Products of matrices on a CPU, by oneDNN where torch's own library is slower.

torch multiplies float32 by MKL, at half the speed of oneDNN on the AMD EPYC that was measured (benchmarks/RESULTS.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.backends import mkldnn
from torch.nn import functional as F

Product = Callable[[torch.Tensor], torch.Tensor]

ONE_DNN = ("_reorder_linear_weight", "_linear_pointwise", "_is_mkldnn_bf16_supported")
"""Private operators of torch, used where this torch has them."""
LARGE, NARROW = 1 << 26, 64
"""The least multiplications of a large product, and the least columns, below which oneDNN does not pay."""


STEP = 256
"""Lines, or inner numbers, of a product that changes its shape: oneDNN takes multiples of so many."""


def linear(lines: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Return ``lines @ weight.T + bias`` with gradients, as torch does; large products of a training by oneDNN.

    For products of one shape, or few: torch keeps some megabytes for each shape that oneDNN has multiplied.

    Args:
        lines: (.., K).
        weight: (M, K).
        bias: (M,).
    """
    ours = torch.is_grad_enabled() and lines.ndim == 2 and not torch.is_autocast_enabled(lines.device.type)
    if not ours or not _is_large(lines, weight.t()):
        return F.linear(lines, weight, bias)
    found: torch.Tensor = _Linear.apply(lines, weight)  # type: ignore[no-untyped-call]  # torch gives it no type
    return found if bias is None else found.add_(bias)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lines: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(lines, weight)
        return _multiply(lines, weight.t())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        lines, weight = ctx.saved_tensors
        by_lines, by_weight = ctx.needs_input_grad
        return _multiply(outer, weight) if by_lines else None, _multiply(outer.t(), lines) if by_weight else None


def _multiply(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return single_product(left, right.t()) if _is_large(left, right) else left @ right


def _is_large(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Return whether a product of (N, K) and (K, M) is float32, on a CPU, and large."""
    here = left.device.type == "cpu" and left.dtype == right.dtype == torch.float32
    return here and right.shape[1] >= NARROW and left.numel() * right.shape[1] >= LARGE


def repeated_product(weight: torch.Tensor, bias: torch.Tensor | None, rows: int) -> Product:
    """Return the function ``lines -> lines @ weight.T + bias``, for many calls with up to ``rows`` lines.

    Where oneDNN supports the type on this CPU, it lays the weights out once and not at each call.
    """
    if not _one_dnn(weight.dtype):
        return lambda lines: F.linear(lines, weight, bias)
    laid_out = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), rows)
    linear = torch.ops.mkldnn._linear_pointwise
    return lambda lines: linear(lines, laid_out, bias, "none", [], "")


def single_product(lines: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return ``lines @ weight.T``, without a gradient; oneDNN can be twice as fast in float32 as torch's own product.

    Both may be transposed views.
    """
    if lines.device.type != "cpu" or not _one_dnn(lines.dtype):
        return lines @ weight.t()
    found: torch.Tensor = torch.ops.mkldnn._linear_pointwise(lines, weight, None, "none", [], "")
    return found


def varying_product(lines: torch.Tensor, weight: torch.Tensor, *, inner: bool = False) -> torch.Tensor:
    """Return :func:`single_product` where the number of lines, or the ``inner`` size, changes from call to call.

    oneDNN multiplies the part that is a multiple of :data:`STEP`, and torch the rest: torch keeps some megabytes for
    each shape that oneDNN has multiplied.
    """
    size = lines.shape[1] if inner else len(lines)
    whole = size - size % STEP
    if not whole or lines.device.type != "cpu" or not _one_dnn(lines.dtype):
        return lines @ weight.t()
    if inner:
        found = single_product(lines[:, :whole], weight[:, :whole])
        return found.addmm_(lines[:, whole:], weight[:, whole:].t()) if whole < size else found
    found = single_product(lines[:whole], weight)
    return torch.cat([found, lines[whole:] @ weight.t()]) if whole < size else found


def _one_dnn(dtype: torch.dtype) -> bool:
    """Return whether oneDNN multiplies this type here; bfloat16 needs a CPU that has it, or AVX512."""
    there = mkldnn.is_available()  # type: ignore[no-untyped-call]  # torch's own types lack it
    if not there or not all(hasattr(torch.ops.mkldnn, name) for name in ONE_DNN):  # another release may lack them
        return False
    return dtype == torch.float32 or (dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported())
