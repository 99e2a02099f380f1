"""Exact search: the rows of a matrix that are most similar to one vector, or to each of many.

Scores are first computed in float32, with a bound on their error; the few rows that the bound leaves in doubt are
scored in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import torch

from sightword.compute.devices import pool
from sightword.errors import SearchError
from sightword.evaluation.retrieval.similarity import GRID, PRODUCTS, ROUND, SQUARES, Doubles, Rows, Singles
from sightword.model.shape import ComparisonName

_TILE = 1 << 18
"""Numbers in a tile: a megabyte, which stays in the cache of a core."""
_EXACT_ROWS = 1024
_SCORES = 1 << 23
"""Rough scores at a time: 32 megabytes."""
_SAMPLE = 1 << 12
"""Scores among which a first bound of the best ones is looked for: the best of all scores takes longer."""
_PLAIN = 2.0**60
"""Rows that are no longer, and no shorter than 1 divided by it, have products that float32 holds; where one row is not
so, all rows are scored in float64."""


class Found(NamedTuple):
    """The best rows, best first, of one query (K,) or of each of several (Q, K)."""

    rows: Rows
    scores: Doubles
    """Cosines, dot products, or minus the order errors."""


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
        self._is_plain = True
        self._count = 0
        self._similarity, self._is_product = similarity, similarity in ("cosine", "dot")
        # The order error sums the excess of the lower side over the upper side; the caption is one of the two.
        self._query_below = (similarity == "order") == (holds == "pictures")
        self._threads = max(1, threads)
        self._map = pool(self._threads).map if self._threads > 1 else map

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
            self._is_plain &= bool((length <= _PLAIN).all() and ((length == 0) | (length >= 1 / _PLAIN)).all())
            if self._similarity == "dot":
                self._inverse[some] = 1.0
                self._longest = max(self._longest, float(length.max()))
            else:
                self._inverse[some] = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
        self._count = part.stop  # last: a concurrent search sees whole rows only

    def row(self, number: int) -> Singles:
        """Return one row, (D,)."""
        values: Singles = self._rows[number]
        return values

    def rows(self, start: int, stop: int) -> Singles:
        """Return the rows from ``start`` to before ``stop``, (n, D)."""
        values: Singles = self._rows[start : min(stop, self._count)]
        return values

    def best(self, query: Singles, top: int) -> Found:
        """Find the ``top`` rows that are most similar to one vector, float32 (D,), as :meth:`search` does."""
        best = self.search(query[None], top)
        return Found(best.rows[0], best.scores[0])

    def search(self, queries: Singles, top: int) -> Found:
        """Find the ``top`` rows, or all of fewer, that are most similar to each of several vectors, float32 (Q, D).

        Raises:
            SearchError: values of a query are not finite, or ``top`` is no whole number from 0.
        """
        if isinstance(top, bool) or not isinstance(top, int | np.integer) or top < 0:
            raise SearchError(f"top is {top!r}", expected="a whole number from 0")
        _check_finite(queries)
        queries = np.ascontiguousarray(queries)  # torch takes no array that is read backwards
        count = self._count
        top = min(top, count)
        rows, scores = np.empty((len(queries), top), np.int64), np.empty((len(queries), top))
        together = max(1, _SCORES // max(1, count))
        for start in range(0, len(queries) if top else 0, together):
            some = queries[start : start + together]
            sizes = np.array([self._size(query) for query in some])
            is_scaled = self._is_product and self._is_plain
            rough = self._rough((some / sizes[:, None]).astype(np.float32) if is_scaled else some, count)
            for place, (query, size, near) in enumerate(zip(some, sizes, rough, strict=True), start):
                candidates = self._candidates(near, top)
                exact = self._exact(query, candidates, size)
                order = np.argsort(-exact, kind="stable")[:top]  # the candidates are in the order of the rows
                scores[place], rows[place] = exact[order], candidates[order]
        return Found(rows, scores + 0.0)  # no minus zero

    def _candidates(self, rough: Singles, top: int) -> Rows:
        """Return all rows that may be among the best by exact scores, given rough scores (n,) of all."""
        worst = np.partition(rough[:: max(1, len(rough) // max(top, _SAMPLE))], -top)[-top]  # quick, but too low
        rows = np.flatnonzero(rough >= self._least(worst))
        worst = np.partition(rough[rows], -top)[-top]
        return rows[rough[rows] >= self._least(worst)]

    def _least(self, last: np.float32) -> np.float32:
        """Return the lowest rough score of a row that may have a better exact score than one with the score given."""
        low, width = float(last), self._rows.shape[1]
        if self._is_product:
            low = low - 2 * (width + 8) * ROUND - 2 / GRID
        else:  # the error of a sum of squares is relative, and values below the range of float32 are lost
            low = low * (1 + 4 * (width + 8) * ROUND) - width * 2.0**-125
        least: np.float32 = np.nextafter(np.float32(low), np.float32(-np.inf))
        return least

    def _rough(self, queries: Singles, count: int) -> Singles:
        """Return the scores (Q, n) of the first rows in float32."""
        if not self._is_product:
            return self._rough_errors(queries, count)
        rows = self._rows[:count]
        if not self._is_plain:
            return np.zeros((len(queries), count), np.float32)  # so every row is in doubt
        if len(queries) == 1:  # row by row at the speed of memory, twice as fast as a product of matrix and vector
            products = np.empty((1, count), np.float32)
            self._share(lambda some: np.vecdot(rows[some], queries[0], out=products[0, some]), count)
        else:
            products = (torch.from_numpy(queries) @ torch.from_numpy(rows).T).numpy()
        products *= self._inverse[:count].astype(np.float32)
        return products

    def _share(self, work: Callable[[slice], object], count: int) -> None:
        """Do a work on so many rows, each thread on its share of them."""
        share = -(-count // self._threads)
        list(self._map(work, [slice(start, min(start + share, count)) for start in range(0, count, share)]))

    def _size(self, query: Singles) -> float:
        """Return the divisor of a query after which its product with a row, times ``_inverse``, is at most 1."""
        length = float(np.linalg.norm(query.astype(np.float64)))
        if self._similarity == "dot":  # a power of two: nothing is rounded
            return float(2.0 ** np.frexp(length * self._longest)[1])
        return length or 1.0

    def _rough_errors(self, queries: Singles, count: int) -> Singles:
        """Return minus the order errors, (Q, n); in tiles that stay in the cache of each core."""
        rows, ours = torch.from_numpy(self._rows[:count]), torch.from_numpy(queries)
        width = rows.shape[1]
        sums, size = torch.empty(len(ours), count), max(1, _TILE // width)

        def work(own: slice) -> None:
            with torch.inference_mode():  # a thread's own setting
                spare = torch.empty(size, width)
                for first in range(own.start, own.stop, size):
                    some = slice(first, min(first + size, own.stop))
                    excess = spare[: some.stop - some.start]
                    for errors, query in zip(sums, ours, strict=True):
                        torch.sub(*((query, rows[some]) if self._query_below else (rows[some], query)), out=excess)
                        torch.linalg.vecdot(excess.clamp_min_(0), excess, out=errors[some])

        self._share(work, count)
        errors: Singles = sums.numpy()
        return np.negative(errors, out=errors)

    def _exact(self, query: Singles, rows: Rows, size: float) -> Doubles:
        """Return the scores of some rows, (n,), rounded so that tied ones are equal."""
        ours, scores = query.astype(np.float64), np.empty(len(rows))
        for start in range(0, len(rows), _EXACT_ROWS):
            part = rows[start : start + _EXACT_ROWS]
            theirs = self._rows[part].astype(np.float64)
            if self._is_product:
                scores[start : start + len(part)] = (theirs @ ours) * self._inverse[part] / size
            else:
                excess = np.maximum(ours - theirs if self._query_below else theirs - ours, 0.0)
                scores[start : start + len(part)] = -np.einsum("nd,nd->n", excess, excess)
        if self._is_product:
            return PRODUCTS.rounded(scores) * (size if self._similarity == "dot" else 1.0)
        return SQUARES.rounded(scores)


def _check_finite(vectors: Singles) -> None:
    if not np.isfinite(vectors).all():
        raise SearchError("the encoder gave values that are not finite", todo="Look at its training.")
