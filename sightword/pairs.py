"""Pictures and captions of a split, matched by image id."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightword.captions.table import CaptionTable
from sightword.errors import CaptionsError
from sightword.features.table import FeatureTable

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pairs:
    """One split: N pictures, M captions, and which belongs to which."""

    image_ids: list[str]
    """Ids of the N pictures, sorted."""
    features: npt.NDArray[np.float32]
    """(N, D), row i of picture i."""
    texts: list[str]
    """The M captions, sorted by image id and number."""
    ids: list[npt.NDArray[np.int64]]
    """Each caption's token ids."""
    numbers: npt.NDArray[np.int64]
    """(M,) the caption's number within its picture."""
    image_of_caption: npt.NDArray[np.int64]
    """(M,) the row of each caption's picture."""


def pair(features: FeatureTable, captions: CaptionTable, split: str) -> Pairs:
    """The pictures of a split that have captions, with their features.

    Captions of pictures that could not be decoded are left out, and the log says how many.

    Raises:
        FeaturesError: captioned pictures have no features (how many, which).
        CaptionsError: the split is empty, or all its pictures could not be decoded.
    """
    part = captions.split(split)
    kept = [row for row, image_id in enumerate(part.image_ids) if image_id not in features.rejected]
    if len(kept) < len(part):
        log.warning("%s: %d captions of pictures that could not be decoded are left out", split, len(part) - len(kept))
        part = part.rows(kept)
    if not kept:
        raise CaptionsError(
            f"the split {split!r} has no captions left: none of its pictures could be decoded",
            todo="Look into data/resized/rejects.parquet.",
        )
    image_ids = sorted(set(part.image_ids))
    row_of = {image_id: row for row, image_id in enumerate(image_ids)}
    return Pairs(
        image_ids=image_ids,
        features=features.features[features.rows(image_ids)],
        texts=list(part.texts),
        ids=[np.asarray(ids, np.int64) for ids in part.ids],
        numbers=np.asarray(part.captions, np.int64),
        image_of_caption=np.asarray([row_of[image_id] for image_id in part.image_ids], np.int64),
    )


def report_uncaptioned(features: FeatureTable, captions: CaptionTable) -> None:
    """Log how many pictures have features and no caption in any split, with the ids of some."""
    uncaptioned = sorted(set(features.image_ids).difference(captions.image_ids))
    if uncaptioned:
        log.warning(
            "%d pictures have features and no caption in any split: %s%s",
            *(len(uncaptioned), ", ".join(uncaptioned[:5]), ", ..." if len(uncaptioned) > 5 else ""),
        )
