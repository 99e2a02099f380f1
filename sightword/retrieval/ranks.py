"""Exact ranks of the right answers, and the best candidates, in one tiled pass over all scores.

Each score is computed once and serves both directions. Ties (:mod:`sightword.retrieval.similarity`) count against
the right answer. The ranks are the same whatever the size of the tiles, the number of threads or the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from sightword.retrieval.best import Best, Top
from sightword.retrieval.inputs import embeddings, owners
from sightword.retrieval.rivals import Rivals
from sightword.retrieval.similarities import similarity as similarity_named
from sightword.retrieval.similarity import Similarity

_BLOCK_BYTES = 1 << 26
"""Memory for one block of pictures: what has more of them prepares the captions anew for each block."""
_TILE, _TILE_ELSEWHERE = 1024, 8192
"""Captions and pictures that are compared together: what a processor's cache holds, and more on other devices."""
_MOST_DOUBTS = 1 / 32
"""The share of pairs in doubt from which a whole tile is scored exactly."""


@dataclass(frozen=True)
class Ranks:
    """What one pass gives: the rank of the right answer to each query, from 1."""

    caption_to_image: NDArray[np.int64]
    """(M,) 1 + how many other pictures score at least as high for this caption as its own."""
    image_to_caption: NDArray[np.int64]
    """(N,) the best rank among the picture's captions: 1 + how many other pictures' captions score at least
    as high as the best of its own. Its own captions are no rivals of each other."""
    image_of_caption: NDArray[np.int64]
    """(M,) the row of each caption's picture, as it was given."""
    top_images: Top | None = None
    """The best pictures for each caption."""
    top_captions: Top | None = None
    """The best captions for each picture, its own among them."""


def rank(
    image_embeddings: ArrayLike,
    caption_embeddings: ArrayLike,
    image_of_caption: ArrayLike,
    similarity: str = "cosine",
    *,
    top: int = 0,
    device: torch.device | None = None,
    progress: bool = False,
) -> Ranks:
    """Rank every picture for every caption and every caption for every picture.

    Args:
        image_embeddings: (N, D) finite numbers, in memory or mapped from a file; cosine does not mind their lengths.
        caption_embeddings: (M, D), likewise.
        image_of_caption: (M,) whole numbers, the row of each caption's picture, in any order; each picture has
            at least one caption.
        similarity: "cosine" (a row of zeros has 0 with everything; the log tells how many there are); or one that
            takes embeddings as they are: "dot", the dot product; "order", ``-sum_d max(0, c_d - i_d)^2``; or
            "reversed_order", ``-sum_d max(0, i_d - c_d)^2``.
        top: how many of the best candidates are kept for each query; 0 for none.
        device: where the scores are computed; the CPU by default.
        progress: show a progress bar on a terminal.

    Returns:
        The ranks, and the best candidates when ``top`` is not 0. Memory beyond the
        embeddings does not depend on the number of pairs, and stays below 500 MB.

    Raises:
        ScoringError: shapes that do not fit, values that are not finite, a caption
            of a picture that is not there, a picture without a caption, a similarity there is not.
    """
    images, captions = (
        embeddings(image_embeddings, "image_embeddings"),
        embeddings(caption_embeddings, "caption_embeddings"),
    )
    owner = owners(image_of_caption, images, captions)
    alike = similarity_named(similarity, images, captions, device or torch.device("cpu"))

    own = alike.pairs(None, owner)
    best = np.full(len(images), -np.inf)
    np.maximum.at(best, owner, own)

    def swapped(queries: NDArray[np.int64], candidates: NDArray[np.int64]) -> NDArray[np.float64]:
        return alike.pairs(candidates, queries)

    to_image = Rivals(alike.bar(own), 1, alike, alike.pairs)
    to_caption = Rivals(alike.bar(best), 0, alike, swapped)
    top_images = top_captions = None
    if top:
        top_images = Best(len(captions), len(images), top, alike, alike.pairs, alike.exact)
        top_captions = Best(
            len(images), len(captions), top, alike, swapped, lambda queries, part: alike.exact(part, queries).T
        )
    owner_rows = torch.from_numpy(owner).to(alike.device)
    with torch.inference_mode():
        for tile in _tiles(alike, progress=progress):
            if top_images and top_captions:
                top_images.offer(tile.scores, rows=tile.captions, candidates_from=tile.images.start)
                top_captions.offer(tile.scores.T, rows=tile.images, candidates_from=tile.captions.start)
            # The right answer is no rival, either way.
            here = owner_rows[tile.captions] - tile.images.start
            mine = torch.nonzero((here >= 0) & (here < tile.scores.shape[1])).squeeze(1)
            right = (mine, here[mine])
            tile.scores[right] = -torch.inf
            forth = to_image.look(tile.scores, tile.spare, tile.captions)
            back = to_caption.look(tile.scores, tile.spare, tile.images)
            doubts = sum(float((possible - sure).sum()) for sure, possible in (forth, back))
            if doubts > _MOST_DOUBTS * tile.scores.numel() + _TILE:
                scores = alike.exact(tile.captions, tile.images)
                scores[right] = -torch.inf
                to_image.count_exactly(scores, tile.captions)
                to_caption.count_exactly(scores, tile.images)
            else:
                to_image.count(*forth, tile.scores, tile.captions, tile.images.start)
                to_caption.count(*back, tile.scores, tile.images, tile.captions.start)
        return Ranks(
            caption_to_image=to_image.ranks(),
            image_to_caption=to_caption.ranks(),
            image_of_caption=owner,
            top_images=top_images.done() if top_images else None,
            top_captions=top_captions.done() if top_captions else None,
        )


@dataclass(frozen=True)
class _Tile:
    """The rough scores of some captions with some pictures."""

    captions: slice
    images: slice
    scores: torch.Tensor
    spare: torch.Tensor


def _tiles(alike: Similarity, *, progress: bool) -> Iterator[_Tile]:
    """All of them; what one holds is overwritten by the next."""
    side = _TILE if alike.device.type == "cpu" else _TILE_ELSEWHERE
    block = max(side, _BLOCK_BYTES // (4 * alike.dimensions) // side * side)
    n, m = len(alike.captions), len(alike.images)
    bar = tqdm(total=-(-m // side) * -(-n // side), desc="scoring", unit="tile", disable=None if progress else True)
    kept, spare = torch.empty(2, min(side, n) * min(side, m), device=alike.device)
    with bar:
        for block_start in range(0, m, block):
            block_stop = min(block_start + block, m)
            images = alike.rough_images(slice(block_start, block_stop))
            for first in range(0, n, side):
                rows = slice(first, min(first + side, n))
                captions = alike.rough_captions(rows)
                for left in range(block_start, block_stop, side):
                    columns = slice(left, min(left + side, block_stop))
                    shape = (rows.stop - first, columns.stop - left)
                    scores, other = (part[: shape[0] * shape[1]].view(shape) for part in (kept, spare))
                    alike.rough(captions, images[left - block_start : columns.stop - block_start], scores, other)
                    yield _Tile(rows, columns, scores, other)
                    bar.update()
