"""Pictures and captions of a split, matched by image id."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sightword.captions.table import CaptionTable
from sightword.errors import CaptionsError
from sightword.features.tables.table import FeatureTable
from sightword.messages import and_more

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pairs:
    """One split: N pictures, M captions, and the picture of each caption."""

    image_ids: list[str]
    """Ids of the N pictures, sorted."""
    features: npt.NDArray[np.float32]
    """(N, D); row i belongs to picture i."""
    texts: list[str]
    """The M captions, sorted by image id and number."""
    ids: list[npt.NDArray[np.int64]]
    """The token ids of each caption."""
    numbers: npt.NDArray[np.int64]
    """(M,) the number of each caption within its picture."""
    image_of_caption: npt.NDArray[np.int64]
    """(M,) the row of each caption's picture."""
    languages: list[str] = field(default_factory=list)
    """The code of each caption's language; an empty list for captions of one language."""


def pair(features: FeatureTable, captions: CaptionTable, split: str) -> Pairs:
    """Return a split, without the captions of pictures that could not be decoded, which the log counts.

    FeaturesError: captioned pictures have no features. CaptionsError: the split is empty.
    """
    chosen = captions.split(split)
    kept = [row for row, image_id in enumerate(chosen.image_ids) if image_id not in features.rejected]
    if len(kept) < len(chosen):
        lost = len(chosen) - len(kept)
        log.warning("%s: %d captions of pictures that could not be decoded are left out", split, lost)
        chosen = chosen.rows(kept)
    if not kept:
        what = f"the split {split!r} has no captions left: none of its pictures could be decoded"
        raise CaptionsError(what, todo="See data/resized/rejects.parquet.")
    image_ids = sorted(set(chosen.image_ids))
    return _matched(chosen, image_ids, features.features[features.rows(image_ids)])


def without_pictures(captions: CaptionTable) -> Pairs:
    """Return captions whose pictures have no features: the features are (N, 0), and a group stands for a picture."""
    image_ids = sorted(set(captions.image_ids))
    return _matched(captions, image_ids, np.zeros((len(image_ids), 0), np.float32))


def _matched(chosen: CaptionTable, image_ids: list[str], features: npt.NDArray[np.float32]) -> Pairs:
    row_of = {image_id: row for row, image_id in enumerate(image_ids)}
    return Pairs(
        image_ids=image_ids,
        features=features,
        texts=list(chosen.texts),
        ids=[np.asarray(ids, np.int64) for ids in chosen.ids],
        numbers=np.asarray(chosen.captions, np.int64),
        image_of_caption=np.asarray([row_of[image_id] for image_id in chosen.image_ids], np.int64),
        languages=list(chosen.languages),
    )


def first_copies(features: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Return for each picture, a row of (N, D), the first picture with the same features: int64 (N,)."""
    seen: dict[bytes, int] = {}
    hashes = (hashlib.sha256((row + 0).tobytes()).digest() for row in features)  # -0.0 + 0 is 0.0
    return np.array([seen.setdefault(one, place) for place, one in enumerate(hashes)], np.int64)


def report_uncaptioned(features: FeatureTable, captions: CaptionTable, sealed: Collection[str] = ()) -> None:
    """Log the number of pictures with features but no caption in any split, with the first five ids.

    ``sealed`` has the pictures whose captions are withheld.
    """
    uncaptioned = sorted(set(features.image_ids).difference(captions.image_ids, sealed))
    if uncaptioned:
        names = and_more(uncaptioned, 5)
        log.warning("%d pictures have features and no caption in any split: %s", len(uncaptioned), names)
