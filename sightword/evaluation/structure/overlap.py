"""The neighbours that sentences and their pictures have in common (mNNO; Collell & Moens 2018).

Cosines are tied if they are equal when rounded to multiples of 2**-32; of tied neighbours, the one in the lower row
comes first. A single-precision pass in tiles finds the candidates; where its error could change the result, the
candidates' cosines are computed again in float64. The result is the one of float64.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from sightword.evaluation.structure.inputs import Doubles, Rows

_GRID = 2.0**32
_TILE = 6144
"""Rows and columns of a tile; a tile beside itself is multiplied once for both halves."""
_BLOCK = 1024
"""Rows that are compared with all rows at once."""
_SPARE = 6
"""Candidates beyond K of each row; rows with more of them within the error are compared with all rows in float64."""
_NUMBERS = 1 << 23
"""Numbers gathered at once."""


def nearest(rows: Doubles, k: int, *, ordered: bool = False) -> Rows:
    """Return the (N, k) nearest other rows of each row by the cosine.

    Args:
        rows: (N, D) of length 1 or 0.
        k: from 1 to N - 1.
        ordered: nearest first; otherwise a row's neighbours are in no particular order.
    """
    values, found, error = _candidates(rows, min(k + _SPARE, len(rows) - 1))
    last = values[:, k - 1]
    if values.shape[1] > k:
        unclear = values[:, k] >= last - 2 * error
        full = (values[:, -1] >= last - 2 * error) & (values.shape[1] < len(rows) - 1)
    else:
        unclear = full = np.zeros(len(rows), bool)
    chosen = found[:, :k].copy()
    again = np.flatnonzero((unclear | ordered) & ~full)
    step = max(1, _NUMBERS // (found.shape[1] * rows.shape[1]))
    for start in range(0, len(again), step):
        these = again[start : start + step]
        cosines = np.matmul(rows[found[these]], rows[these][:, :, None])[:, :, 0]
        chosen[these] = _best(cosines, found[these], k)
    these = np.flatnonzero(full)
    for start in range(0, len(these), _BLOCK):
        part = these[start : start + _BLOCK]
        cosines = rows[part] @ rows.T
        cosines[np.arange(len(part)), part] = -np.inf
        chosen[part] = _best(cosines, np.broadcast_to(np.arange(len(rows)), cosines.shape), k)
    return chosen


def _best(cosines: Doubles, candidates: Rows, k: int) -> Rows:
    """Return the (n, k) best of (n, m) candidates, ties by their rows."""
    rounded = np.round(cosines * _GRID)
    if cosines.shape[1] > 4 * k:
        # The k-th largest bounds the choice; candidates are in the order of their rows, so the stable sort keeps it.
        order = np.argsort(-rounded, axis=1, kind="stable")[:, :k]
    else:
        order = np.lexsort((candidates, -rounded), axis=1)[:, :k]
    return np.take_along_axis(candidates, order, axis=1)


def _candidates(rows: Doubles, most: int) -> tuple[NDArray[np.float32], Rows, NDArray[np.float32]]:
    """Return scores and rows of the ``most`` best candidates, best first, and the largest error of a row's scores.

    A score is the cosine minus a number of the row, computed around the rows' mean m: ``(a - m).(b - m) + b.m``. The
    error of single precision is a share of the lengths, which are small where all rows lie in one cone.
    """
    count = len(rows)
    middle = rows.mean(axis=0)
    lift = (rows @ middle).astype(np.float32)
    apart = (rows - middle).astype(np.float32)
    lengths = np.sqrt(np.einsum("nd,nd->n", apart, apart, dtype=np.float64))
    rounding = (rows.shape[1] + 8) * 2.0**-24
    error = (1.01 * rounding * lengths * lengths.max() + 2.0**-21).astype(np.float32)
    values = torch.full((count, most), -torch.inf)
    found = torch.full((count, most), -1, dtype=torch.int64)
    tiles = [slice(start, min(start + _TILE, count)) for start in range(0, count, _TILE)]
    for number, above in enumerate(tiles):
        for beside in tiles[number:]:
            products = apart[above] @ apart[beside].T
            if above == beside:
                np.fill_diagonal(products, -np.inf)
            else:
                transposed = products + lift[above][:, None]
                _merge(values, found, beside, torch.from_numpy(transposed).T, above)
            products += lift[beside]
            _merge(values, found, above, torch.from_numpy(products), beside)
    order = torch.sort(values, dim=1, descending=True, stable=True)
    return order.values.numpy(), found.gather(1, order.indices).numpy(), error


def _merge(values: torch.Tensor, found: torch.Tensor, rows: slice, scores: torch.Tensor, columns: slice) -> None:
    """Keep the best of the known candidates of some rows and of a tile of scores."""
    best = torch.topk(scores, min(values.shape[1], scores.shape[1]), dim=1, sorted=False)
    both = torch.cat([values[rows], best.values], dim=1)
    which = torch.cat([found[rows], best.indices + columns.start], dim=1)
    kept = torch.topk(both, values.shape[1], dim=1, sorted=False)
    values[rows], found[rows] = kept.values, which.gather(1, kept.indices)


def common(first: Rows, second: Rows) -> Doubles:
    """Return the (N,) shares of K neighbours that two lists (N, K) have in common."""
    both = np.sort(np.concatenate([first, second], axis=1), axis=1)
    shared: Doubles = (both[:, 1:] == both[:, :-1]).sum(axis=1) / first.shape[1]
    return shared


def overlap(sentences: Doubles, pictures: Doubles, k: int) -> Doubles:
    """Return the (N,) shares of common neighbours of N sentences and their N pictures, rows of length 1 or 0."""
    return common(nearest(sentences, k), nearest(pictures, k))
