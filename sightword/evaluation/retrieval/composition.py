"""Two words as one query, composed from their embeddings, on pictures whose content is known.

The sample's table ``drawn.parquet`` has the colours, shapes and background of each picture. A query is composed of two
of these attributes, and each picture that has both is right (compare Figure 4 of Vendrov et al. 2016, which shows
examples only).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sightword.encoder.composition import compose
from sightword.evaluation.retrieval.bootstrap import DEPTHS
from sightword.evaluation.retrieval.protocols import hits
from sightword.evaluation.retrieval.ranks import Pairs, rank_best
from sightword.model.shape import ComparisonName


def composition_entry(
    encode: Callable[[list[str]], NDArray[np.float32]],
    images: NDArray[np.float32],
    drawn: Iterable[tuple[str, str]],
    image_ids: Sequence[str],
    similarity: ComparisonName,
    *,
    device: torch.device | None = None,
) -> dict[str, Any] | None:
    """Return the entry ``composition`` of ``metrics/retrieval.json``; None if no picture has two known attributes.

    Args:
        encode: embeds texts, (n, D).
        images: (N, D) the pictures' embeddings.
        drawn: (picture id, attribute); other pictures than the given ones do not count.
        image_ids: (N,) the pictures' ids.
        similarity: the encoder's similarity of captions and pictures.
        device: the device that computes the scores.

    Returns:
        ``queries``, the number of pairs of attributes that are together in at least one picture; then, each with
        ``r1``, ``r5``, ``r10`` (percent of the queries with a right picture among the first k; ties count against),
        ``composed`` (by :func:`sightword.encoder.composition.compose`, compared by the encoder's similarity), ``sum``
        (the sum of both embeddings at length 1, compared by the cosine), ``alone`` (each of the two attributes alone),
        and ``chance`` (a random order of the pictures).
    """
    attributes, both, right = attribute_pairs(drawn, image_ids)
    if not len(both):
        return None
    words = np.asarray(encode(attributes))
    operands = words[both]  # (Q, 2, D)
    count = np.bincount(right[0])

    def ranks(queries: NDArray[np.float32], by: str) -> NDArray[np.int64]:
        return rank_best(queries, images, right, by, device=device)

    alone = [ranks(operands[:, place], similarity) for place in (0, 1)]
    return {
        "queries": len(both),
        "composed": _recalls(ranks(compose(operands, similarity), similarity)),
        "sum": _recalls(ranks(compose(operands, "cosine"), "cosine")),
        "alone": _recalls(np.concatenate(alone)),
        "chance": {f"r{k}": _chance(count, len(image_ids), k) for k in DEPTHS},
    }


def attribute_pairs(
    drawn: Iterable[tuple[str, str]], image_ids: Sequence[str]
) -> tuple[list[str], NDArray[np.int64], Pairs]:
    """Return the attributes, the pairs (Q, 2) of them that a picture has, and the rows of queries and their pictures.

    The attributes are sorted, and so are the pairs.
    """
    row_of = {image_id: row for row, image_id in enumerate(image_ids)}
    own: dict[int, set[str]] = {}
    for image_id, attribute in drawn:
        if image_id in row_of:
            own.setdefault(row_of[image_id], set()).add(attribute)
    attributes = sorted({attribute for each in own.values() for attribute in each})
    place = {attribute: number for number, attribute in enumerate(attributes)}
    pictures: dict[tuple[int, int], list[int]] = {}
    for row in sorted(own):
        for pair in itertools.combinations(sorted(place[attribute] for attribute in own[row]), 2):
            pictures.setdefault(pair, []).append(row)
    both = sorted(pictures)
    queries = np.repeat(np.arange(len(both)), [len(pictures[pair]) for pair in both])
    rows = [row for pair in both for row in pictures[pair]]
    return attributes, np.array(both, np.int64).reshape(-1, 2), (queries, np.array(rows, np.int64))


def _recalls(ranks: NDArray[np.int64]) -> dict[str, float]:
    return {f"r{k}": hits(ranks, k) for k in DEPTHS}


def _chance(right: NDArray[np.int64], pictures: int, depth: int) -> float:
    """Return the expected recall in percent, given the number (Q,) of each query's right pictures."""
    depth = min(depth, pictures)
    missed = [math.comb(pictures - number, depth) / math.comb(pictures, depth) for number in right.tolist()]
    return 100.0 * (1.0 - sum(missed) / len(missed))
