"""Exact ranks of the right answers, and the best candidates, in one tiled pass over all scores.

Each score is computed once and serves both directions. Ties (:mod:`pipeline.retrieval.similarity`) count against
the right answer. The ranks are the same whatever the size of the tiles, the number of threads or the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from pipeline.retrieval.inputs import embeddings, owners, tell_zeros
from pipeline.retrieval.similarity import Similarity
from pipeline.retrieval.similarity import similarity as similarity_named

_BLOCK_BYTES = 1 << 25
"""Memory for one block of embeddings in float64, and for one tile of scores."""


@dataclass(frozen=True)
class Top:
    """The best candidates of each query, best first; equal scores in the order of the candidates' rows."""

    candidate: NDArray[np.int64]
    """(Q, K) the candidate's row; K is less than asked for where there are fewer candidates."""
    score: NDArray[np.float64]
    """(Q, K) its score: a cosine to within 2.3e-10, an order similarity to a share of 6e-8."""


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
        similarity: "cosine" (a row of zeros has 0 with everything; the log tells how many there are), or "order",
            ``-sum_d max(0, c_d - i_d)^2``, which takes embeddings as they are.
        top: how many of the best candidates are kept for each query; 0 for none.
        device: where the scores are computed; the CPU by default.
        progress: show a progress bar on a terminal.

    Returns:
        The ranks, and the best candidates when ``top`` is not 0. Beyond the
        embeddings this takes some 220 MB, whatever their number; for "order" and
        its compiler, some 460 MB.

    Raises:
        ScoringError: shapes that do not fit, values that are not finite, a caption
            of a picture that is not there, a picture without a caption.
    """
    images, captions = (
        embeddings(image_embeddings, "image_embeddings"),
        embeddings(caption_embeddings, "caption_embeddings"),
    )
    owner = owners(image_of_caption, images, captions)
    device = device or torch.device("cpu")
    alike = similarity_named(
        similarity, dimensions=images.shape[1], pairs=float(len(images)) * len(captions), device=device
    )
    if similarity == "cosine":
        tell_zeros(images, "image_embeddings")
        tell_zeros(captions, "caption_embeddings")

    own = _own_scores(images, captions, owner, alike)
    best = np.full(len(images), -np.inf)
    np.maximum.at(best, owner, own)
    caption_bar = torch.from_numpy(alike.bar(own)).to(device)[:, None]  # (M, 1) what a rival must reach
    image_bar = torch.from_numpy(alike.bar(best)).to(device)[None, :]  # (1, N)
    owner_rows = torch.from_numpy(owner).to(device)

    to_image = torch.zeros(len(captions), dtype=torch.int64, device=device)
    to_caption = torch.zeros(len(images), dtype=torch.int64, device=device)
    top_images = _Best(len(captions), top, alike, device) if top else None
    top_captions = _Best(len(images), top, alike, device) if top else None

    columns = _rows_in_block(images.shape[1], most=4096)
    rows = _rows_in_block(max(images.shape[1], columns), most=4096)
    tiles = tqdm(
        total=-(-len(images) // columns) * -(-len(captions) // rows),
        desc="scoring",
        unit="tile",
        disable=None if progress else True,
    )
    with tiles, torch.inference_mode():
        for left, image_block in _blocks(images, columns, alike, device):
            right = left + len(image_block)
            for first, caption_block in _blocks(captions, rows, alike, device):
                last = first + len(caption_block)
                scores = alike.scores(caption_block, image_block)  # (captions, images)
                if top_images and top_captions:
                    rounded = alike.rounded(scores)
                    top_images.offer(rounded, rows=slice(first, last), candidates_from=left)
                    top_captions.offer(rounded.T, rows=slice(left, right), candidates_from=first)
                here = owner_rows[first:last]
                own_rows = torch.nonzero((here >= left) & (here < right)).squeeze(1)
                scores[own_rows, here[own_rows] - left] = -torch.inf  # the right answer is no rival, either way
                to_image[first:last] += torch.count_nonzero(scores >= caption_bar[first:last], dim=1)
                to_caption[left:right] += torch.count_nonzero(scores >= image_bar[:, left:right], dim=0)
                tiles.update()
    return Ranks(
        caption_to_image=to_image.cpu().numpy() + 1,
        image_to_caption=to_caption.cpu().numpy() + 1,
        image_of_caption=owner,
        top_images=top_images.done() if top_images else None,
        top_captions=top_captions.done() if top_captions else None,
    )


class _Best:
    """The best candidates so far of each query."""

    def __init__(self, queries: int, top: int, alike: Similarity, device: torch.device) -> None:
        self._top, self._alike = top, alike
        self._score = torch.full((queries, top), -torch.inf, dtype=torch.float64, device=device)
        self._candidate = torch.full((queries, top), -1, dtype=torch.int64, device=device)

    def offer(self, scores: torch.Tensor, *, rows: slice, candidates_from: int) -> None:
        """Merge a tile (queries, candidates) of rounded scores; tiles come in the order of the candidates."""
        count = min(self._top, scores.shape[1])
        # The order of equal values is not defined in topk, so no two may be equal: the first of a tie leads.
        place = torch.arange(scores.shape[1], dtype=torch.float64, device=scores.device)
        chosen = torch.topk(self._alike.lowered(scores, place), count, dim=1).indices
        score = torch.cat([self._score[rows], scores.gather(1, chosen)], dim=1)
        candidate = torch.cat([self._candidate[rows], chosen + candidates_from], dim=1)
        order = torch.sort(score, dim=1, descending=True, stable=True).indices[:, : self._top]
        self._score[rows] = score.gather(1, order)
        self._candidate[rows] = candidate.gather(1, order)

    def done(self) -> Top:
        candidate, score = self._candidate.cpu().numpy(), self._score.cpu().numpy()
        filled = int((candidate[:1] >= 0).sum())  # the same for every query: all see all candidates
        return Top(candidate[:, :filled], score[:, :filled])


def _rows_in_block(width: int, *, most: int) -> int:
    return max(64, min(most, _BLOCK_BYTES // (8 * width)))


def _blocks(
    matrix: NDArray[np.generic], size: int, alike: Similarity, device: torch.device
) -> Iterator[tuple[int, torch.Tensor]]:  # first row, (size, D)
    for start in range(0, len(matrix), size):
        yield start, torch.from_numpy(alike.rows(matrix[start : start + size])).to(device)


def _own_scores(
    images: NDArray[np.generic], captions: NDArray[np.generic], owner: NDArray[np.int64], alike: Similarity
) -> NDArray[np.float64]:
    """(M,) the score of each caption with its own picture."""
    own = np.empty(len(captions))
    size = _rows_in_block(images.shape[1], most=4096)
    order = np.argsort(owner, kind="stable")  # so that each block of pictures is prepared once
    ends = np.searchsorted(owner[order], np.arange(0, len(images) + size, size))
    for number, left in enumerate(range(0, len(images), size)):
        block = alike.rows(images[left : left + size])
        for start in range(ends[number], ends[number + 1], size):
            part = order[start : min(start + size, ends[number + 1])]
            own[part] = alike.own(alike.rows(captions[part]), block[owner[part] - left])
    return own
