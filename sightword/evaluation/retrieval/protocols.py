"""Computes the entries of ``metrics/retrieval.json`` from ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from sightword.evaluation.retrieval.bootstrap import DEPTHS, intervals
from sightword.evaluation.retrieval.ranks import Ranks, rank
from sightword.statistics.inference import proportion_interval

DIRECTIONS = ("caption_to_image", "image_to_caption")


def score(
    caption_embeddings: ArrayLike, image_embeddings: ArrayLike, image_of_caption: ArrayLike, similarity: str = "cosine"
) -> dict[str, Any]:
    """Score embeddings by retrieval among all pictures and captions.

    The rank of a correct answer is 1 + the number of wrong candidates that score at least as high, so ties count
    against the answer. The rank for a picture is the best rank among its own captions, which do not compete with each
    other. Pictures have any number of captions.

    Args:
        caption_embeddings: (M, D) finite numbers.
        image_embeddings: (N, D) finite numbers.
        image_of_caption: (M,) the row of each caption's picture, in any order.
        similarity: "cosine", for embeddings of any lengths; or, for embeddings as they are, "dot", the dot product;
            "order", ``-sum_d max(0, c_d - i_d)^2`` of caption c and picture i (Vendrov et al. 2016); or
            "reversed_order", ``-sum_d max(0, i_d - c_d)^2``.

    Returns:
        ``caption_to_image`` and ``image_to_caption``, each with ``r1``, ``r5``, ``r10`` (percent of the queries whose
        rank is 1, at most 5, at most 10), ``rsum`` (the sum of the three), ``median_rank``, ``mean_rank``, ``queries``;
        ``r1_ci95``, ``r5_ci95``, ``r10_ci95`` (in percent, :func:`sightword.statistics.inference.proportion_interval`);
        ``r1_bootstrap95``, ``r5_bootstrap95``, ``r10_bootstrap95`` and ``median_rank_bootstrap95`` ([low, high] by
        resampling pictures with their captions); and ``rsum``, the sum of the six recalls.

    Raises:
        ScoringError: embeddings and captions that do not fit together, values that are not finite, or an unknown
            similarity.
    """
    return entry([rank(caption_embeddings, image_embeddings, image_of_caption, similarity)])


def entry(folds: Sequence[Ranks]) -> dict[str, Any]:
    """Return one protocol's entry from the ranks of its folds; ``full`` has one fold.

    Recalls, mean ranks and intervals are over the queries of all folds together. The median rank is the mean of the
    folds' medians, as in the published tables.
    """
    ranks_of = {direction: [getattr(ranks, direction) for ranks in folds] for direction in DIRECTIONS}
    pictures = (
        [ranks.image_of_caption for ranks in folds],
        [np.arange(len(ranks.image_to_caption)) for ranks in folds],
    )
    resampled = intervals(
        [list(zip(ranks, rows, strict=True)) for ranks, rows in zip(ranks_of.values(), pictures, strict=True)]
    )
    found: dict[str, Any] = {}
    for (direction, each), ends in zip(ranks_of.items(), resampled, strict=True):
        ranks = np.concatenate(each)
        recalls = {f"r{k}": hits(ranks, k) for k in DEPTHS}
        found[direction] = {
            **recalls,
            "rsum": sum(recalls.values()),
            "median_rank": float(np.mean([np.median(fold) for fold in each])),
            "mean_rank": float(ranks.mean()),
            "queries": len(ranks),
            **{f"{name}_ci95": proportion_interval(value, len(ranks)) for name, value in recalls.items()},
            **{f"{name}_bootstrap95": interval for name, interval in ends.items()},
        }
    found["rsum"] = sum(found[direction]["rsum"] for direction in DIRECTIONS)
    return found


def hits(ranks: NDArray[np.int64], k: int) -> float:
    """Return the percentage of queries with a rank of at most ``k``."""
    return 100.0 * int((ranks <= k).sum()) / len(ranks)


def rank_folds(
    caption_embeddings: NDArray[np.generic],
    image_embeddings: NDArray[np.generic],
    image_of_caption: NDArray[np.int64],
    folds: Sequence[NDArray[np.int64]],
    similarity: str = "cosine",
    *,
    device: torch.device | None = None,
) -> list[Ranks]:
    """Return the ranks of each fold among its own pictures and their captions only.

    Args:
        caption_embeddings: (M, D).
        image_embeddings: (N, D).
        image_of_caption: (M,) the row of each caption's picture.
        folds: the picture rows of each fold (:func:`sightword.evaluation.retrieval.folds.fold_rows`).
        similarity: as in :func:`score`.
        device: the device that computes the scores.

    Raises:
        ScoringError: as :func:`score`.
    """
    found = []
    for rows in folds:
        place = np.full(len(image_embeddings), -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        captions = np.flatnonzero(place[image_of_caption] >= 0)
        owners = place[image_of_caption[captions]]
        found.append(rank(caption_embeddings[captions], image_embeddings[rows], owners, similarity, device=device))
    return found
