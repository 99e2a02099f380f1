"""Features of one kind: read from the store, or computed if the store lacks them."""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
from tqdm import tqdm

from sightword import machine
from sightword.errors import SetupError, StoreError
from sightword.features import openvino
from sightword.features.extractor import Clock, Extractor
from sightword.features.fusion import fuses
from sightword.features.identity import Cropping, Identity, code_sha256, transform_of
from sightword.features.network_files import network_sha256
from sightword.features.networks import check_crop, find_backbone, skeleton
from sightword.features.settings import FeaturesSettings, Precision
from sightword.features.tables.table import Array, Origin
from sightword.features.weights import Weights
from sightword.images.encoding import Pixels
from sightword.storage.store import Store, Writer

log = logging.getLogger(__name__)

BLOCK = 64
"""Computed features that are yielded together."""

Read = Callable[[Collection[bytes]], Iterable[tuple[bytes, Pixels]]]
"""Returns the pixels of pictures by their keys, each with its key, in any order."""
Elsewhere = Callable[[Collection[bytes]], Iterable[int]]
"""Computes features by their keys into the store, in other processes; returns counts of computed features."""
Owner = TypeVar("Owner")
FIRST, MOST = 1 << 22, 1 << 26
"""Bytes of decoded pictures that are looked up in the store together: few at first, so that the first features appear
at once."""
VISIBLE = (0.0, 1.0, 5.0, 20.0, 60.0)
"""Waits for features that were written elsewhere, in seconds: network file systems show new files late."""


