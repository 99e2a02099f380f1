"""Counts a network's operations, and measures the machine's peak."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from sightword.compute.devices import OwnRandom
from sightword.errors import FeaturesError
from sightword.features.backbones import build, cut
from sightword.features.crops import CROPS
from sightword.features.identity import Transform
from sightword.features.networks.network import Backbone, FeatureNetwork
from sightword.features.settings import Precision
from sightword.messages import first_line

SIDE = {"cpu": 2000, "cuda": 8192}
"""Rows and columns of the multiplied matrices: enough work that the start of a kernel does not count."""
IMAGES = {"cpu": 4, "cuda": 256}
"""Images of the convolution."""
ROUNDS = 3


def skeleton(backbone: Backbone) -> FeatureNetwork:
    """Return a network on torch's meta device, without numbers; FeaturesError if the network takes no pictures."""
    try:
        with contextlib.suppress(RuntimeError), torch.device("meta"):
            return cut(build(backbone, initialise=False), backbone).to("meta")
        with OwnRandom():  # RegNet and others compute with tensors, which need numbers
            network = build(backbone, initialise=False)
        return cut(network.to("meta"), backbone)
    except (RuntimeError, AssertionError, ValueError, TypeError) as error:
        what = f"the network does not take crops of {backbone.own.crop} pixels ({first_line(error)})"
        raise FeaturesError(what, where=f"backbone {backbone.name!r}") from None


class _NoModules(contextlib.nullcontext[None]):
    """Replaces torch's tracker, which hooks into the modules of all threads; only the total is needed here."""

    parents = frozenset({"Global"})


def check_crop(network: FeatureNetwork, crop: int) -> None:
    """Raise FeaturesError if a :func:`skeleton` does not take crops of this size, in pixels."""
    try:
        with torch.inference_mode():
            network(torch.zeros((1, 3, crop, crop), device="meta"))
    except (RuntimeError, AssertionError, ValueError) as error:
        what = f"the network does not take crops of {crop} pixels ({first_line(error)})"
        todo = "Most networks take 224, Inception v3 takes 299, and some transformers take one size only."
        raise FeaturesError(what, where="features.crop", todo=todo) from None


def flops_a_picture(network: FeatureNetwork, transform: Transform) -> int:
    """Return the floating-point operations (2 for a multiply-add) of a :func:`skeleton` for all crops of a picture."""
    crops = torch.zeros((1, 3, transform.crop, transform.crop), device="meta")
    counter = FlopCounterMode(display=False)
    counter.mod_tracker = _NoModules()  # type: ignore[assignment]  # it has all that the counter uses
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
