"""A folder of picture files as a collection, with features of the network that an encoder was trained with."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
import torch
from pydantic import ValidationError
from tqdm import tqdm

from sightword.cluster.processes import ordered_map
from sightword.errors import SearchError, WeightsError
from sightword.features.extraction import Extraction
from sightword.features.settings import RANDOM, FeaturesSettings
from sightword.images.decode import Reject
from sightword.images.encoding import Pixels
from sightword.images.resized import Source, resize_to_array
from sightword.images.settings import ResizeSettings
from sightword.io.files import Pathish
from sightword.search.network import NamedNetwork
from sightword.search.picture_files import FileDigests, list_pictures
from sightword.settings import explain
from sightword.storage.store import Store

log = logging.getLogger(__name__)

PICTURES_A_WORKER = 50
"""Pictures that are worth the start of another reading process."""
_FIRST, _MOST = 16, 256
"""New files that are looked up in the store together: few at first, so that the first pictures appear at once."""
_BLOCK = 4
"""Computed pictures that are added together."""
_SAVED = 10.0
"""Seconds between two writings of the list of files."""
_NAMED = 10
"""Files that cannot be used and are named in the log."""

Floats = npt.NDArray[np.float32]
Files = list[tuple[Source, str]]
"""Files, each with its sha256 in hex."""


class Piece(NamedTuple):
    """Some pictures of a folder."""

    ids: list[str]
    sha256: list[str]
    """Of the files, in hex."""
    features: Floats
    """(n, D)"""


class PictureFolder:
    """The pictures of a folder, and of the folders in it, whose features are read or computed piece by piece.

    The store keeps each feature, so that an interrupted reading is continued and a picture is computed once. Pictures
    are rotated by their EXIF orientation, as viewers show them.

    Args:
        folder: the folder.
        network: the network that computes the features.
        device: where to compute.
        store: the store of features.
        workers: the most processes that decode pictures; 0 decodes in this process.
        sources: the pictures, as :func:`list_pictures` finds them; None finds them here.

    Raises:
        SearchError: there is no picture, or the network's features cannot be computed.
        WeightsError: there are new files, and the network's weights are missing or have another sha256.
        StoreError: there are new files, and the store cannot be written.
    """

    def __init__(
        self,
        folder: Pathish,
        network: NamedNetwork,
        *,
        device: torch.device,
        store: Store,
        workers: int = 0,
        sources: list[Source] | None = None,
    ) -> None:
        self.folder, self._store, self._workers = folder, store, workers
        self.sources = sources or list_pictures(folder)
        if network.obstacle:
            known, todo = (
                network.attributes.get("backbone"),
                "Take another encoder, or state how the features were made (features.precomputed_stated).",
            )
            what = "the encoder was trained on precomputed features, and these pictures have none"
            raise SearchError(network.obstacle if known else what, where=folder, todo=None if known else todo)
        transform = replace(network.transform, exif=True)
        self._resizing = ResizeSettings.of_transform(transform.resize, transform.interpolation, exif=transform.exif)
        self._extraction = Extraction(_settings(network), self._resizing.transform, device=device, store=store)
        network.check(self._extraction.origin.weights_sha256)
        self.dimension = self._extraction.dimension
        self.attributes = {**network.attributes, "transform": transform.as_json(), "origin": "extracted"}
        """The root attributes that ``features.h5`` would have."""
        self.rejected: dict[str, str] = {}
        """The files that cannot be used, by id, with the reason."""
        self._digests, self._done = FileDigests(folder, store), set[str]()
        if any(self._digests.known(source) is None for source in self.sources):
            with store.writer(self._extraction.identity), _told():  # before anything is computed
                self._extraction.load()

    def read(
        self,
        add: Callable[[Piece], object],
        *,
        progress: bool = False,
        stop: threading.Event | None = None,
    ) -> None:
        """Read or compute the pictures that were not read yet, until ``stop`` is set.

        Args:
            add: takes each piece as soon as the piece is there.
            progress: show a bar on standard error.
            stop: ends the reading after the pictures in progress.

        Raises:
            SearchError: none of the pictures can be used.
            WeightsError: the network's weights are missing, or have another sha256.
            StoreError: the store cannot be used; what was read before is in the store.
        """
        try:
            self._read(add, progress=progress, stop=stop or threading.Event())
        finally:
            self._report()
        if not self._done and len(self.rejected) == len(self.sources):
            raise SearchError("none of its pictures can be used", where=self.folder)

    def _read(self, add: Callable[[Piece], object], *, progress: bool, stop: threading.Event) -> None:
        """Read as :meth:`read`, without a report of files that cannot be used."""
        left = [source for source in self.sources if source.image_id not in self._done | self.rejected.keys()]
        known = [(source, found) for source in left if (found := self._digests.known(source)) is not None]
        try:
            stored = {source.image_id for source, _ in known}
            stored -= {source.image_id for source, _ in self._from_store(known, add)}
            new = [source for source in left if source.image_id not in stored]
            if new:
                workers = min(self._workers, len(new) // PICTURES_A_WORKER)
                self._compute(new, add, _Reading(self._resizing, workers, stop), progress)
        finally:
            self._save()

    def _compute(
        self, new: Sequence[Source], add: Callable[[Piece], object], reading: _Reading, progress: bool
    ) -> None:
        """Compute the features of new files, unless the store has the features of a copy."""
        saved = time.monotonic()
        with tqdm(total=len(new), desc="pictures", unit="picture", disable=None if progress else True) as bar:
            files = self._new_files(new, add, reading, bar)
            pixels = reading.pixels(files, self._extraction.identity.key, functools.partial(self._reject, bar))
            computed = self._extraction.compute((), lambda _: pixels, block=_BLOCK)
            with contextlib.closing(computed), contextlib.closing(pixels), contextlib.closing(files):
                for keys, values in computed:
                    owners = [(row, one) for row, key in enumerate(keys) for one in reading.owners.pop(key)]
                    self._add([one for _, one in owners], values[[row for row, _ in owners]], add)
                    bar.update(len(owners))
                    if time.monotonic() - saved > _SAVED:
                        self._save()
                        saved = time.monotonic()

    def _new_files(
        self, new: Sequence[Source], add: Callable[[Piece], object], reading: _Reading, bar: tqdm[NoReturn]
    ) -> Generator[tuple[bytes, Source], None, None]:
        """Yield the files whose features must be computed, each with its key; add those that the store has."""
        waiting, size = iter(new), _FIRST
        while not reading.stop.is_set() and (part := list(itertools.islice(waiting, size))):
            size, files = min(2 * size, _MOST), []
            for source, found in zip(part, self._digests.find(part, self._resizing), strict=True):
                if isinstance(found, Reject):
                    self._reject(bar, [source.image_id], found.detail)
                else:
                    files.append((source, found))
            missing = self._from_store(files, add)
            bar.update(len(files) - len(missing))
            for source, sha256 in missing:
                if reading.stop.is_set():
                    return
                key = self._extraction.identity.key(sha256)
                reading.owners.setdefault(key, []).append((source, sha256))
                if len(reading.owners[key]) == 1:  # copies wait for the first
                    yield key, source

    def _from_store(self, files: Files, add: Callable[[Piece], object]) -> Files:
        """Add the files whose features the store has; return the others."""
        by_key: dict[bytes, Files] = {}
        for source, sha256 in files:
            by_key.setdefault(self._extraction.identity.key(sha256), []).append((source, sha256))
        for keys, values in self._store.read(self._extraction.identity, self.dimension, by_key.keys()):
            owners = [(row, one) for row, key in enumerate(keys) for one in by_key.pop(key)]
            self._add([one for _, one in owners], values[[row for row, _ in owners]], add)
        return [one for others in by_key.values() for one in others]

    def _add(self, files: Files, features: Floats, add: Callable[[Piece], object]) -> None:
        add(Piece([source.image_id for source, _ in files], [sha256 for _, sha256 in files], features))
        self._done.update(source.image_id for source, _ in files)

    def _reject(self, bar: tqdm[NoReturn], ids: Collection[str], why: str) -> None:
        self.rejected.update(dict.fromkeys(ids, why))
        bar.update(len(ids))

    def _save(self) -> None:
        self._digests.save({source.image_id for source in self.sources})

    def _report(self) -> None:
        """Name the files that cannot be used in the log."""
        for image_id, why in sorted(self.rejected.items())[:_NAMED]:
            log.warning("picture %s left out: %s", image_id, why)
        if len(self.rejected) > _NAMED:
            log.warning("%d more pictures left out", len(self.rejected) - _NAMED)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Name the argument in the error of missing weights."""
    try:
        yield
    except WeightsError as error:
        todo = f"{error.todo or ''} Or give the file as weights.".lstrip()
        raise WeightsError(error.what, where=error.where, expected=error.expected, todo=todo) from None


