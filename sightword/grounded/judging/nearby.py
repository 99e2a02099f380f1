"""Captions near chosen sentences, and captions of chosen groups as points of a plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightword.errors import SemanticsError
from sightword.evaluation.semantics.encoding import Embeddings
from sightword.grounded.judging.concreteness import tokens
from sightword.messages import plural
from sightword.model.similarity import unit_rows

FEWEST = 4
"""Points of a plane by t-SNE, at least."""


def neighbours(
    vectors: Embeddings, queries: Sequence[str], captions: Sequence[str], image_ids: Sequence[str], listed: int
) -> list[dict[str, Any]]:
    """Return the nearest different captions of each query by the cosine, nearest first, without the query itself.

    Each row has ``query``, ``rank`` from 1, ``sentence``, ``image_id`` and ``cosine``; of equal cosines and equal
    sentences the first caption leads.
    """
    first = {text: place for place, text in reversed(list(enumerate(captions)))}
    places = sorted(first.values())
    rows = unit_rows(vectors.of([captions[place] for place in places]).astype(np.float64))
    found = []
    for query, vector in zip(queries, unit_rows(vectors.of(list(queries)).astype(np.float64)), strict=True):
        cosines = np.round(rows @ vector, 9)
        order = [row for row in np.argsort(-cosines, kind="stable")[: listed + 1] if captions[places[row]] != query]
        for rank, row in enumerate(order[:listed], start=1):
            place = places[row]
            one = {"query": query, "rank": rank, "sentence": captions[place], "image_id": image_ids[place]}
            found.append(one | {"cosine": float(cosines[row])})
    return found


def members(captions: Sequence[str], groups: Sequence[str], most: int) -> list[tuple[str, int]]:
    """Return group and place of the captions that hold exactly one of the words, at most ``most`` of a group, evenly.

    SemanticsError if a group has fewer than two captions.
    """
    words = {group.strip().lower(): group for group in groups}
    of_group: dict[str, list[int]] = {group: [] for group in groups}
    for place, caption in enumerate(captions):
        held = {words[token] for token in tokens(caption) if token in words}
        if len(held) == 1:
            of_group[held.pop()].append(place)
    for group, places in of_group.items():
        if len(places) < 2:
            what = f"{plural(len(places), 'caption')} hold the word {group!r} and no other word of evaluate.groups"
            raise SemanticsError(what, where="evaluate.groups", expected="two or more", todo="Choose other words.")
    return [
        (group, places[number * len(places) // min(most, len(places))])
        for group, places in of_group.items()
        for number in range(min(most, len(places)))
    ]


def plane(vectors: NDArray[np.floating[Any]], seed: int) -> NDArray[np.float64]:
    """Return (N, 2) points of N vectors by t-SNE of their directions; fewer than four vectors lie on a line."""
    from sklearn.manifold import TSNE

    rows = unit_rows(vectors.astype(np.float64))
    if len(rows) < FEWEST:
        return np.column_stack([np.arange(len(rows)), np.zeros(len(rows))])
    perplexity = min(30.0, (len(rows) - 1) / 3)
    model = TSNE(perplexity=perplexity, init="pca", random_state=seed, n_jobs=1, metric="euclidean")
    found: NDArray[np.float64] = model.fit_transform(rows).astype(np.float64)
    return found
