"""The error of order-embeddings for all pairs of two blocks, without gradients: ``sum_d max(0, c_d - i_d)^2``.

The error is not a product of matrices. The dimensions are added one after another, a tile of pairs at a time, which
stays in a CPU's cache. A compiled kernel is several times as fast as plain operations, which need no C++ compiler.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from functools import cache
from itertools import product

import torch
from torch.nn.functional import pad

from sightword.compute.threads import spread

log = logging.getLogger(__name__)

Kernel = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]
"""Adds the error over :data:`STEP` dimensions of captions (2, n, STEP) and pictures (STEP, m) to a total (2, n, m)."""

STEP = 32
"""Dimensions of one call of the compiled kernel."""
_WORTH_COMPILING = 2e10
"""Pairs times dimensions from which the kernel saves more time than compiling takes (some seconds)."""
_PLAIN_TILE = (64, 512)  # captions and pictures of a tile in plain operations on a CPU
_TALL, _TILE = 512, 128  # half the captions, and the pictures, of a tile of the compiled kernel


def errors(captions: torch.Tensor, images: torch.Tensor, out: torch.Tensor, fused: Kernel | None) -> None:
    """Compute the error of each caption with each picture, 0 where the picture is above it in all dimensions.

    Args:
        captions: float64 (n, D).
        images: float64 (m, D).
        out: float64 (n, m), overwritten with the errors. A pair's error does not depend on its tile.
        fused: the kernel from :func:`compiled`, or None for plain operations.
    """
    if fused:
        _fused_errors(captions, images, out, fused)
        return
    across, down = captions.T.contiguous()[:, :, None], images.T.contiguous()  # (D, n, 1), (D, m)
    cpu = out.device.type == "cpu"
    tall, wide = _PLAIN_TILE if cpu else out.shape

    def tile(place: tuple[int, int]) -> None:
        top, left = place
        columns, rows = across[:, top : top + tall], down[:, left : left + wide]
        total = out.new_zeros(columns.shape[1], rows.shape[1])
        excess = torch.empty_like(total)
        for column, row in zip(columns, rows, strict=True):
            torch.sub(column, row, out=excess).relu_()
            total.addcmul_(excess, excess)
        out[top : top + tall, left : left + wide] = total

    places = product(range(0, len(captions), tall), range(0, len(images), wide))
    if cpu:  # each tile in one thread, which is too little work for more
        spread(tile, places)
    else:
        for place in places:
            tile(place)


def _fused_errors(captions: torch.Tensor, images: torch.Tensor, out: torch.Tensor, fused: Kernel) -> None:
    # One shape and layout only, since another would be compiled anew; more zeros change no sum. The kernel holds
    # Python's lock and has threads of its own: the more captions, the less they wait for each other.
    (n, m), more, tall = out.shape, -captions.shape[1] % STEP, 2 * _TALL
    captions, images = pad(captions, (0, more, 0, -n % tall)), pad(images, (0, more, 0, -m % _TILE))
    steps = captions.shape[1] // STEP
    # (steps, tile, 2, captions, dimensions) and (tile, steps, dimensions, pictures)
    across = captions.reshape(-1, 2, _TALL, steps, STEP).permute(3, 0, 1, 2, 4).contiguous()
    down = images.reshape(-1, _TILE, steps, STEP).permute(0, 2, 3, 1).contiguous()
    total = out.new_empty(2, _TALL, _TILE)
    for left, rows in zip(range(0, m, _TILE), down, strict=True):
        for tile, top in enumerate(range(0, n, tall)):
            total.zero_()
            for columns, row in zip(across[:, tile], rows, strict=True):
                fused(total, columns, row)
            place = out[top : top + tall, left : left + _TILE]
            place.copy_(total.view(tall, _TILE)[: place.shape[0], : place.shape[1]])


def _unrolled(total: torch.Tensor, captions: torch.Tensor, images: torch.Tensor) -> None:
    for half in range(2):  # two captions share one read of a picture
        part = torch.zeros_like(total[half])
        for d in range(STEP):
            excess = torch.relu(captions[half, :, d, None] - images[d])
            part = part + excess * excess
        total[half].add_(part)


def compiled(work: float, device: torch.device) -> Kernel | None:
    """Return the fused kernel; None if it does not pay for ``work`` (pairs times dimensions) or cannot be built.

    On a GPU the kernel saves nothing: plain operations on whole tiles take as long as its memory.
    """
    if device.type != "cpu" or work < _WORTH_COMPILING:
        log.debug("order similarity by plain operations: too little work to compile a kernel for")
        return None
    return _compiled()


@cache
def _compiled() -> Kernel | None:
    shapes = ((2, _TALL, _TILE), (2, _TALL, STEP), (STEP, _TILE))
    # Products and sums in one instruction, if this torch knows the option.
    for extra in ({"cpp.enable_floating_point_contract_flag": "fast"}, {}):
        try:
            with torch.inference_mode(), warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # torch's compiler uses what torch deprecates
                kernel: Kernel = torch.compile(_unrolled, dynamic=False, options={"compile_threads": 1, **extra})
                kernel(*(torch.zeros(shape, dtype=torch.float64) for shape in shapes))
        except (RuntimeError, OSError, ImportError) as error:  # torch raises any of these
            failure = str(error).split("\n")[0]
        else:
            log.debug("order similarity by a compiled kernel")
            return kernel
    log.debug("order similarity by plain operations: no kernel could be compiled (%s)", failure)
    return None
