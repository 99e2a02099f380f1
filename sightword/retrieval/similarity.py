"""How alike a caption and a picture are, twice: roughly for all pairs, exactly for the few that need it.

**Exactly** is in float64, and errs too: a sum of products has another last bit when it
is added up in another order. A comparison of bare values would break real ties at
random, and a model whose embeddings are all the same would beat chance. Therefore two
scores count as tied when they differ by no more than float64 can err.

**Roughly** is in float32, about twice as fast, and with a bound on its error. A rival
whose rough score is farther from what it must reach than that bound is judged by it;
all others are judged exactly. So the ranks are those of float64 throughout.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from numpy.typing import NDArray

from sightword.retrieval.inputs import Embeddings, Which, rows_at_once

ROUND = 2.0**-24
"""The share by which float32 rounds at most."""
LONGEST = 1e140
"""Rows of this length can be squared, and the square multiplied, in float64."""


class Similarity(ABC):
    """One way to compare captions with pictures; more is more alike.

    Args:
        images: (N, D).
        captions: (M, D).
        device: where scores of blocks are computed.
    """

    def __init__(self, images: Embeddings, captions: Embeddings, device: torch.device) -> None:
        self.images, self.captions, self.device = images, captions, device
        self.dimensions = images.dimensions
        self.unit = 1.0
        """What a score of 1 amounts to for the embeddings as given; a power of two."""

    def pairs(self, captions: NDArray[np.int64] | None, images: NDArray[np.int64]) -> NDArray[np.float64]:
        """(n,) the exact scores of pairs, told by their rows; None for every caption, one after another."""
        found = np.empty(len(images))
        size = rows_at_once(self.dimensions)
        for start in range(0, len(images), size):
            part = slice(start, start + size)
            found[part] = self._pairs(part if captions is None else captions[part], images[part])
        return found

    @abstractmethod
    def _pairs(self, captions: Which, images: NDArray[np.int64]) -> NDArray[np.float64]:
        """:meth:`pairs` for few."""

    @abstractmethod
    def exact(self, captions: Which, images: Which) -> torch.Tensor:
        """Float64 (n, m) the exact score of each of some captions with each of some pictures."""

    @abstractmethod
    def rough_captions(self, which: slice) -> torch.Tensor:
        """Float32 (n, D) captions as :meth:`rough` takes them."""

    @abstractmethod
    def rough_images(self, which: slice) -> torch.Tensor:
        """Float32 (m, D) pictures as :meth:`rough` takes them."""

    @abstractmethod
    def rough(self, captions: torch.Tensor, images: torch.Tensor, out: torch.Tensor, spare: torch.Tensor) -> None:
        """The rough scores of all pairs, into ``out`` (n, m); ``spare`` has its shape and is overwritten."""

    @abstractmethod
    def bar(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        """What a rival of that exact score must reach at least to be tied with it or better."""

    @abstractmethod
    def window(self, bar: NDArray[np.float64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Two rough scores for each bar: who is below the first does not reach it, who reaches the second does."""

    @abstractmethod
    def ceiling(self, rough: NDArray[np.float32]) -> NDArray[np.float64]:
        """The highest exact score that a pair of that rough score may have."""

    @abstractmethod
    def rounded(self, scores: torch.Tensor) -> torch.Tensor:
        """Exact scores so coarse that tied ones are equal: for lists of the best, which people look at."""

    @abstractmethod
    def lowered(self, rounded: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        """Rounded scores, each lowered by less than they can differ, and the more, the larger its ``place``
        (whole numbers below 2**20): no two of a row are equal any more.
        """


def outwards(low: NDArray[np.float64], high: NDArray[np.float64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """As float32, not above ``low`` and not below ``high``."""
    return (
        np.nextafter(low.astype(np.float32), np.float32(-np.inf)),
        np.nextafter(high.astype(np.float32), np.float32(np.inf)),
    )
