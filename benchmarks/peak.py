"""A network's operations, and the peak of the machine."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from sightword.features.extractor import CROPS
from sightword.features.identity import Transform
from sightword.features.networks.network import FeatureNetwork
from sightword.features.settings import Precision

SIDE = {"cpu": 2000, "cuda": 8192}
"""Rows and columns of the multiplied matrices: enough work that the start of a kernel does not count."""
IMAGES = {"cpu": 4, "cuda": 256}
"""Images of the convolution."""
ROUNDS = 3


def flops_a_picture(network: FeatureNetwork, transform: Transform) -> int:
    """Return the floating-point operations (2 for a multiply-add) of a skeleton for all crops of a picture."""
    crops = torch.zeros((1, 3, transform.crop, transform.crop), device="meta")
    counter = FlopCounterMode(display=False)
    with torch.inference_mode(), counter:
        network(crops)
    return int(counter.get_total_flops()) * CROPS[transform.crops]


def peak_flops(precision: Precision, device: torch.device) -> float:
    """Return the operations a second in the best of large matrix products and convolutions, with torch's threads."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    random = torch.Generator(device).manual_seed(0)  # the caller's generator stays as it is
    side, count = SIDE[device.type], IMAGES[device.type]
    one, other = (torch.randn(side, side, device=device, generator=random).to(dtype) for _ in range(2))
    images = torch.randn(count, 256, 56, 56, device=device, generator=random).to(
        dtype, memory_format=torch.channels_last
    )
    filters = torch.randn(256, 256, 3, 3, device=device, generator=random).to(dtype, memory_format=torch.channels_last)
    with torch.inference_mode():
        return max(
            _rate(lambda: one @ other, 2 * side**3, device),
            _rate(lambda: nn.functional.conv2d(images, filters, padding=1), 2 * images.numel() * 256 * 9, device),
        )


def _rate(work: Callable[[], torch.Tensor], flops: int, device: torch.device) -> float:
    seconds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds.append(time.perf_counter() - started)
    return flops / min(seconds)
