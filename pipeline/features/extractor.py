"""The network at work: uint8 pictures in, the mean of their crops' features out."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from pipeline.errors import FeaturesError
from pipeline.features.backbones import FeatureNetwork
from pipeline.features.crops import CROPS, normalise, write_crops
from pipeline.features.settings import Precision
from pipeline.features.transform import Transform
from pipeline.images.encoding import Pixels

PICTURES_A_CALL = {"cpu": 1, "cuda": 32}
"""Pictures that go through the network together. Fixed for a kind of device, and short
calls are filled up: a library may choose another kernel for another shape, and its last
bits with it."""


@dataclass
class Clock:
    """Seconds spent waiting for pictures, and computing."""

    read: float = 0.0
    infer: float = 0.0
    pictures: int = field(default=0)


class Extractor:
    """A network, ready on a device.

    Args:
        network: from :func:`pipeline.features.backbones.cut`.
        transform: crops, normalisation, post-processing.
        precision: ``fp32``, or ``bf16`` for bfloat16 autocast.
        device: where to compute.
    """

    def __init__(
        self, network: FeatureNetwork, transform: Transform, *, precision: Precision, device: torch.device
    ) -> None:
        self.network: nn.Module = network.to(device=device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
        self.dimension = network.dimension
        self.transform = transform
        self.precision = precision
        self.device = device
        self.clock = Clock()
        self._pictures = PICTURES_A_CALL.get(device.type, 1)

    def run(self, pictures: Iterable[Pixels]) -> Iterator[npt.NDArray[np.float32]]:
        """Features of pictures, in their order.

        Args:
            pictures: uint8 (height, width, 3) each, of any sizes not smaller than a crop.

        Yields:
            float32 (D,) each; the same whatever pictures are around it.

        Raises:
            FeaturesError: a feature is not finite.
        """
        waiting: list[Pixels] = []
        started = time.perf_counter()
        for picture in pictures:
            waiting.append(picture)
            if len(waiting) < self._pictures:
                continue
            self.clock.read += time.perf_counter() - started
            yield from self._compute(waiting)
            waiting = []
            started = time.perf_counter()
        self.clock.read += time.perf_counter() - started
        if waiting:
            yield from self._compute(waiting)

    @torch.inference_mode()
    def _compute(self, pictures: list[Pixels]) -> npt.NDArray[np.float32]:
        """Features (B, D) of at most as many pictures as go into a call."""
        started = time.perf_counter()
        count, side = CROPS[self.transform.crops], self.transform.crop
        crops = torch.zeros((self._pictures * count, side, side, 3), device=self.device)
        for index, picture in enumerate(pictures):
            pixels = torch.from_numpy(picture).to(self.device, non_blocking=True)
            normal = normalise(pixels, self.transform.mean, self.transform.std)
            write_crops(normal, crops[index * count : (index + 1) * count], side, self.transform.crops)
        with self._exact():
            found = self.network(crops.permute(0, 3, 1, 2))  # (B * crops, D)
        found = found.flatten(1).to(torch.float32)
        if self.transform.relu:
            found = found.relu()
        mean = found.unflatten(0, (self._pictures, count)).mean(dim=1)
        if self.transform.l2:
            mean = nn.functional.normalize(mean, dim=1)
        features: npt.NDArray[np.float32] = mean[: len(pictures)].cpu().numpy()
        if not np.isfinite(features).all():
            raise FeaturesError(
                "the network gave features that are not finite numbers", todo="Are these the right weights?"
            )
        self.clock.infer += time.perf_counter() - started
        self.clock.pictures += len(pictures)
        return features

    @contextlib.contextmanager
    def _exact(self) -> Iterator[None]:
        """Full float32 products on CUDA too (no TF32), kernels that repeat; bfloat16 where asked for."""
        bf16 = self.precision == "bf16"
        with (
            torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False),
            torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=bf16),
        ):
            yield
