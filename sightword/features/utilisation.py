"""How much of what this machine can do is done: useful work, and the most it does on a favourable problem."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from sightword.devices import OwnRandom
from sightword.errors import FeaturesError
from sightword.features.backbones import Backbone, FeatureNetwork, build, cut
from sightword.features.crops import CROPS
from sightword.features.settings import Precision
from sightword.features.transform import Transform

SIDE = 2000
"""Rows and columns of the matrices multiplied."""
ROUNDS = 3


def skeleton(backbone: Backbone) -> FeatureNetwork:
    """The network without numbers, on torch's meta device: for its shape and its work."""
    try:
        with torch.device("meta"):
            return cut(build(backbone, initialise=False), backbone)
    except NotImplementedError:  # RegNet reckons its widths with tensors, which need numbers
        with OwnRandom():
            return cut(build(backbone, initialise=False), backbone).to("meta")


class _NoModules(contextlib.nullcontext[None]):
    """Stand in for torch's tracker, which hooks into the modules of all threads; only the total is needed here."""

    parents = frozenset({"Global"})


def flops_a_picture(network: FeatureNetwork, transform: Transform) -> int:
    """Floating-point operations (2 a multiply-add) that the crops of a picture take.

    Args:
        network: from :func:`skeleton`.
        transform: how many crops of what size.

    Raises:
        FeaturesError: the network does not take them.
    """
    crops = torch.zeros((1, 3, transform.crop, transform.crop), device="meta")
    counter = FlopCounterMode(display=False)
    counter.mod_tracker = _NoModules()  # type: ignore[assignment]  # it has all that the counter uses
    try:
        with torch.inference_mode(), counter:
            network(crops)
    except (RuntimeError, AssertionError, ValueError) as error:
        raise FeaturesError(
            f"the network does not take crops of {transform.crop} pixels ({str(error).splitlines()[0]})",
            where="features.crop",
            todo="Most take 224; Inception v3 takes 299, and some transformers only the one size they were made for.",
        ) from None
    return int(counter.get_total_flops()) * CROPS[transform.crops]


def peak_flops(precision: Precision, device: torch.device) -> float:
    """Operations a second in the best of a few large matrix products and convolutions, with torch's threads."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    random = torch.Generator(device).manual_seed(0)  # not the caller's
    one, other = (torch.randn(SIDE, SIDE, device=device, generator=random).to(dtype) for _ in range(2))
    images = torch.randn(4, 256, 56, 56, device=device, generator=random).to(dtype, memory_format=torch.channels_last)
    filters = torch.randn(256, 256, 3, 3, device=device, generator=random).to(dtype, memory_format=torch.channels_last)
    with torch.inference_mode():
        return max(
            _rate(lambda: one @ other, 2 * SIDE**3, device),
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
