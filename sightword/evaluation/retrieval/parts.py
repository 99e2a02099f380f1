"""Ranks from parts of the captions, which are counted apart and in any order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sightword.evaluation.retrieval.ranks import PartialRanks, Ranks, Scoring
from sightword.evaluation.retrieval.top_k import Top

SECONDS = 5.0
"""The most work of a part by cosines, on one core, unless a tile has more."""
FEWEST = 32
"""The least number of parts, as far as there are tiles: workers then end at about the same time."""
_PAIR, _PRODUCT = 5e-9, 4.5e-11
"""Seconds of a core for a pair, and for each of its dimensions."""


def seconds(captions: int, pictures: int, dimensions: int) -> float:
    """Return about how long one core takes, by cosines."""
    return captions * pictures * (_PAIR + _PRODUCT * dimensions)


def cut(captions: int, pictures: int, dimensions: int, side: int) -> list[slice]:
    """Return parts of the captions, whole tiles of ``side`` captions each; the number of workers does not matter."""
    share = min(1 / FEWEST, SECONDS / seconds(captions, pictures, dimensions))
    step = side * max(1, int(captions * share / side))
    return [slice(start, min(start + step, captions)) for start in range(0, captions, step)]


class Parts:
    """Adds up parts to the ranks of all captions and pictures; ``top`` is that of the parts."""

    def __init__(self, scoring: Scoring, top: int) -> None:
        captions, pictures = len(scoring.captions), len(scoring.images)
        self._scoring = scoring
        self._to_image, self._to_caption = np.zeros(captions, np.int64), np.ones(pictures, np.int64)
        self._top_images = Top.none(captions, min(top, pictures)) if top else None
        self._top_captions = Top.none(pictures, min(top, captions)) if top else None

    def add(self, part: PartialRanks) -> None:
        """Add a part; each caption is in one part."""
        self._to_image[part.rows] = part.caption_to_image
        self._to_caption += part.image_to_caption
        if self._top_images and part.top_images:
            self._top_images.candidate[part.rows] = part.top_images.candidate
            self._top_images.score[part.rows] = part.top_images.score
        if self._top_captions and part.top_captions:
            self._top_captions.merge(part.top_captions)

    def least(self) -> NDArray[np.float64] | None:
        """Return a score (N,) for each picture, in the unit of the similarity: captions below are not in its list."""
        return None if self._top_captions is None else self._top_captions.score[:, -1].copy()

    def ranks(self) -> Ranks:
        """Return the ranks when all parts were added, as :func:`~sightword.evaluation.retrieval.ranks.rank` does."""
        unit = self._scoring.alike.unit
        return Ranks(
            self._to_image,
            self._to_caption,
            self._scoring.owner,
            self._top_images and self._top_images.times(unit),
            self._top_captions and self._top_captions.times(unit),
        )
