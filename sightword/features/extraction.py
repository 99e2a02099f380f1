"""Features of one kind: from the store where they are there, computed where they are not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from sightword.features.backbones import cut
from sightword.features.extractor import Clock, Extractor
from sightword.features.fusion import fuses
from sightword.features.identity import KERNELS, Identity
from sightword.features.settings import Precision
from sightword.features.store import Store
from sightword.features.table import Array, Origin
from sightword.features.transform import Transform
from sightword.features.utilisation import flops_a_picture, peak_flops, skeleton
from sightword.features.weights import Weights
from sightword.images.encoding import Pixels

log = logging.getLogger(__name__)

BLOCK = 64
"""Computed features that are handed on together."""
LONG_ENOUGH = 1e12
"""Operations whose share of the machine's peak means something: seconds on a CPU, a few pictures of a ResNet-152."""

Read = Callable[[Collection[bytes]], Iterable[tuple[bytes, Pixels]]]
"""Keys of pictures to their pixels, each with its key, in any order."""
Tick = Callable[[int], object]
"""Told how many more features are there."""


@dataclass(frozen=True)
class Speed:
    """How fast an extraction was."""

    clock: Clock
    flops_a_picture: int
    peak: float | None
    """Operations a second in the best of large matrix products and convolutions here; None: not measured."""

    @property
    def share(self) -> float | None:
        """Of the peak, reached while the network computed."""
        return self.peak and self.flops_a_picture * self.clock.pictures / self.clock.infer / self.peak


def rows_of(keys: Sequence[bytes]) -> dict[bytes, list[int]]:
    """The rows of each key: copies of a picture share one."""
    rows: dict[bytes, list[int]] = {}
    for row, key in enumerate(keys):
        rows.setdefault(key, []).append(row)
    return rows


class Extraction:
    """One kind of feature, and all that is needed to have it of pictures.

    Args:
        weights: known, not yet loaded: they are loaded when the first picture needs them.
        transform: crops, normalisation, post-processing.
        precision: ``fp32`` or ``bf16``.
        device: where the network works.
        store: None to remember nothing.
        measure: before much work, measure the machine's peak.

    Raises:
        FeaturesError: the network does not take crops of this size.
    """

    def __init__(
        self,
        weights: Weights,
        transform: Transform,
        *,
        precision: Precision,
        device: torch.device,
        store: Store | None,
        measure: bool = False,
    ) -> None:
        self.weights = weights
        self.transform = transform
        self.precision: Precision = precision
        self.device = device
        self.store = store
        self.measure = measure
        self.clock = Clock()
        backbone = weights.backbone
        network = skeleton(backbone)
        self.dimension = network.dimension
        self._flops = flops_a_picture(network, transform)
        self._peak: float | None = None
        self.identity = Identity(
            backbone=backbone.name,
            feature_point=backbone.feature_point,
            transform=transform,
            weights_sha256=weights.sha256,
            precision=precision,
            kernel=KERNELS[device.type] + ("-plain" if device.type == "cpu" and not fuses(precision) else ""),
        )

    @property
    def origin(self) -> Origin:
        """What ``features.h5`` says of how its features were made."""
        return Origin(
            backbone=self.identity.backbone,
            feature_point=self.identity.feature_point,
            weights=self.weights.name,
            weights_sha256=self.weights.sha256,
            transform=self.transform.as_json(),
            precision=self.precision,
            origin="extracted",
        )

    def run(
        self, keys: Collection[bytes], read: Read, tick: Tick = int
    ) -> Generator[tuple[list[bytes], Array], None, None]:
        """The features of some pictures; what had to be computed is stored.

        Args:
            keys: of :meth:`Identity.key`, each once.
            read: gives the pictures of those keys that are not in the store.
            tick: told of progress.

        Yields:
            Keys and their float32 (n, D), in any order.

        Raises:
            StoreError: the store cannot be used; what was computed before is safe there.
            WeightsError: the weights are missing or not those asked for.
            FeaturesError: a feature is not finite.
        """
        missing = dict.fromkeys(keys)
        for found, values in self.store.read(self.identity, self.dimension, keys) if self.store else ():
            for key in found:
                del missing[key]
            tick(len(found))
            yield found, values
        if not missing:
            return
        if self.measure and len(missing) * self._flops >= LONG_ENOUGH:  # now, while little memory is in use
            self._peak = peak_flops(self.precision, self.device)
        if self.store is None:
            yield from self._blocks(self._computed(missing, read), tick)
            return
        writer = self.store.writer(self.identity)
        try:
            with writer:
                yield from self._blocks(self._computed(missing, read), tick, writer.put)
        finally:
            self.clock.write = writer.seconds

    def speed(self) -> Speed:
        """How fast it was; after enough work, against the peak."""
        return Speed(self.clock, self._flops, self._peak)

    def _computed(self, missing: Collection[bytes], read: Read) -> Iterator[tuple[bytes, Array]]:
        extractor = Extractor(
            cut(self.weights.load(), self.weights.backbone),
            self.transform,
            precision=self.precision,
            device=self.device,
            threads=torch.get_num_threads(),
        )
        self.clock = extractor.clock
        order: list[bytes] = []

        def pictures() -> Iterator[Pixels]:
            for key, pixels in read(missing):
                order.append(key)
                yield pixels

        for row, feature in enumerate(extractor.run(pictures())):
            yield order[row], feature

    def _blocks(
        self, features: Iterable[tuple[bytes, Array]], tick: Tick, put: Callable[[bytes, Array], None] | None = None
    ) -> Generator[tuple[list[bytes], Array], None, None]:
        """Single features in blocks, after each was put into the store."""
        block: dict[bytes, Array] = {}
        for key, feature in features:
            if put:
                put(key, feature)
            block[key] = feature
            tick(1)
            if len(block) == BLOCK:
                yield list(block), np.stack(list(block.values()))
                block = {}
        if block:
            yield list(block), np.stack(list(block.values()))
