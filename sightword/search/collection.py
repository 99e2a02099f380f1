"""A folder of picture files as a collection, with features of the network that an encoder was trained with."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from pydantic import ValidationError
from tqdm import tqdm

from sightword.compute.processes import ordered_map
from sightword.errors import SearchError
from sightword.features.extraction import Extraction
from sightword.features.settings import RANDOM, FeaturesSettings
from sightword.features.tables.origin import side_by_side
from sightword.images.decode import Reject
from sightword.images.encoding import Pixels
from sightword.images.resized import Source, resize_file
from sightword.images.settings import ResizeSettings
from sightword.search.networks import Floats, NamedNetwork
from sightword.search.picture_files import Digests, FileDigests, Stamp, stamp
from sightword.settings import explain
from sightword.storage.store import Store

log = logging.getLogger(__name__)

PICTURES_A_WORKER = 50
"""Pictures that are worth the start of another reading process."""
_FIRST = 100
"""Pictures of the first block that several networks read; each further block has twice as many, as each starts
processes."""
_BLOCK = 4
"""Computed pictures that are added together."""
_SAVED = 10.0
"""Seconds between two writings of the list of files."""
_NAMED = 10
"""Files that cannot be used and are named in the log."""

File = tuple[Source, Digests]
Files = list[File]


class Piece(NamedTuple):
    """Some pictures of a folder."""

    ids: list[str]
    sha256: list[str]
    """Of the files, in hex."""
    features: Floats
    """(n, D)"""


@dataclass(frozen=True)
class Reading:
    """Where the pictures of a folder are read and computed."""

    device: torch.device
    store: Store
    workers: int = 0
    """The most processes that decode pictures; 0 decodes in this process."""


class PictureFolder:
    """The pictures of a folder, and of the folders in it, whose features are read or computed piece by piece.

    The store keeps each feature, so that an interrupted reading is continued and a picture is computed once. Pictures
    are rotated by their EXIF orientation, as viewers show them.

    Args:
        sources: the pictures, as :func:`sightword.search.picture_files.list_pictures` finds them in ``folder``.
        quick: compute the features of the centre crop alone, in a tenth of the time of ten crops.

    Raises:
        SearchError: the network's features cannot be computed.
        WeightsError: there are new files, and the network's weights are missing or have another sha256.
        StoreError: there are new files, and the store cannot be written.
    """

    def __init__(
        self, folder: str, sources: list[Source], network: NamedNetwork, reading: Reading, *, quick: bool = False
    ) -> None:
        self.folder, self.sources, self._reading = folder, sources, reading
        if network.obstacle:
            what = "the encoder was trained on precomputed features, and these pictures have none"
            known = network.attributes.get("backbone")
            raise SearchError(network.obstacle if known else what, where=folder, todo="Take another encoder.")
        made = network.transform
        self._resizing = ResizeSettings.of_transform(made.resize, made.interpolation, exif=True)
        self._resizing = self._resizing.model_copy(update={"encoding": "raw"})
        settings, transform = _settings(network, quick=quick), self._resizing.transform
        self._extraction = Extraction(settings, transform, device=reading.device, store=reading.store)
        network.check(self._extraction.origin.weights_sha256)
        self.dimension = self._extraction.dimension
        self.attributes = {**network.attributes, "origin": "extracted"}
        """The root attributes that ``features.h5`` would have."""
        self.rejected: dict[str, str] = {}
        """The files that cannot be used, by id, with the reason."""
        self._digests, self._done = FileDigests(folder, reading.store, self._resizing), set[str]()
        if not quick and any(self._digests.known(source) is None for source in self.sources):
            with reading.store.writer(self._extraction.identity):  # faults are told before anything is computed
                self._extraction.load()

    def read(
        self, add: Callable[[Piece], object], *, progress: bool = False, stop: threading.Event | None = None
    ) -> None:
        """Read or compute the pictures that were not read yet, until ``stop`` is set, and give each piece to ``add``.

        Raises:
            SearchError: none of the pictures can be used.
            WeightsError: the network's weights are missing, or have another sha256.
            StoreError: the store cannot be used; what was read before is in the store.
        """
        try:
            self._read(add, progress, stop or threading.Event())
        finally:
            for image_id, why in sorted(self.rejected.items())[:_NAMED]:
                log.warning("picture %s left out: %s", image_id, why)
            if len(self.rejected) > _NAMED:
                log.warning("%d more pictures left out", len(self.rejected) - _NAMED)
        if not self._done and len(self.rejected) == len(self.sources):
            raise SearchError("none of its pictures can be used", where=self.folder)

    def _read(self, add: Callable[[Piece], object], progress: bool, stop: threading.Event) -> None:
        """Read as :meth:`read`, without a report of files that cannot be used."""
        try:
            self.read_kept(add)
            new = self._unread(self.sources)
            with _bar(len(new), progress) as bar:
                self._compute(new, add, bar, stop)
        finally:
            self._save()

    def _unread(self, sources: Sequence[Source]) -> list[Source]:
        return [one for one in sources if one.image_id not in self._done and one.image_id not in self.rejected]

    def read_kept(self, add: Callable[[Piece], object]) -> int:
        """Give ``add`` the pictures whose features the store has; return how many others may have some."""
        by_key: dict[bytes, Files] = {}
        unusable = 0
        for source in self.sources:
            digests = None if source.image_id in self._done else self._digests.known(source)
            if digests and digests.pixels_sha256:
                by_key.setdefault(self._extraction.identity.key(digests.pixels_sha256), []).append((source, digests))
            unusable += digests is not None and not digests.pixels_sha256
        for keys, values in self._reading.store.read(self._extraction.identity, self.dimension, by_key):
            owners = [(row, one) for row, key in enumerate(keys) for one in by_key[key]]
            self._add([one for _, one in owners], values[[row for row, _ in owners]], add)
        return len(self.sources) - len(self._done) - unusable

    def _compute(
        self, new: Sequence[Source], add: Callable[[Piece], object], bar: tqdm[NoReturn], stop: threading.Event
    ) -> None:
        """Decode files, and compute the features that the store does not have for their pixels."""
        if not new or stop.is_set():
            return
        saved = time.monotonic()

        def take(files: Files, values: Floats) -> None:
            nonlocal saved
            self._add(files, values, add)
            bar.update(len(files))
            if time.monotonic() - saved > _SAVED:
                self._save()
                saved = time.monotonic()

        with contextlib.closing(self._decoded(new, bar, stop)) as pictures:
            self._extraction.follow(pictures, take, block=_BLOCK, stop=stop)

    def _decoded(
        self, new: Sequence[Source], bar: tqdm[NoReturn], stop: threading.Event
    ) -> Generator[tuple[File, str, Pixels], None, None]:
        """Yield files with the hash of their pixels and the pixels; files that cannot be decoded are rejected."""
        stamps: deque[Stamp | None] = deque()

        def sources() -> Iterator[Source]:
            for source in new:
                stamps.append(stamp(source))  # before reading
                yield source

        reader = functools.partial(resize_file, settings=self._resizing)
        workers = min(self._reading.workers, len(new) // PICTURES_A_WORKER)
        for source, found in zip(new, ordered_map(reader, sources(), workers=workers, chunk=4), strict=True):
            if stop.is_set():  # dozens may be decoded, and each takes a second to compute
                return
            digests = Digests("", "") if isinstance(found, Reject) else Digests(found.sha256, found.pixels_sha256)
            self._digests.add(source, stamps.popleft(), digests)
            if isinstance(found, Reject):
                self.rejected[source.image_id] = found.detail
                bar.update()
            else:
                yield (source, digests), digests.pixels_sha256, found.array()

    def _add(self, files: Files, features: Floats, add: Callable[[Piece], object]) -> None:
        add(Piece([source.image_id for source, _ in files], [found.sha256 for _, found in files], features))
        self._done.update(source.image_id for source, _ in files)

    def _save(self) -> None:
        self._digests.save({source.image_id for source in self.sources})


class JoinedFolder(PictureFolder):
    """A folder that several networks read, a block of pictures each in turn; a picture is there once all have read it.

    ``networks`` are in the order of their features, and ``trained`` are the attributes of all their features; the
    other arguments, and the errors, are those of :class:`PictureFolder`.
    """

    def __init__(
        self,
        folder: str,
        sources: list[Source],
        networks: Sequence[NamedNetwork],
        reading: Reading,
        trained: Mapping[str, Any],
        *,
        quick: bool = False,
    ) -> None:
        self.parts = [PictureFolder(folder, sources, network, reading, quick=quick) for network in networks]
        self.folder, self.sources = folder, sources
        self.dimension = sum(part.dimension for part in self.parts)
        self.attributes = {**trained, "origin": "extracted"}
        self.rejected: dict[str, str] = {}
        self._done = set[str]()
        self._waiting: dict[str, dict[int, tuple[str, Floats]]] = {}

    def _read(self, add: Callable[[Piece], object], progress: bool, stop: threading.Event) -> None:
        takes = [functools.partial(self._take, place, add) for place in range(len(self.parts))]
        try:
            for part, take in zip(self.parts, takes, strict=True):
                part.read_kept(take)
            last = self.parts[-1]
            start, size = 0, _FIRST
            with _bar(len(last._unread(self.sources)), progress) as bar, _bar(0, progress=False) as silent:
                while start < len(self.sources):
                    for part, take in zip(self.parts, takes, strict=True):
                        block = part._unread(self.sources[start : start + size])
                        part._compute(block, take, bar if part is last else silent, stop)
                        self.rejected.update(part.rejected)
                    start, size = start + size, 2 * size
        finally:
            for part in self.parts:
                part._save()
                self.rejected.update(part.rejected)

    def read_kept(self, add: Callable[[Piece], object]) -> int:
        """Do the same for all networks: a picture is given once the store has the features of all."""
        return max(part.read_kept(functools.partial(self._take, place, add)) for place, part in enumerate(self.parts))

    def _take(self, place: int, add: Callable[[Piece], object], piece: Piece) -> None:
        """Keep the features of a network, and add the pictures that all networks have read."""
        whole = []
        for image_id, sha256, vector in zip(*piece, strict=True):
            found = self._waiting.setdefault(image_id, {})
            found[place] = sha256, vector
            if len({own for own, _ in found.values()}) > 1:
                self.rejected[image_id] = "the file changed while it was read"
            elif len(found) == len(self.parts):
                whole.append(image_id)
        if whole:
            rows = [[one[place] for place in range(len(self.parts))] for one in map(self._waiting.pop, whole)]
            vectors = [np.stack([row[place][1] for row in rows]) for place in range(len(self.parts))]
            self._done.update(whole)
            add(Piece(whole, [row[0][0] for row in rows], side_by_side(vectors)))


def _bar(total: int, progress: bool) -> tqdm[NoReturn]:
    return tqdm(total=total, desc="pictures", unit="picture", disable=None if progress and total else True)


def _settings(network: NamedNetwork, *, quick: bool) -> FeaturesSettings:
    """Return the section ``features`` that gives a network's features, or the ``quick`` ones of the centre crop."""
    made = network.transform
    values: dict[str, Any] = {name: getattr(made, name) for name in ("crops", "crop", "relu", "l2")}
    values["precision"] = network.attributes.get("precision")
    values["crops"] = "one" if quick else values["crops"]
    try:
        settings = FeaturesSettings(
            **values,
            backbone=network.backbone.name,
            feature_point=network.backbone.feature_point,
            weights=RANDOM,  # a path outside features.inputs would be refused
            weights_seed=network.seed,
            mean=list(made.mean),
            std=list(made.std),
        )
    except ValidationError as error:
        first = explain(FeaturesSettings, error.errors()[0])
        what = f"the encoder's notes on its features are damaged ({first})"
        raise SearchError(what, todo="Take the folder of the encoder whole.") from None
    sha256 = "" if network.weights_name == RANDOM else network.attributes["weights_sha256"]
    return settings.model_copy(update={"weights": network.weights_name, "weights_sha256": sha256, "inputs": "."})