class Extraction:
    """Reads or computes features of one kind, by the section ``features`` with source ``extract``.

    ``resized`` has the pictures' settings: ``resize``, ``interpolation`` and ``exif``. Without a store nothing is kept.

    Raises:
        FeaturesError, WeightsError: the backbone is unknown; the weights are missing or differ.
        SetupError: the engine is not installed, or has not the precision.
    """

    def __init__(
        self, settings: FeaturesSettings, resized: dict[str, Any], *, device: torch.device, store: Store | None
    ) -> None:
        backbone = find_backbone(settings.backbone, settings.feature_point)
        self._openvino = device.type == "cpu" and machine.current().engine == "openvino"
        self._settings, self._device, self._store = settings, device, store
        self._transform = transform_of(settings, resized, backbone.own)
        for name in ("resize", "interpolation"):
            own, here = getattr(backbone.own, name), getattr(self._transform, name)
            if own not in (None, here):
                log.info("features: %s was trained with %s %s; these pictures have %s", backbone.name, name, own, here)
        self._skeleton = skeleton(backbone)
        self.dimension = self._skeleton.dimension
        self.clock = Clock()
        """The speed of the last run."""
        self._extractor: Extractor | None = None
        sha256, seed, folder = settings.weights_sha256, settings.weights_seed, settings.inputs
        self._weights = Weights(backbone, settings.weights, sha256=sha256, seed=seed, folder=folder)
        self.identity = Identity(
            backbone=backbone.name,
            feature_point=backbone.feature_point,
            cropping=Cropping(**{field.name: getattr(self._transform, field.name) for field in fields(Cropping)}),
            weights_sha256=self._weights.identity,
            precision=settings.precision,
            kernel=_kernel(device, settings.precision, use_openvino=self._openvino),
            code=code_sha256(),
        )

    @property
    def origin(self) -> Origin:
        """The attributes of ``features.h5`` that state how its features were made."""
        made = self.identity
        return Origin(
            **{name: getattr(made, name) for name in ("backbone", "feature_point", "precision")},
            weights=self._weights.name,
            weights_sha256=self._weights.sha256,
            transform=self._transform.as_json(),
            origin="extracted",
            network_sha256=network_sha256(made.backbone),
        )

    def run(
        self, keys: Collection[bytes], read: Read, *, progress: bool, elsewhere: Elsewhere | None = None
    ) -> Generator[tuple[list[bytes], Array], None, None]:
        """Yield keys and their features, float32 (n, D), in any order; computed features are added to the store.

        Args:
            keys: distinct keys of :meth:`Identity.key`.
            read: returns the pictures whose features the store lacks.
            progress: show a bar on standard error.
            elsewhere: computes the features that the store lacks, instead of this process; needs a store.

        Raises:
            StoreError: the store cannot be used; the features computed before are in the store.
            WeightsError, FeaturesError: as of :meth:`Weights.load`, :meth:`Extractor.run` and :func:`check_crop`.
        """
        missing = dict.fromkeys(keys)
        self.clock = Clock()
        with tqdm(total=len(keys), desc="features", unit="picture", disable=None if progress else True) as bar:
            for found, values in self._store.read(self.identity, self.dimension, keys) if self._store else ():
                for key in found:
                    del missing[key]
                bar.update(len(found))
                yield found, values
            if not missing:
                return
            if elsewhere:
                for count in elsewhere(missing):
                    bar.update(count)
                yield from self._written(missing)
                return
            yield from self.compute(missing, read, bar)

    def compute(
        self,
        missing: Collection[bytes],
        read: Read,
        bar: tqdm[NoReturn] | None = None,
        writer: Writer | None = None,
        *,
        block: int = BLOCK,
    ) -> Generator[tuple[list[bytes], Array], None, None]:
        """Yield keys and features as :meth:`run` does, ``block`` together, all computed and added to the store.

        A writer of the store that is given stays open, so that many calls leave few files.
        """
        with contextlib.ExitStack() as stack:
            if writer:
                stack.enter_context(writer.flushed())
            elif self._store:
                writer = stack.enter_context(self._store.writer(self.identity))
            before, order = writer.seconds if writer else 0.0, list[bytes]()

            def pictures() -> Iterator[Pixels]:
                for key, pixels in read(missing):
                    order.append(key)
                    yield pixels

            extractor = self.load()
            extractor.clock = self.clock
            features = stack.enter_context(contextlib.closing(extractor.run(pictures())))
            for start in itertools.count(step=block):
                values: list[Array] = []
                for feature in itertools.islice(features, block):
                    if writer:
                        writer.put(order[start + len(values)], feature)
                    if bar is not None:
                        bar.update()
                    values.append(feature)
                if not values:
                    break
                yield order[start : start + len(values)], np.stack(values)
        self.clock.write += writer.seconds - before if writer else 0.0

    def follow(
        self,
        pictures: Iterable[tuple[Owner, str, Pixels]],
        add: Callable[[list[Owner], Array], object],
        *,
        block: int = BLOCK,
        stop: threading.Event | None = None,
    ) -> None:
        """Read or compute features of pictures whose keys are known once they are decoded; errors as of :meth:`run`.

        Args:
            pictures: an owner of the feature, the hash of the pixels, and the pixels of each.
            add: takes owners, and their features, float32 (n, D), as soon as they are there.
            block: computed features that are added together.
            stop: ends the work after the pictures that are being computed.
        """
        owners: dict[bytes, list[Owner]] = {}

        def give(keys: Sequence[bytes], values: Array) -> None:
            found = [(row, owner) for row, key in enumerate(keys) for owner in owners.pop(key)]
            add([owner for _, owner in found], values[[row for row, _ in found]])

        def missing() -> Generator[tuple[bytes, Pixels], None, None]:
            new, ready = dict[bytes, Pixels](), deque[tuple[bytes, Pixels]]()

            def look_up() -> None:
                for found, values in self._store.read(self.identity, self.dimension, [*new]) if self._store else ():
                    give(found, values)
                    for key in found:
                        del new[key]
                ready.extend(new.items())
                new.clear()

            held, size = 0, FIRST if self._store else 0
            for owner, pixels_sha256, pixels in pictures:
                key = self.identity.key(pixels_sha256)
                if key not in owners:  # copies wait for the first
                    new[key] = pixels
                owners.setdefault(key, []).append(owner)
                held += pixels.nbytes
                if held >= size:
                    look_up()
                    held, size = 0, min(2 * size, MOST)
                if ready and not (stop and stop.is_set()):  # others are decoded while these are computed
                    yield ready.popleft()
            look_up()
            while ready and not (stop and stop.is_set()):
                yield ready.popleft()

        with contextlib.closing(missing()) as rest:
            if (first := next(rest, None)) is None:  # without the weights, which may not be here
                return
            computed = self.compute((), lambda _: itertools.chain([first], rest), block=block)
            with contextlib.closing(computed):
                for keys, values in computed:
                    give(keys, values)

    def _written(self, missing: dict[bytes, None]) -> Generator[tuple[list[bytes], Array], None, None]:
        """Yield features that other processes wrote into the store."""
        for wait in VISIBLE:
            time.sleep(wait)
            for found, values in self._store.read(self.identity, self.dimension, [*missing]) if self._store else ():
                for key in found:
                    del missing[key]
                yield found, values
            if not missing:
                return
        where = self._store and self._store.place
        what = f"{len(missing)} features that workers wrote are not there"
        todo = "Give all nodes the store under this name, and run the stage again: it computes what the store lacks."
        raise StoreError(what, where=where, todo=todo)

    def load(self) -> Extractor:
        """Return the network, which the first call loads; WeightsError and FeaturesError as in :meth:`run`."""
        if self._extractor is None:
            network = self._weights.backbone.cut(self._weights.load())
            try:
                self._extractor = Extractor(
                    network,
                    self._transform,
                    precision=self._settings.precision,
                    device=self._device,
                    threads=torch.get_num_threads(),
                    use_openvino=self._openvino,
                )
            except (RuntimeError, AssertionError, ValueError):
                check_crop(self._skeleton, self._transform.crop)  # asked late: shapes alone load PyTorch's compiler
                raise
        return self._extractor


def _kernel(device: torch.device, precision: Precision, *, use_openvino: bool) -> str:
    """Return the kind of kernels of a device, as the keys of features name it."""
    if use_openvino:
        openvino.check(precision)
        return "openvino"
    if device.type == "cuda" and not torch.cuda.is_available():
        todo = "Start the stage on a machine with a GPU of the same kind as the workers'."
        raise SetupError("this machine has no GPU, and keys of features name the kind of GPU", todo=todo)
    kernel = device.type if fuses(precision, device) else f"{device.type}-plain"
    if device.type == "cpu":
        return kernel
    major, minor = torch.cuda.get_device_capability(device)
    return f"{kernel} {torch.cuda.get_device_name(device)} {major}.{minor}"
