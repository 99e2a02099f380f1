"""The neighbours that sentences and their pictures have in common (mNNO; Collell & Moens 2018).

Ties of cosines are those of :mod:`sightword.evaluation.retrieval.top_k`. Float32 computes all cosines and float64 those
that may be among the best, so that the neighbours are those of float64 alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sightword.evaluation.retrieval.top_k import PRODUCTS, ROUND, Singles
from sightword.evaluation.structure.inputs import Doubles, Rows

_BLOCK = 1 << 25
"""Scores that are held at once."""
_PART = 1 << 22
"""Scores among which the best are sought at once: where rows are alike, all of them are computed in float64."""
_NUMBERS = 1 << 23
"""Numbers gathered at once."""


def nearest(rows: Doubles, k: int, *, ordered: bool = False) -> Rows:
    """Return the (N, k) nearest other rows of each row by the cosine.

    Args:
        rows: (N, D) of length 1 or 0.
        k: from 1 to N - 1.
        ordered: nearest first; otherwise a row's neighbours are in no particular order.
    """
    # A rough score is the cosine minus a number of the row, computed around the rows' mean m: (a - m).(b - m) + b.m.
    # Its error is a share of the lengths, which are small where all rows lie in one cone.
    count, width = rows.shape
    middle = rows.mean(axis=0)
    lift = (rows @ middle).astype(np.float32)
    apart = (rows - middle).astype(np.float32)
    lengths = np.sqrt(np.einsum("nd,nd->n", apart, apart, dtype=np.float64))
    error = (1.01 * (width + 8) * ROUND * lengths * lengths.max() + 2.0**-21).astype(np.float32)
    found = np.empty((count, k), np.int64)
    step, fewer = max(1, _BLOCK // count), max(1, _PART // count)
    for start in range(0, count, step):
        block = slice(start, min(start + step, count))
        scores = apart[block] @ apart.T
        scores += lift
        scores[np.arange(len(scores)), np.arange(block.start, block.stop)] = -np.inf
        for first in range(block.start, block.stop, fewer):
            part = slice(first, min(first + fewer, block.stop))

            def least(last: Singles, part: slice = part) -> Singles:
                low: Singles = last - 2 * error[part]
                return low

            def exact(asked: Rows, candidates: Rows, first: int = first) -> Doubles:
                return PRODUCTS.rounded(_cosines(rows, first + asked, candidates))

            found[part] = _best(scores[part.start - start : part.stop - start], k, least, exact, ordered=ordered)
    return found


def _best(
    rough: Singles,
    k: int,
    least: Callable[[Singles], Singles],
    exact: Callable[[Rows, Rows], Doubles],
    *,
    ordered: bool,
) -> Rows:
    """Return the rows (n, K) of the candidates of n queries that have the best exact scores.

    Args:
        rough: (n, m) scores in float32; minus infinity for what is no candidate.
        k: K, at most the number of candidates.
        least: maps the K-th best rough scores (n,) to the lowest rough scores (n,) of candidates that may be among the
            best by exact scores.
        exact: maps queries (q,) and candidates of each (q, c) to exact scores (q, c).
        ordered: best first. Otherwise the order is free, and scores that are not needed are not computed.
    """
    count, most = rough.shape
    last = np.partition(rough, most - k, axis=1)[:, most - k]
    query, candidate = divmod(np.flatnonzero(rough >= least(last)[:, None]), most)
    many = np.bincount(query, minlength=count)
    rows = np.empty((count, k), np.int64)
    clear = np.zeros(count, bool) if ordered else many == k
    rows[clear] = candidate[clear[query]].reshape(-1, k)
    room = np.frexp((many - 1) // k)[1]  # queries with similar numbers of candidates go together
    for size in np.unique(room[~clear]):
        group = ~clear & (room == size)
        asked = np.flatnonzero(group)
        taken = np.arange(many[asked].max()) < many[asked, None]
        candidates = np.zeros(taken.shape, np.int64)
        candidates[taken] = candidate[group[query]]
        found = exact(asked, candidates)
        found[~taken] = -np.inf
        order = np.argsort(-found, axis=1, kind="stable")[:, :k]  # the candidates are in the order of their rows
        rows[asked] = np.take_along_axis(candidates, order, axis=1)
    return rows


def _cosines(rows: Doubles, asked: Rows, candidates: Rows) -> Doubles:
    """Return the cosines (q, c) of some rows (q,) with their candidates (q, c)."""
    if 16 * candidates.shape[1] > len(rows):  # one product with all rows is then faster
        cosines: Doubles = np.take_along_axis(rows[asked] @ rows.T, candidates, axis=1)
        return cosines
    step = max(1, _NUMBERS // (candidates.shape[1] * rows.shape[1]))
    parts = [slice(start, start + step) for start in range(0, len(asked), step)]
    return np.concatenate([np.matmul(rows[candidates[at]], rows[asked[at]][:, :, None])[:, :, 0] for at in parts])


def common(first: Rows, second: Rows) -> Doubles:
    """Return the (N,) shares of K neighbours that two lists (N, K) have in common."""
    both = np.sort(np.concatenate([first, second], axis=1), axis=1)
    shared: Doubles = (both[:, 1:] == both[:, :-1]).sum(axis=1) / first.shape[1]
    return shared
