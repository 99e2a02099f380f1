"""The error of order-embeddings for all pairs of two blocks: ``sum_d max(0, c_d - i_d)^2``.

It has no form as a product of matrices. Taking the dimensions one after another, a
tile of pairs at a time, keeps the work in the processor's cache. Fused, so that a
pair's sum never leaves a register, it costs about twice a matrix product; in plain
operations, which need no C++ compiler, about eight times. Both work in float64.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from functools import cache

import torch
from torch.nn.functional import pad

log = logging.getLogger(__name__)

Kernel = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Adds the error over some dimensions to ``total`` (n, m), from captions (n, d) and pictures (d, m)."""

_WORTH_COMPILING = 4e9
"""Pairs times dimensions from which compiling, some seconds, takes less time than it saves."""
_PLAIN_TILE = 256
_FUSED_TILE = 512
_STEP = 16
"""Dimensions that one call of the fused kernel adds: enough to be worth reading and writing the sums."""


def errors(captions: torch.Tensor, images: torch.Tensor, fused: Kernel | None) -> torch.Tensor:
    """The error of each caption with each picture, 0 where the picture is above the caption in all dimensions.

    Args:
        captions: float64 (n, D).
        images: float64 (m, D).
        fused: what :func:`compiled` gave.

    Returns:
        float64 (n, m). A pair's error does not depend on the tile it lies in.
    """
    tile, kernel = (_FUSED_TILE, fused) if fused else (_PLAIN_TILE, plain)
    n, m = len(captions), len(images)
    if fused:  # one shape and layout only, since another would be compiled anew; more zeros change no sum
        more = -captions.shape[1] % _STEP
        captions, images = pad(captions, (0, more, 0, -n % tile)), pad(images, (0, more, 0, -m % tile))
    steps = captions.shape[1] // _STEP if fused else 1
    parts = captions.reshape(len(captions), steps, -1).transpose(0, 1).contiguous()  # (steps, n, dimensions of a step)
    found = captions.new_empty(n, m)
    for left in range(0, m, tile):
        columns = images[left : left + tile].T.contiguous().reshape(steps, captions.shape[1] // steps, -1)
        for top in range(0, n, tile):
            total = captions.new_zeros(len(captions[top : top + tile]), columns.shape[2])
            for rows, others in zip(parts[:, top : top + tile], columns, strict=True):
                total = kernel(total, rows, others)
            place = found[top : top + tile, left : left + tile]
            place.copy_(total[: place.shape[0], : place.shape[1]])
    return found


def plain(total: torch.Tensor, captions: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    """A :data:`Kernel` of plain operations; changes ``total``."""
    excess = torch.empty_like(total)
    for column, row in zip(captions.T.contiguous(), images, strict=True):
        torch.sub(column[:, None], row, out=excess).clamp_min_(0)
        total.addcmul_(excess, excess)
    return total


def _unrolled(total: torch.Tensor, captions: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    for d in range(_STEP):
        excess = torch.relu(captions[:, d, None] - images[d])
        total = total + excess * excess
    return total


def compiled(work: float, device: torch.device) -> Kernel | None:
    """The fused kernel, or None where it does not pay or cannot be made (there is no C++ compiler).

    Args:
        work: pairs times dimensions.
        device: where it will run.
    """
    if work < _WORTH_COMPILING:
        log.debug("order similarity by plain operations: too little work to compile a kernel for")
        return None
    return _compiled(device)


@cache
def _compiled(device: torch.device) -> Kernel | None:
    shapes = ((_FUSED_TILE, _FUSED_TILE), (_FUSED_TILE, _STEP), (_STEP, _FUSED_TILE))
    try:
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch's compiler uses what torch deprecates
            kernel: Kernel = torch.compile(_unrolled, dynamic=False, options={"compile_threads": 1})
            kernel(*(torch.zeros(shape, dtype=torch.float64, device=device) for shape in shapes))
    except (RuntimeError, OSError, ImportError) as error:  # torch has many ways to say it
        log.debug("order similarity by plain operations: no kernel could be compiled (%s)", str(error).split("\n")[0])
        return None
    log.debug("order similarity by a compiled kernel")
    return kernel
