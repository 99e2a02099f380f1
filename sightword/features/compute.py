"""Features of any list of picture files, and of a folder of resized pictures, in ``features.h5``."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from tqdm import tqdm

from sightword import machine
from sightword.compute import devices
from sightword.compute.processes import ordered_map
from sightword.errors import FeaturesError, PictureError
from sightword.features.extraction import Extraction
from sightword.features.extractor import Clock
from sightword.features.settings import FeaturesSettings
from sightword.features.tables.table import Array, write_features
from sightword.images.decode import Reject
from sightword.images.encoding import Pixels
from sightword.images.resized import Source, read_rejects, resize_file
from sightword.images.settings import ResizeSettings
from sightword.images.shards import Group, Listed, Selection, list_pictures, read_arrays, read_transform
from sightword.io.files import Pathish
from sightword.messages import and_more
from sightword.storage.store import Store

GROUPS_A_WORKER = 24
"""Row groups that are worth the start of another reading process."""


def extract(
    pictures: Sequence[Pathish],
    settings: FeaturesSettings | None = None,
    resize: ResizeSettings | None = None,
    *,
    store: Pathish | None = None,
    device: torch.device | str | None = None,
    workers: int = 0,
    progress: bool = False,
) -> Array:
    """Return the features of picture files, with the same bits as the stage stores.

    Args:
        pictures: N paths; pictures with the same pixels are computed once.
        settings: the section ``features``, with source ``extract``; the defaults are those of Merkx & Frank 2019.
        resize: the section ``resize``.
        store: the folder or the address of a store (``SIGHTWORD_STORE`` is the stage's); None keeps nothing.
        device: where to compute; None for the device of ``SIGHTWORD_DEVICE``.
        workers: processes that decode; more than 0 needs ``if __name__ == "__main__":`` in a script.
        progress: show a bar on standard error.

    Returns:
        float32 (N, D), row i for picture i.

    Raises:
        PictureError: a picture cannot be used; the message has its path and the reason.
        FeaturesError, WeightsError, StoreError: as of :meth:`Extraction.run`.
    """
    if isinstance(pictures, str | bytes | os.PathLike):
        raise FeaturesError(f"pictures are {type(pictures).__name__}", expected="a list of paths")
    if type(workers) is not int or workers < 0:
        raise FeaturesError(f"workers is {workers!r}", expected="a whole number from 0")
    paths, resize = [os.fspath(picture) for picture in pictures], resize or ResizeSettings()
    extraction = Extraction(
        settings or FeaturesSettings(),
        resize.transform,
        device=devices.choose(machine.current().device if device is None else str(device)),
        store=None if store is None else Store(store),
    )
    # Other processes get only functions of rooms that do not load torch.
    reader = functools.partial(resize_file, settings=resize.model_copy(update={"encoding": "raw"}))
    features = np.empty((len(paths), extraction.dimension), np.float32)
    firsts, rows = dict[str, int](), list[int]()

    def decoded() -> Generator[tuple[int, str, Pixels], None, None]:
        results = ordered_map(reader, [Source(path, path) for path in paths], workers=workers, chunk=4)
        for row, picture in enumerate(results):
            if isinstance(picture, Reject):
                what = f"cannot be used ({picture.reason}: {picture.detail})"
                todo = "Take it out of the list, or fix it: docs/features.md describes how."
                raise PictureError(what, where=picture.image_id, todo=todo)
            rows.append(firsts.setdefault(picture.pixels_sha256, row))
            if rows[row] == row:
                yield row, picture.pixels_sha256, picture.array()

    with tqdm(total=len(paths), desc="features", unit="picture", disable=None if progress else True) as bar:

        def keep(owners: list[int], values: Array) -> None:
            features[owners] = values
            bar.update(len(owners))

        with devices.threads(machine.current().threads), contextlib.closing(decoded()) as decoding:
            extraction.follow(decoding, keep)
        copies = [row for row, first in enumerate(rows) if first != row]
        features[copies] = features[[rows[row] for row in copies]]
        bar.update(len(copies))
    return features


@dataclass(frozen=True)
class Summary:
    """The result of a run."""

    pictures: int
    """Pictures of the corpus."""
    rejected: int
    copies: int
    """Pictures with the pixels of another picture."""
    clock: Clock

    @property
    def computed(self) -> int:
        """Pictures whose feature was computed."""
        return self.clock.pictures

    @property
    def stored(self) -> int:
        """Pictures whose feature was in the store."""
        return self.pictures - self.rejected - self.copies - self.computed


@dataclass(frozen=True)
class Job:
    """Pictures of one row group of a shard, and their keys by id."""

    selection: Selection
    keys: Mapping[str, bytes]


def pictures_of(jobs: Iterable[Job], arrays: Iterable[list[tuple[str, Pixels]]]) -> Iterator[tuple[bytes, Pixels]]:
    """Yield the key and the pixels of each picture of jobs, from what :func:`read_arrays` returned for each job."""
    for job, pictures in zip(jobs, arrays, strict=True):
        for image_id, pixels in pictures:
            yield job.keys[image_id], pixels


class ResizedCorpus:
    """A folder of resized pictures, the output of the stage resize, to compute features of the corpus ``image_ids``.

    Up to ``workers`` processes decode the shards; a ``cluster`` computes jobs instead, and yields counts of features.

    Raises:
        FeaturesError: there are no pictures, or pictures of another corpus; or an error of :class:`Extraction`.
        FileFormatError: a shard is damaged.
    """

    def __init__(
        self,
        image_ids: Sequence[str],
        resized: Pathish,
        settings: FeaturesSettings,
        *,
        store: Store,
        device: torch.device,
        workers: int = 0,
        progress: bool = False,
        cluster: Callable[[Sequence[Job], Extraction], Iterator[int]] | None = None,
    ) -> None:
        self._pictures, self._rejects = list_pictures(resized), [reject.image_id for reject in read_rejects(resized)]
        _check_ids(set(image_ids), {picture.image_id for picture in self._pictures}, self._rejects, resized)
        self._extraction = Extraction(settings, read_transform(resized), device=device, store=store)
        self._keys = [self._extraction.identity.key(picture.pixels_sha256) for picture in self._pictures]
        self._workers, self._progress = workers, progress
        self._cluster = cluster

    @property
    def kind(self) -> str:
        """The name of this kind of feature in the store."""
        return self._extraction.identity.name

    def write(self, path: Pathish) -> Summary:
        """Write ``features.h5``, whole or not at all, and compute the features that the store lacks."""
        rows, (names, hashes, *_) = dict[bytes, list[int]](), zip(*self._pictures, strict=True)
        for row, key in enumerate(self._keys):
            rows.setdefault(key, []).append(row)
        with contextlib.closing(self._features(zip(self._keys, self._pictures, strict=True))) as features:
            blocks = (  # copies of a picture share a key
                (np.array([row for key in found for row in rows[key]], np.int64),
                 np.repeat(values, [len(rows[key]) for key in found], axis=0))
                for found, values in features
            )  # fmt: skip
            origin = self._extraction.origin
            write_features(path, names, hashes, self._extraction.dimension, blocks, origin, self._rejects)
        rejected, copies = len(self._rejects), len(self._keys) - len(rows)
        return Summary(len(self._pictures) + rejected, rejected, copies, self._extraction.clock)

    def _features(self, pictures: Iterable[tuple[bytes, Listed]]) -> Generator[tuple[list[bytes], Array], None, None]:
        """Yield the features of pictures with their keys, as :meth:`Extraction.run` does."""
        listed = dict(pictures)  # one of several copies

        def cut(missing: Collection[bytes]) -> list[Job]:
            groups: dict[Group, dict[str, bytes]] = {}
            for key in missing:
                groups.setdefault(listed[key].group, {})[listed[key].image_id] = key
            ordered = sorted(groups, key=lambda group: (group.path, group.index))
            return [Job(Selection(group, frozenset(groups[group])), groups[group]) for group in ordered]

        def read(missing: Collection[bytes]) -> Iterator[tuple[bytes, Pixels]]:
            jobs = cut(missing)
            workers = min(self._workers, len(jobs) // GROUPS_A_WORKER)
            return pictures_of(jobs, ordered_map(read_arrays, (job.selection for job in jobs), workers=workers))

        cluster = self._cluster
        elsewhere = (lambda missing: cluster(cut(missing), self._extraction)) if cluster else None
        return self._extraction.run(listed, read, progress=self._progress, elsewhere=elsewhere)


def _check_ids(corpus: set[str], resized: set[str], rejected: Sequence[str], where: Pathish) -> None:
    """Raise FeaturesError unless resized and rejected pictures are the pictures of the corpus, and there are some."""
    if not resized:
        todo = "Give the corpus its pictures (corpus.pictures), or set features.source to precomputed."
        raise FeaturesError("there are no pictures to extract features from", where=where, todo=todo)
    absent, extra = sorted(corpus - resized - set(rejected)), sorted(resized - corpus)
    if wrong := absent or extra:
        what = "pictures of the corpus are not there" if absent else "pictures are not of the corpus"
        what = f"{len(wrong)} {what}: {and_more(wrong, 5)}"
        raise FeaturesError(what, where=where, todo="Run the stages corpus and resize again.")
