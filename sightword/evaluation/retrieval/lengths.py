"""Short and long captions of one picture as queries (Vendrov et al. 2016, section 4.6 and Figure 3).

A short caption leaves more out, so it stands higher in an order than a long one. A symmetric similarity takes what is
left out for a difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sightword.captions.units import split
from sightword.evaluation.retrieval.ranks import rank_best

NO_PAIRS = "no picture has two captions of different lengths"


def words(text: str) -> int:
    """Return the number of words of a caption: runs of letters with their marks, digits and underscores."""
    return sum(word[0] == "_" or word[0].isalnum() for word in split(text, "word"))


def length_pairs(
    lengths: NDArray[np.int64], image_of_caption: NDArray[np.int64], most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of the shorter and of the longer captions of the pairs with the largest difference in length.

    Args:
        lengths: (M,) the length of each caption.
        image_of_caption: (M,) the row of each caption's picture; a pair is of one picture.
        most: the number of pairs; fewer, if fewer differ at all.

    Returns:
        Two arrays (P,), the largest difference first; equal differences are in the order of the pictures, then of the
        captions.
    """
    order = np.argsort(image_of_caption, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(image_of_caption[order])) + 1)
    both = [part[np.column_stack(np.triu_indices(len(part), 1))] for part in parts]
    pairs = np.concatenate([*both, np.empty((0, 2), np.int64)])
    pairs = np.where((lengths[pairs[:, 0]] > lengths[pairs[:, 1]])[:, None], pairs[:, ::-1], pairs)
    difference = lengths[pairs[:, 1]] - lengths[pairs[:, 0]]
    first = np.argsort(-difference, kind="stable")[:most]
    shorter, longer = pairs[first[difference[first] > 0]].T
    return shorter, longer


def lengths_entry(
    sentences: NDArray[np.generic],
    ranks: NDArray[np.int64],
    similarity: str,
    *,
    most: int,
    texts: Sequence[str],
    image_of_caption: NDArray[np.int64],
    device: torch.device | None = None,
) -> dict[str, Any] | None:
    """Return the entry ``lengths`` of ``metrics/retrieval.json`` for the ``most`` pairs (:func:`length_pairs`).

    Args:
        sentences: (M, D) the captions' embeddings.
        ranks: (M,) the rank of the picture for each caption, among all pictures of the split.
        similarity: as in :func:`sightword.evaluation.retrieval.ranks.rank`. Among all other captions, those of the same
            picture included, the longer caption is on the side of the pictures.
        most: the number of pairs.
        texts: (M,) the captions.
        image_of_caption: (M,) the row of each caption's picture.
        device: the device that computes the scores.

    Returns:
        ``pairs`` and ``pictures``, their numbers; ``shorter`` and ``longer``, each with the mean of ``words``, and
        ``mean_rank`` and ``median_rank`` of the picture for these captions; ``longer_for_shorter``, both ranks of the
        longer caption for the shorter one, among all other captions. None without pairs.
    """
    lengths = np.array([words(text) for text in texts])
    shorter, longer = length_pairs(lengths, image_of_caption, most)
    rows = np.arange(len(shorter))
    if not len(rows):
        return None
    of_longer = rank_best(
        sentences[shorter], sentences, (rows, longer), similarity, left_out=(rows, shorter), device=device
    )

    def both(ranks: NDArray[np.int64]) -> dict[str, float]:
        return {"mean_rank": float(ranks.mean()), "median_rank": float(np.median(ranks))}

    return {
        "pairs": len(rows),
        "pictures": len(np.unique(image_of_caption[shorter])),
        "shorter": {"words": float(lengths[shorter].mean()), **both(ranks[shorter])},
        "longer": {"words": float(lengths[longer].mean()), **both(ranks[longer])},
        "longer_for_shorter": both(of_longer),
    }
