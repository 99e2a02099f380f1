"""The stage's work: features of a folder of resized pictures, whole into ``features.h5`` or a part into the store."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from tqdm import tqdm

from sightword.errors import FeaturesError
from sightword.features.backbones import find_backbone
from sightword.features.extraction import Extraction, Read, Speed, rows_of
from sightword.features.partition import Part
from sightword.features.settings import FeaturesSettings
from sightword.features.store import Store
from sightword.features.table import Array, Rows, write_features
from sightword.features.transform import of_settings
from sightword.features.weights import Weights
from sightword.files import Pathish
from sightword.images.decode import Reject
from sightword.images.encoding import Pixels
from sightword.images.resized import read_rejects
from sightword.images.shards import Group, Listed, Selection, list_pictures, read_arrays, read_transform
from sightword.images.workers import ordered_map

GROUPS_A_WORKER = 8
"""Row groups that make the start of another reading process worth its time."""

_AGAIN = "Run the stages corpus and resize again."


@dataclass(frozen=True)
class Summary:
    """What was done."""

    pictures: int
    """Of the corpus, or of the part of it."""
    computed: int
    rejected: int
    speed: Speed

    @property
    def stored(self) -> int:
        """Pictures whose feature was in the store, or that are copies of another picture."""
        return self.pictures - self.computed - self.rejected


class ResizedCorpus:
    """A folder of resized pictures whose features are wanted.

    Args:
        image_ids: the pictures of the corpus.
        resized: the folder that the stage resize wrote.
        settings: the section ``features``, with source ``extract``.
        store: where features are remembered.
        device: where the network works.
        workers: processes that decode the shards, at most; 0 for none beside this one.
        progress: show a bar on standard error.

    Raises:
        FeaturesError: no pictures, or not those of the corpus.
        WeightsError: the weights are missing or not those asked for.
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
    ) -> None:
        self._pictures, self._rejects = list_pictures(resized), read_rejects(resized)
        _check_ids(image_ids, self._pictures, self._rejects, resized)
        weights = Weights(
            find_backbone(settings.backbone, settings.feature_point),
            settings.weights,
            sha256=settings.weights_sha256,
            seed=settings.weights_seed,
            folder=settings.inputs,
        )
        transform = of_settings(settings, read_transform(resized))
        self._extraction = Extraction(
            weights, transform, precision=settings.precision, device=device, store=store, measure=True
        )
        self._workers, self._progress = workers, progress

    @property
    def kind(self) -> str:
        """The name of this kind of feature in the store."""
        return self._extraction.identity.name

    def write(self, path: Pathish) -> Summary:
        """Write ``features.h5``, whole or not at all; what is not in the store is computed."""
        keys = [self._extraction.identity.key(picture.sha256) for picture in self._pictures]
        rows = rows_of(keys)
        with self._features(self._pictures, keys) as features:
            write_features(
                path,
                [picture.image_id for picture in self._pictures],
                [picture.sha256 for picture in self._pictures],
                self._extraction.dimension,
                (_spread(rows, found, values) for found, values in features),
                self._extraction.origin,
                [reject.image_id for reject in self._rejects],
            )
        return self._summary(len(self._pictures) + len(self._rejects), len(self._rejects))

    def store(self, part: Part) -> Summary:
        """Compute what the store lacks of a part's features, and write them nowhere else."""
        mine = [picture for picture in self._pictures if picture.sha256 in part]
        with self._features(mine, [self._extraction.identity.key(picture.sha256) for picture in mine]) as features:
            for _ in features:
                pass
        return self._summary(len(mine), 0)

    @contextlib.contextmanager
    def _features(
        self, pictures: Sequence[Listed], keys: Sequence[bytes]
    ) -> Iterator[Iterator[tuple[list[bytes], Array]]]:
        first = dict(zip(reversed(keys), reversed(pictures), strict=True))  # of copies, one is enough
        with (
            tqdm(total=len(first), desc="features", unit="picture", disable=None if self._progress else True) as bar,
            contextlib.closing(self._extraction.run(first, self._reader(first), bar.update)) as features,
        ):
            yield features

    def _reader(self, pictures: dict[bytes, Listed]) -> Read:
        def read(keys: Collection[bytes]) -> Iterator[tuple[bytes, Pixels]]:
            groups: dict[Group, dict[str, bytes]] = {}
            for key in keys:
                groups.setdefault(pictures[key].group, {})[pictures[key].image_id] = key
            jobs = [Selection(group, frozenset(groups[group])) for group in sorted(groups, key=_place)]
            workers = min(self._workers, len(jobs) // GROUPS_A_WORKER)
            for job, found in zip(jobs, ordered_map(read_arrays, jobs, workers=workers), strict=True):
                for image_id, pixels in found:
                    yield groups[job.group][image_id], pixels

        return read

    def _summary(self, pictures: int, rejected: int) -> Summary:
        speed = self._extraction.speed()
        return Summary(pictures, speed.clock.pictures, rejected, speed)


def _place(group: Group) -> tuple[str, int]:
    return group.path, group.index


def _spread(rows: dict[bytes, list[int]], keys: Sequence[bytes], values: Array) -> tuple[Rows, Array]:
    """Features by key to rows: copies of a picture share a key."""
    places = [(row, place) for place, key in enumerate(keys) for row in rows[key]]
    targets, sources = np.array(places, np.int64).reshape(-1, 2).T
    return targets, values[sources]


def _check_ids(corpus: Sequence[str], pictures: Sequence[Listed], rejects: Sequence[Reject], where: Pathish) -> None:
    """The resized pictures and the rejects are those of the corpus, and there are some."""
    if not pictures:
        raise FeaturesError(
            "there are no pictures to extract features from",
            where=where,
            todo="Give the corpus its pictures (corpus.pictures), or set features.source to precomputed.",
        )
    resized = {picture.image_id for picture in pictures}
    absent = sorted(set(corpus) - resized - {reject.image_id for reject in rejects})
    if absent:
        raise FeaturesError(
            f"{len(absent)} pictures of the corpus are not there: {', '.join(absent[:5])}", where=where, todo=_AGAIN
        )
    extra = sorted(resized - set(corpus))
    if extra:
        raise FeaturesError(
            f"{len(extra)} pictures are not of the corpus: {', '.join(extra[:5])}", where=where, todo=_AGAIN
        )
