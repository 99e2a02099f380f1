"""Exact ranks of the right answers, and the best candidates, in one tiled pass over all scores.

Each score is computed once, in float64, and serves both directions. Ties
(:mod:`sightword.evaluation.retrieval.similarity`) count against the right answer. The ranks are the same whatever the
size of the tiles, the number of threads or the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from sightword.evaluation.retrieval.similarity import Doubles, Rows, Similarity, Ties, embeddings, owners
from sightword.evaluation.retrieval.similarity import similarity as similarity_named


@dataclass(frozen=True)
class Top:
    """The best candidates of each query, best first; equal scores in the order of the candidates' rows."""

    candidate: Rows
    """(Q, K) the candidates' rows; K is smaller than requested if there are fewer candidates."""
    score: Doubles
    """(Q, K) the scores: cosines to within 2.3e-10, dot products to within 2.3e-10 times the longest rows, order
    similarities to within a share of 6e-8."""


class Best:
    """Collects the ``top`` best candidates of each query from tiles of exact scores that come one after another."""

    def __init__(self, queries: int, candidates: int, top: int, ties: Ties, device: torch.device) -> None:
        kept = (queries, min(top, candidates))
        self._ties = ties
        self._score = torch.full(kept, -torch.inf, dtype=torch.float64, device=device)
        self._candidate = torch.full(kept, -1, dtype=torch.int64, device=device)

    def offer(self, scores: torch.Tensor, *, rows: slice, candidates_from: int) -> None:
        """Merge a tile (queries, candidates); the tiles of a query come in the order of the candidates."""
        known = self._score[rows]
        better = torch.nonzero(self._ties.rounded(scores.amax(dim=1)) > known[:, -1]).squeeze(1)
        if not len(better):  # after some tiles, few queries have a new candidate
            return
        known, new = known[better], self._ties.rounded(scores[better])
        # The order of equal values is not defined in topk, so no two may be equal.
        place = torch.arange(new.shape[1], dtype=torch.float64, device=new.device)
        chosen = torch.topk(self._ties.lowered(new, place), min(known.shape[1], new.shape[1]), dim=1).indices
        both = torch.cat([known, new.gather(1, chosen)], dim=1)
        which = torch.cat([self._candidate[rows][better], chosen + candidates_from], dim=1)
        order = torch.sort(both, dim=1, descending=True, stable=True).indices[:, : known.shape[1]]
        self._score[rows.start + better] = both.gather(1, order)
        self._candidate[rows.start + better] = which.gather(1, order)

    def done(self, unit: float) -> Top:
        """Return the best of each query; scores are multiplied by the unit of the similarity."""
        return Top(self._candidate.cpu().numpy(), self._score.cpu().numpy() * unit)


_BLOCK_BYTES = 1 << 26
"""Memory for one block of pictures; with several blocks, the captions are prepared anew for each."""
_TILE, _TILE_ELSEWHERE = 1024, 4096
"""Captions and pictures of a tile, on a CPU and on other devices."""

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Rows of queries and rows of candidates, of the same length."""


@dataclass(frozen=True)
class Ranks:
    """The rank of the correct answer to each query, from 1."""

    caption_to_image: NDArray[np.int64]
    """(M,) 1 + the number of other pictures that score at least as high for the caption as its own."""
    image_to_caption: NDArray[np.int64]
    """(N,) 1 + the number of other pictures' captions that score at least as high as the best of the picture's own."""
    image_of_caption: NDArray[np.int64]
    """(M,) the row of each caption's picture, as given."""
    top_images: Top | None = None
    """The best pictures for each caption."""
    top_captions: Top | None = None
    """The best captions for each picture, including its own."""