class _Reading:
    """One reading of a folder: which files wait for which feature."""

    def __init__(self, resizing: ResizeSettings, workers: int, stop: threading.Event) -> None:
        self._resizing, self._workers, self.stop = resizing, workers, stop
        self.owners: dict[bytes, Files] = {}
        """The files that wait for a key's feature: copies of a picture share a key."""

    def pixels(
        self,
        files: Iterator[tuple[bytes, Source]],
        key_of: Callable[[str], bytes],
        reject: Callable[[Collection[str], str], None],
    ) -> Generator[tuple[bytes, Pixels], None, None]:
        """Yield the pixels of files, each with its key, in order; files that cannot be decoded are rejected."""
        keys: list[bytes] = []

        def sources() -> Iterator[Source]:
            for key, source in files:
                keys.append(key)
                yield source

        reader = functools.partial(resize_to_array, settings=self._resizing)
        for one in ordered_map(reader, sources(), workers=self._workers, chunk=4):
            key = keys.pop(0)
            if self.stop.is_set():  # dozens may be decoded, and each takes a second to compute
                return
            if not isinstance(one, Reject) and key_of(one[1]) == key:
                yield key, one[2]
                continue
            why = one.detail if isinstance(one, Reject) else "the file, or a copy of it, changed while it was read"
            reject([source.image_id for source, _ in self.owners.pop(key)], why)


def _settings(network: NamedNetwork) -> FeaturesSettings:
    """Return the section ``features`` that gives a network's features."""
    made = network.transform
    try:
        settings = FeaturesSettings(
            backbone=network.backbone.name,
            feature_point=network.backbone.feature_point,
            weights=RANDOM,  # a path outside features.inputs would be refused
            weights_seed=network.seed,
            crops=made.crops,
            crop=made.crop,
            mean=_any(list(made.mean)),
            std=_any(list(made.std)),
            relu=made.relu,
            l2=made.l2,
            precision=_any(network.attributes.get("precision")),
        )
    except ValidationError as error:
        first = explain(FeaturesSettings, error.errors()[0])
        what = f"the encoder's notes on its features are damaged ({first})"
        raise SearchError(what, todo="Take the folder of the encoder whole.") from None
    sha256 = "" if network.weights_name == RANDOM else network.sha256
    return settings.model_copy(update={"weights": network.weights_name, "weights_sha256": sha256, "inputs": "."})


def _any(value: object) -> Any:
    """Return a value that a section of the parameters checks."""
    return value
