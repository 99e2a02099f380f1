"""Runs the network: uint8 pictures in, the means of their crops' features out."""

from __future__ import annotations

import itertools
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sightword.compute import devices
from sightword.errors import FeaturesError
from sightword.features.backbones import FeatureNetwork
from sightword.features.crops import CROPS, normalise, write_crops
from sightword.features.fusion import ready
from sightword.features.identity import Transform
from sightword.features.settings import Precision
from sightword.images.encoding import Pixels

PICTURES_A_CALL = {"cpu": 1, "cuda": 32}
"""Pictures in a call of the network. The number is fixed for a kind of device, and short calls are filled up: for
another shape a library may choose another kernel, which gives other last bits."""
CALLS_AHEAD = 2
"""Calls whose pictures are read while other calls are computed."""

Features = npt.NDArray[np.float32]


@dataclass
class Clock:
    """The speed of an extraction: times in seconds; reading, computing and writing run side by side."""

    read: float = 0.0
    """Waiting for pictures."""
    infer: float = 0.0
    """Computing, as the mean of the computing threads."""
    write: float = 0.0
    """Writing to the store."""
    wall: float = 0.0
    """The whole time."""
    pictures: int = 0
    flops_a_picture: int = 0
    """Floating-point operations for a picture."""
    peak: float | None = None
    """Operations a second in the best of large matrix products and convolutions; None if not measured."""

    @property
    def share(self) -> float | None:
        """The reached share of the peak while the network computed."""
        return self.peak and self.flops_a_picture * self.pictures / self.infer / self.peak


class Extractor:
    """A network, ready on a device; the result of :func:`sightword.features.backbones.cut` is changed.

    On a CPU each picture is one call in one of the ``threads``: their number cannot change a bit of the result, and no
    thread waits for another. The times are added to ``clock``.
    """

    def __init__(
        self,
        network: FeatureNetwork,
        transform: Transform,
        *,
        precision: Precision,
        device: torch.device,
        threads: int = 1,
    ) -> None:
        self.dimension, self.transform, self.precision, self.device = network.dimension, transform, precision, device
        self.clock = Clock()
        self._count = CROPS[transform.crops]
        self._pictures = PICTURES_A_CALL.get(device.type, 1)
        # On CUDA a second thread prepares the next call while the first waits for its result.
        self._threads = threads if device.type == "cpu" else 2
        self._network: nn.Module = ready(network, precision=precision, device=device)
        with _exactly(), devices.threads(1):
            self._compute([])  # lays the weights out before several threads use them

    def run(self, pictures: Iterable[Pixels]) -> Iterator[Features]:
        """Yield the features of pictures, float32 (D,), in the given order; no picture changes another's features.

        Args:
            pictures: uint8 (height, width, 3), no side smaller than a crop; read a few calls ahead.

        Raises:
            FeaturesError: a feature is not finite.
        """
        source = iter(pictures)
        running: deque[Future[tuple[Features, float]]] = deque()
        begun, busy = time.perf_counter(), 0.0
        with _exactly(), devices.threads(1), devices.pool(self._threads) as workers:
            try:
                while True:
                    started = time.perf_counter()
                    call = list(itertools.islice(source, self._pictures))
                    self.clock.read += time.perf_counter() - started
                    if call:
                        running.append(workers.submit(self._timed, call))
                    while running and (not call or len(running) >= self._threads + CALLS_AHEAD):
                        features, seconds = running.popleft().result()
                        busy += seconds
                        self.clock.pictures += len(features)
                        self.clock.infer = busy / self._threads
                        yield from features
                    self.clock.wall = time.perf_counter() - begun
                    if not call:
                        return
            finally:
                for future in running:
                    future.cancel()

    def _timed(self, pictures: list[Pixels]) -> tuple[Features, float]:
        started = time.perf_counter()
        try:
            return self._compute(pictures), time.perf_counter() - started
        except torch.OutOfMemoryError:
            what = f"not enough memory on {self.device} for {self._pictures} pictures a call"
            todo = "Free memory there, or take another device (SIGHTWORD_DEVICE)."
            raise FeaturesError(what, todo=todo) from None

    @torch.inference_mode()
    def _compute(self, pictures: list[Pixels]) -> Features:
        """Return the features (B, D) of the pictures of a call, at most as many as a call has."""
        count, side = self._count, self.transform.crop
        crops = torch.zeros((self._pictures * count, side, side, 3), device=self.device)
        for index, picture in enumerate(pictures):
            pixels = torch.from_numpy(picture).to(self.device, non_blocking=True)
            normal = normalise(pixels, self.transform.mean, self.transform.std)
            write_crops(normal, crops[index * count : (index + 1) * count], side, self.transform.crops)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.precision == "bf16"):
            found = self._network(crops.permute(0, 3, 1, 2))  # (B * crops, D)
        found = found.flatten(1).to(torch.float32)
        if self.transform.relu:
            found = found.relu()
        mean = found.unflatten(0, (self._pictures, count)).mean(dim=1)
        if self.transform.l2:
            mean = nn.functional.normalize(mean, dim=1)
        features: Features = mean[: len(pictures)].cpu().numpy()
        if not np.isfinite(features).all():
            raise FeaturesError("the network gave features that are not finite", todo="Are these the right weights?")
        return features


@devices.shared
def _exactly() -> Iterator[None]:
    """Set full float32 products (no TF32) and repeatable kernels; restore all settings except the workspace's."""
    products, strict = torch.get_float32_matmul_precision(), torch.get_deterministic_debug_mode()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
    flags = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
    try:
        with flags:
            torch.set_float32_matmul_precision("highest")
            torch.set_deterministic_debug_mode("error")  # see `sightword.compute.devices`
            yield
    finally:
        torch.set_float32_matmul_precision(products)
        torch.set_deterministic_debug_mode(strict)
