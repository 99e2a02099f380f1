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
from sightword.model.products import single_product
from sightword.model.shape import ComparisonName

_TILE = 1 << 18
"""Numbers in a tile: a megabyte, which stays in the cache of a core."""
_EXACT_ROWS = 1024
_TOGETHER, _SCORES = 256, 1 << 19
"""Queries that are searched together, and their scores at a time: two megabytes, written again and again."""
_SAMPLE = 1 << 12
"""Scores among which a first bound of the best ones is looked for: the best of all scores takes longer."""
_PLAIN = 2.0**60
"""Rows that are no longer, and no shorter than 1 divided by it, have products that float32 holds; where one row is not
so, all rows are scored in float64."""
_DOUBTFUL = 1 << 22
"""Most candidates, such as equal rows, of the queries that are searched together; else half of the queries are."""


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
        found: Singles = self._rows[number]
        return found

    def rows(self, start: int, stop: int) -> Singles:
        """Return the rows from ``start`` to before ``stop``, (n, D)."""
        found: Singles = self._rows[start : min(stop, self._count)]
        return found

    def best(self, query: Singles, top: int) -> Found:
        """Find the ``top`` rows that are most similar to one vector, float32 (D,), as :meth:`search` does."""
        found = self.search(query[None], top)
        return Found(found.rows[0], found.scores[0])

    def search(self, queries: Singles, top: int) -> Found:
        """Find the ``top`` rows, or all of fewer, that are most similar to each of several vectors, float32 (Q, D).

        Raises:
            SearchError: values of a query are not finite.
        """
        _check_finite(queries)
        queries = np.ascontiguousarray(queries)  # torch takes no array that is read backwards
        count = self._count
        top = min(top, count)
        rows, scores = np.empty((len(queries), top), np.int64), np.empty((len(queries), top))
        for start in range(0, len(queries) if top else 0, _TOGETHER):
            part = slice(start, start + _TOGETHER)
            scores[part], rows[part] = self._search(queries[part], count, top)
        return Found(rows, scores + 0.0)  # no minus zero

    def _search(self, queries: Singles, count: int, top: int) -> tuple[Doubles, Rows]:
        """Return the scores and the rows, both (Q, top), of the best of the first ``count`` rows."""
        sizes, width = np.array([self._size(query) for query in queries]), self._rows.shape[1]

        def least(last: Singles) -> Singles:
            low = last.astype(np.float64)
            if self._is_product:
                low = low - 2 * (width + 8) * ROUND - 2 / GRID
            else:  # the error of a sum of squares is relative, and values below the range of float32 are lost
                low = low * (1 + 4 * (width + 8) * ROUND) - width * 2.0**-125
            return np.nextafter(low.astype(np.float32), np.float32(-np.inf))

        is_scaled = self._is_product and self._is_plain
        scaled = (queries / sizes[:, None]).astype(np.float32) if is_scaled else queries
        found, held, tile = [], 0, max(top, _SCORES // len(queries))
        kept = np.full((len(queries), top), -np.inf, np.float32)
        for start in range(0, count, tile):
            rough = self._rough(scaled, slice(start, min(start + tile, count)))
            some = rough[:, :: max(1, rough.shape[1] // max(top, _SAMPLE))]
            worst = kept[:, 0] if start else np.partition(some, -top, axis=1)[:, -top]
            query, row = divmod(np.flatnonzero(rough >= least(worst)[:, None]), rough.shape[1])
            kept = _highest(kept, query, score := rough[query, row])
            still = np.flatnonzero(score >= least(kept[:, 0])[query])
            query, row, score = query[still], row[still], score[still]
            found.append((query, start + row, score))
            held += len(query)
            if held > _DOUBTFUL and len(queries) > 1:
                middle = len(queries) // 2
                halves = [self._search(half, count, top) for half in (queries[:middle], queries[middle:])]
                return np.concatenate([half[0] for half in halves]), np.concatenate([half[1] for half in halves])
        query, row, score = map(np.concatenate, zip(*found, strict=True))
        still = np.flatnonzero(score >= least(kept[:, 0])[query])
        still = still[np.argsort(query[still], kind="stable")]  # of each query in the order of the rows
        ends = np.bincount(query[still], minlength=len(queries)).cumsum()
        scores, rows = np.empty((len(queries), top)), np.empty((len(queries), top), np.int64)
        for one, candidates in enumerate(np.split(row[still], ends[:-1])):
            exact = self._exact(queries[one], candidates, sizes[one])
            order = np.argsort(-exact, kind="stable")[:top]
            scores[one], rows[one] = exact[order], candidates[order]
        return scores, rows

    def _rough(self, queries: Singles, part: slice) -> Singles:
        """Return the scores (Q, n) of some rows in float32."""
        if not self._is_product:
            return self._rough_errors(queries, part)
        rows, count = self._rows[part], len(queries)
        if not self._is_plain:
            return np.zeros((count, len(rows)), np.float32)  # so every row is in doubt
        if count == 1:  # row by row at the speed of memory, twice as fast as a product of matrix and vector
            found = np.empty((1, len(rows)), np.float32)
            self._share(lambda some: np.vecdot(rows[some], queries[0], out=found[0, some]), len(rows))
        else:  # torch keeps a megabyte for each shape that oneDNN has multiplied: so there are few
            room = np.zeros((1 << (count - 1).bit_length(), rows.shape[1]), np.float32)
            room[:count] = queries
            found = single_product(torch.from_numpy(room), torch.from_numpy(rows)).numpy()[:count]
        found *= self._inverse[part].astype(np.float32)
        return found

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

    def _rough_errors(self, queries: Singles, part: slice) -> Singles:
        """Return minus the order errors, (Q, n); in tiles that stay in the cache of each core."""
        rows, ours = torch.from_numpy(self._rows[part]), torch.from_numpy(queries)
        count, width = rows.shape
        found, size = torch.empty(len(ours), count), max(1, _TILE // width)

        def work(own: slice) -> None:
            with torch.inference_mode():  # a thread's own setting
                spare = torch.empty(size, width)
                for first in range(own.start, own.stop, size):
                    some = slice(first, min(first + size, own.stop))
                    excess = spare[: some.stop - some.start]
                    for errors, query in zip(found, ours, strict=True):
                        torch.sub(*((query, rows[some]) if self._query_below else (rows[some], query)), out=excess)
                        torch.linalg.vecdot(excess.clamp_min_(0), excess, out=errors[some])

        self._share(work, count)
        errors: Singles = found.numpy()
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


def _highest(kept: Singles, query: Rows, scores: Singles) -> Singles:
    """Return the highest of the scores that are kept (Q, top), the least first, and of others of a ``query`` (n,)."""
    many = np.bincount(query, minlength=len(kept))
    taken = np.arange(many.max()) < many[:, None]
    others = np.full(taken.shape, -np.inf, np.float32)
    others[taken] = scores  # the queries are sorted
    top = kept.shape[1]
    return np.partition(np.concatenate([kept, others], axis=1), -top, axis=1)[:, -top:]


def _check_finite(vectors: Singles) -> None:
    if not np.isfinite(vectors).all():
        raise SearchError("the encoder gave values that are not finite", todo="Look at its training.")
