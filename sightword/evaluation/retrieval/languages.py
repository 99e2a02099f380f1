"""Retrieval with captions in several languages: each language by itself, and captions by captions across languages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sightword.evaluation.retrieval.bootstrap import DEPTHS
from sightword.evaluation.retrieval.protocols import entry, hits
from sightword.evaluation.retrieval.ranks import Pairs, rank, rank_best
from sightword.statistics.inference import proportion_interval


def languages_entries(
    sentences: NDArray[np.generic],
    images: NDArray[np.generic] | None,
    owners: NDArray[np.int64],
    languages: Sequence[str],
    similarity: str,
    *,
    device: torch.device | None = None,
) -> dict[str, Any]:
    """Return the entries of ``metrics/retrieval.json`` by language; empty for captions of one language.

    Args:
        sentences: (M, D) the captions' embeddings.
        images: (N, D) the pictures' embeddings; None for an encoder without any: recall across languages alone.
        owners: (M,) the row of each caption's picture.
        languages: (M,) the code of each caption's language.
        similarity: as in :func:`sightword.evaluation.retrieval.ranks.rank`.
        device: the device that computes the scores.

    Returns:
        ``language_de``: an entry as of the protocol ``full``, of the captions in German and the pictures that have one.
        ``across_languages``: for ``en-de`` the recalls of captions in English among all captions in German, with
        ``mean_rank``, ``median_rank`` and ``queries``; captions of the same picture are right, and the best-ranked one
        counts. Queries are of pictures with captions in both languages.
    """
    codes = np.asarray(languages, dtype=object)
    named = sorted(set(languages))
    if len(named) < 2:
        return {}
    rows = {code: np.flatnonzero(codes == code) for code in named}
    found: dict[str, Any] = {}
    if images is not None:
        for code, own in rows.items():
            pictures, place = np.unique(owners[own], return_inverse=True)
            ranked = rank(sentences[own], images[pictures], place, similarity, device=device)
            found[f"language_{code}"] = entry([ranked])
    across = {}
    for one, other in permutations(named, 2):
        queries = rows[one][np.isin(owners[rows[one]], owners[rows[other]])]
        if len(queries):
            right = _of_same(owners[queries], owners[rows[other]])
            ranks = rank_best(sentences[queries], sentences[rows[other]], right, similarity, device=device)
            across[f"{one}-{other}"] = _recalls(ranks)
    if across:
        found["across_languages"] = across
    return found


def _of_same(asked: NDArray[np.int64], given: NDArray[np.int64]) -> Pairs:
    """Return the rows of queries and of candidates whose pictures, (Q,) and (N,), are the same."""
    order = np.argsort(given, kind="stable")
    first, end = (np.searchsorted(given[order], asked, side) for side in ("left", "right"))
    counts = end - first
    queries = np.repeat(np.arange(len(asked)), counts)
    within = np.arange(len(queries)) - np.repeat(np.cumsum(counts) - counts, counts)
    return queries, order[np.repeat(first, counts) + within]


def _recalls(ranks: NDArray[np.int64]) -> dict[str, Any]:
    recalls = {f"r{k}": hits(ranks, k) for k in DEPTHS}
    return {
        **recalls,
        **{f"{name}_ci95": proportion_interval(value, len(ranks)) for name, value in recalls.items()},
        "mean_rank": float(ranks.mean()),
        "median_rank": float(np.median(ranks)),
        "queries": len(ranks),
    }
