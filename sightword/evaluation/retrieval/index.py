"""Exact search: the rows of a matrix that are most similar to one vector.

Scores are first computed in float32, with a bound on their error; the few rows that the bound leaves in doubt are
scored in float64 (:mod:`sightword.evaluation.retrieval.top_k`).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import torch

from sightword.compute.devices import pool
from sightword.errors import SearchError
from sightword.evaluation.retrieval.top_k import GRID, PRODUCTS, ROUND, SQUARES, Doubles, Rows, Singles, best
from sightword.model.shape import ComparisonName

_TILE = 1 << 18
"""Numbers in a tile: a megabyte, which stays in the cache of a core."""
_EXACT_ROWS = 1024


class Found(NamedTuple):
    """The best rows, best first."""

    rows: Rows
    """(K,)"""
    scores: Doubles
    """(K,) cosines, dot products, or minus the order errors."""


class Index:
    """Rows that can be searched; more can be added while others search.

    Args:
        capacity: the largest number of rows.
        width: D.
        similarity: how an encoder compares captions with pictures.
        holds: the kind of the rows; a query is of the other kind.
        threads: the number of threads for one query.
    """

    def __init__(
        self,
        capacity: int,
        width: int,
        similarity: ComparisonName,
        holds: Literal["captions", "pictures"],
        *,
        threads: int = 1,
    ) -> None:
        self._rows = np.empty((capacity, width), np.float32)
        # 1 / length of each row; 0 for a row of zeros, whose cosine is 0; 1 for the dot product.
        self._inverse = np.empty(capacity, np.float64)
        self._longest = 0.0
        self._count = 0
        self._similarity = similarity
        # The order error sums the excess of the lower side over the upper side; the caption is one of the two.
        self._query_below = (similarity == "order") == (holds == "pictures")
        self._threads = max(1, threads)
        self._pool = pool(self._threads)

    def __len__(self) -> int:
        """Return the number of rows so far."""
        return self._count

    def add(self, vectors: Singles) -> None:
        """Add rows, float32 (n, D).

        Raises:
            SearchError: values that are not finite.
        """
        _check_finite(vectors)
        part = slice(self._count, self._count + len(vectors))
        self._rows[part] = vectors
        for start in range(part.start, part.stop, _EXACT_ROWS):
            some = slice(start, min(start + _EXACT_ROWS, part.stop))
            length = np.linalg.norm(self._rows[some].astype(np.float64), axis=1)
            if self._similarity == "dot":
                self._inverse[some] = 1.0
                self._longest = max(self._longest, float(length.max()))
            else:
                self._inverse[some] = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
        self._count = part.stop  # last: a concurrent search sees whole rows only

    def row(self, number: int) -> Singles:
        """Return one row, (D,)."""
        found: Singles = self._rows[number]
        return found

    def rows(self, start: int, stop: int) -> Singles:
        """Return the rows from ``start`` to before ``stop``, (n, D)."""
        found: Singles = self._rows[start : min(stop, self._count)]
        return found

    def best(self, query: Singles, top: int) -> Found:
        """Find the ``top`` rows, or all of fewer, that are most similar to a vector, float32 (D,).

        Raises:
            SearchError: the query's values are not finite.
        """
        _check_finite(query)
        count = self._count
        top = min(top, count)
        if not top:
            return Found(np.empty(0, np.int64), np.empty(0))
        size, width = self._size(query), self._rows.shape[1]
        products = self._similarity in ("cosine", "dot")
        if products:
            # Limited by memory: NumPy's product is faster than torch's.
            rough = self._rows[:count] @ (query / size).astype(np.float32)
            rough *= self._inverse[:count]
        else:
            rough = self._rough_errors(query, count)

        def least(last: Singles) -> Doubles:
            low = last.astype(np.float64)
            if products:
                return low - 2 * (width + 8) * ROUND - 2 / GRID
            # The error of a sum of squares is relative, and values below the range of float32 are lost.
            return low * (1 + 4 * (width + 8) * ROUND) - width * 2.0**-125

        scores, rows = best(rough[None], top, least, lambda _, chosen: self._exact(query, chosen[0], size)[None])
        return Found(rows[0], scores[0] + 0.0)  # no minus zero

    def _size(self, query: Singles) -> float:
        """Return the divisor of a query after which its product with a row, times ``_inverse``, is at most 1."""
        length = float(np.linalg.norm(query.astype(np.float64)))
        if self._similarity == "dot":  # a power of two: nothing is rounded
            return float(2.0 ** np.frexp(length * self._longest)[1])
        return length or 1.0

    def _rough_errors(self, query: Singles, count: int) -> Singles:
        """Return minus the order errors, (count,); in tiles that stay in the cache of each core."""
        found, rows, ours = torch.empty(count), torch.from_numpy(self._rows[:count]), torch.from_numpy(query)
        size = max(1, _TILE // rows.shape[1])
        share = -(-count // self._threads)

        def work(start: int) -> None:
            with torch.inference_mode():  # a thread's own setting
                spare = torch.empty(size, rows.shape[1])
                for first in range(start, min(start + share, count), size):
                    part = slice(first, min(first + size, start + share, count))
                    excess = spare[: part.stop - part.start]
                    torch.sub(*((ours, rows[part]) if self._query_below else (rows[part], ours)), out=excess)
                    torch.linalg.vecdot(excess.clamp_min_(0), excess, out=found[part])

        list(self._pool.map(work, range(0, count, share)))
        errors: Singles = found.numpy()
        return np.negative(errors, out=errors)

    def _exact(self, query: Singles, rows: Rows, size: float) -> Doubles:
        """Return the scores of some rows, (n,), rounded so that tied ones are equal."""
        ours, scores = query.astype(np.float64), np.empty(len(rows))
        for start in range(0, len(rows), _EXACT_ROWS):
            part = rows[start : start + _EXACT_ROWS]
            theirs = self._rows[part].astype(np.float64)
            if self._similarity in ("cosine", "dot"):
                scores[start : start + len(part)] = (theirs @ ours) * self._inverse[part] / size
            else:
                excess = np.maximum(ours - theirs if self._query_below else theirs - ours, 0.0)
                scores[start : start + len(part)] = -np.einsum("nd,nd->n", excess, excess)
        if self._similarity in ("cosine", "dot"):
            return PRODUCTS.rounded(scores) * (size if self._similarity == "dot" else 1.0)
        return SQUARES.rounded(scores)


def _check_finite(vectors: Singles) -> None:
    if not np.isfinite(vectors).all():
        raise SearchError("the encoder gave values that are not finite", todo="Look at its training.")