def rank(
    caption_embeddings: ArrayLike,
    image_embeddings: ArrayLike,
    image_of_caption: ArrayLike,
    similarity: str = "cosine",
    *,
    top: int = 0,
    device: torch.device | None = None,
    progress: bool = False,
) -> Ranks:
    """Rank every picture for every caption and every caption for every picture.

    Memory beyond the embeddings does not depend on the number of pairs, and stays below 500 MB.

    Args:
        caption_embeddings: (M, D) finite numbers, in memory or mapped from a file.
        image_embeddings: (N, D), the same.
        image_of_caption: (M,) the row of each caption's picture, in any order; each picture has at least one caption.
        similarity: "cosine", "dot", "order" or "reversed_order"
            (:func:`sightword.evaluation.retrieval.similarity.similarity`).
        top: the number of best candidates to keep for each query.
        device: the device that computes the scores; the CPU by default.
        progress: show a progress bar on a terminal.

    Raises:
        ScoringError: shapes that do not fit, values that are not finite, a caption without its picture, a picture
            without a caption, or an unknown similarity.
    """
    captions = embeddings(caption_embeddings, "caption_embeddings")
    images = embeddings(image_embeddings, "image_embeddings")
    owner = owners(image_of_caption, captions, images)
    alike = similarity_named(similarity, captions, images, device or torch.device("cpu"))
    own = alike.pairs(np.arange(len(owner)), owner)
    best = np.full(len(images), -np.inf)
    np.maximum.at(best, owner, own)
    owner_rows, bar_of_caption, bar_of_image = (
        torch.from_numpy(values).to(alike.device) for values in (owner, alike.bar(own), alike.bar(best))
    )
    to_image = torch.ones(len(captions), dtype=torch.int64, device=alike.device)
    to_caption = torch.ones(len(images), dtype=torch.int64, device=alike.device)
    top_images = Best(len(captions), len(images), top, alike.ties, alike.device) if top else None
    top_captions = Best(len(images), len(captions), top, alike.ties, alike.device) if top else None
    with torch.inference_mode():
        for rows, columns, scores in tiles(alike, progress=progress):
            if top_images and top_captions:
                top_images.offer(scores, rows=rows, candidates_from=columns.start)
                top_captions.offer(scores.T, rows=columns, candidates_from=rows.start)
            # The correct answer does not compete with itself, in either direction.
            here = owner_rows[rows] - columns.start
            mine = torch.nonzero((here >= 0) & (here < scores.shape[1])).squeeze(1)
            scores[mine, here[mine]] = -torch.inf
            to_image[rows] += (scores >= bar_of_caption[rows, None]).sum(dim=1)
            to_caption[columns] += (scores >= bar_of_image[columns]).sum(dim=0)
    return Ranks(
        caption_to_image=to_image.cpu().numpy(),
        image_to_caption=to_caption.cpu().numpy(),
        image_of_caption=owner,
        top_images=top_images.done(alike.unit) if top_images else None,
        top_captions=top_captions.done(alike.unit) if top_captions else None,
    )


def rank_best(
    query_embeddings: ArrayLike,
    candidate_embeddings: ArrayLike,
    right: Pairs,
    similarity: str = "cosine",
    *,
    left_out: Pairs | None = None,
    device: torch.device | None = None,
) -> NDArray[np.int64]:
    """Return the rank (Q,) of the best right candidate of each query; right candidates do not compete with each other.

    Queries are on the side of the captions. ``right`` has the rows of queries and of their right candidates, at least
    one for each; ``left_out`` those of queries and of candidates that they leave out. Raises as :func:`rank`.
    """
    queries = embeddings(query_embeddings, "query_embeddings")
    candidates = embeddings(candidate_embeddings, "candidate_embeddings")
    alike = similarity_named(similarity, queries, candidates, device or torch.device("cpu"))
    best = np.full(len(queries), -np.inf)
    np.maximum.at(best, right[0], alike.pairs(*right))
    bar = torch.from_numpy(alike.bar(best)).to(alike.device)
    ranks = torch.ones(len(queries), dtype=torch.int64, device=alike.device)
    no_rivals = [np.concatenate(each) for each in zip(right, left_out, strict=True)] if left_out else [*right]
    asked, given = (torch.from_numpy(rows).to(alike.device) for rows in no_rivals)
    with torch.inference_mode():
        for rows, columns, scores in tiles(alike, progress=False):
            here = (rows.start <= asked) & (asked < rows.stop) & (columns.start <= given) & (given < columns.stop)
            scores[asked[here] - rows.start, given[here] - columns.start] = -torch.inf
            ranks[rows] += (scores >= bar[rows, None]).sum(dim=1)
    return ranks.cpu().numpy()


def tiles(alike: Similarity, *, progress: bool) -> Iterator[tuple[slice, slice, torch.Tensor]]:
    """Yield the rows of captions and pictures of each tile with their scores, which the next tile overwrites.

    The tiles of a caption come in the order of the pictures, and the tiles of a picture in the order of the captions.
    """
    side = _TILE if alike.device.type == "cpu" else _TILE_ELSEWHERE
    block = max(side, _BLOCK_BYTES // (8 * alike.dimensions) // side * side)
    n, m = alike.counts
    kept = torch.empty(min(side, n) * min(side, m), dtype=torch.float64, device=alike.device)
    total = -(-m // side) * -(-n // side)
    bar = tqdm(total=total, desc="scoring", unit="tile", disable=None if progress else True)
    with bar, threadpool_limits(1, user_api="blas"):  # the last digits of a product by several threads depend on them
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
