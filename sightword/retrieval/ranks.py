"""Exact ranks of the right answers, and the best candidates, in one tiled pass over all scores.

Each score is computed once, in float64, and serves both directions. Ties (:mod:`sightword.retrieval.similarity`) count
against the right answer. The ranks are the same whatever the size of the tiles, the number of threads or the device.
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
from sightword.retrieval.similarity import Similarity
from sightword.retrieval.similarity import similarity as similarity_named

_BLOCK_BYTES = 1 << 26
"""Memory for one block of pictures: what has more of them prepares the captions anew for each block."""
_TILE, _TILE_ELSEWHERE = 1024, 4096
"""Captions and pictures that are compared together, on a CPU and on other devices."""


@dataclass(frozen=True)
class Ranks:
    """The rank of the right answer to each query, from 1."""

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

    own = alike.own(owner)
    best = np.full(len(images), -np.inf)
    np.maximum.at(best, owner, own)
    bar_of_caption, bar_of_image = (torch.from_numpy(alike.bar(score)).to(alike.device) for score in (own, best))
    to_image, to_caption = (torch.ones(len(bar), dtype=torch.int64, device=alike.device) for bar in (own, best))
    top_images = Best(len(captions), len(images), top, alike) if top else None
    top_captions = Best(len(images), len(captions), top, alike) if top else None
    owner_rows = torch.from_numpy(owner).to(alike.device)
    with torch.inference_mode():
        for rows, columns, scores in _tiles(alike, progress=progress):
            if top_images and top_captions:
                top_images.offer(scores, rows=rows, candidates_from=columns.start)
                top_captions.offer(scores.T, rows=columns, candidates_from=rows.start)
            # The right answer is not a rival, in either direction.
            here = owner_rows[rows] - columns.start
            mine = torch.nonzero((here >= 0) & (here < scores.shape[1])).squeeze(1)
            scores[mine, here[mine]] = -torch.inf
            to_image[rows] += (scores >= bar_of_caption[rows, None]).sum(dim=1)
            to_caption[columns] += (scores >= bar_of_image[columns]).sum(dim=0)
    return Ranks(
        caption_to_image=to_image.cpu().numpy(),
        image_to_caption=to_caption.cpu().numpy(),
        image_of_caption=owner,
        top_images=top_images.done() if top_images else None,
        top_captions=top_captions.done() if top_captions else None,
    )


def _tiles(alike: Similarity, *, progress: bool) -> Iterator[tuple[slice, slice, torch.Tensor]]:
    """Yield captions, pictures and their scores, float64; the next tile overwrites the scores.

    Pictures are prepared in blocks, and the captions anew for each block. The tiles of a caption come in the order of
    the pictures, and those of a picture in the order of the captions.
    """
    side = _TILE if alike.device.type == "cpu" else _TILE_ELSEWHERE
    block = max(side, _BLOCK_BYTES // (8 * alike.dimensions) // side * side)
    n, m = alike.counts
    kept = torch.empty(min(side, n) * min(side, m), dtype=torch.float64, device=alike.device)
    total = -(-m // side) * -(-n // side)
    with tqdm(total=total, desc="scoring", unit="tile", disable=None if progress else True) as bar:
        for block_start in range(0, m, block):
            block_stop = min(block_start + block, m)
            images = alike.images(slice(block_start, block_stop))
            for first in range(0, n, side):
                rows = slice(first, min(first + side, n))
                captions = alike.captions(rows)
                for left in range(block_start, block_stop, side):
                    columns = slice(left, min(left + side, block_stop))
                    shape = (rows.stop - first, columns.stop - left)
                    scores = kept[: shape[0] * shape[1]].view(shape)
                    alike.scores(captions, images[left - block_start : columns.stop - block_start], scores)
                    yield rows, columns, scores
                    bar.update()
