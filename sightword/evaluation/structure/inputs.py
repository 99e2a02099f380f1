"""Checks sentences and pictures, and gives their rows length 1 in float64."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightword.errors import ScoringError
from sightword.evaluation.retrieval.inputs import embeddings

Doubles = NDArray[np.float64]
Rows = NDArray[np.int64]

_BLOCK = 256
_SAME = 1e-12
"""Directions that differ by less than this are the same up to rounding."""


@dataclass(frozen=True, eq=False)
class Space:
    """Sentences and their pictures, as rows of length 1; rows of zeros stay zeros, and their cosine counts as 0.

    The sentences are sorted by picture, and within a picture by appearance.
    """

    sentences: Doubles
    """(N, D)"""
    pictures: Doubles
    """(M, E) the pictures that have a sentence, in the order of their rows."""
    first: Rows
    """(M + 1,) the row of each picture's first sentence, and N."""

    @cached_property
    def counts(self) -> Rows:
        """(M,) the number of sentences of each picture."""
        return np.diff(self.first)

    @cached_property
    def sums(self) -> Doubles:
        """(M, D) the sum of each picture's sentences."""
        found: Doubles = np.add.reduceat(self.sentences, self.first[:-1], axis=0)
        return found

    def numbered(self, number: int) -> tuple[Rows, Rows]:
        """Return the rows of the sentences with a number within their picture, from 0, and of their pictures."""
        having = np.flatnonzero(self.counts > number)
        return self.first[having] + number, having


def space(sentences: ArrayLike, pictures: ArrayLike, picture_of_sentence: ArrayLike, *, centred: bool = False) -> Space:
    """Return sentences and pictures as rows of length 1, sorted by picture.

    Args:
        sentences: (N, D) vectors.
        pictures: (M, E) vectors; pictures without a sentence are left out.
        picture_of_sentence: (N,) the row of each sentence's picture.
        centred: subtract the mean of all sentences from each sentence first.

    Raises:
        ScoringError: an array has a wrong shape or a value that is not finite, a sentence has no picture, or fewer than
            two pictures have a sentence.
    """
    text, seen = embeddings(sentences, "sentences"), embeddings(pictures, "pictures")
    owner = np.asarray(picture_of_sentence)
    if owner.shape != (len(text),) or owner.dtype.kind not in "iu":
        what = f"has shape {owner.shape} and holds {owner.dtype}"
        expected = f"one whole number for each sentence, shape ({len(text)},)"
        raise ScoringError(what, where="picture_of_sentence", expected=expected)
    outside = np.flatnonzero((owner < 0) | (owner >= len(seen)))
    if len(outside):
        what = f"sentence {outside[0]} belongs to picture row {owner[outside[0]]}"
        raise ScoringError(what, where="picture_of_sentence", expected=f"rows 0 to {len(seen) - 1}")
    used, counts = np.unique(owner, return_counts=True)
    if len(used) < 2:
        raise ScoringError("all sentences belong to one picture", where="picture_of_sentence", expected="two or more")
    rows = np.empty(text.matrix.shape)  # float64 at once: no second copy of the sentences
    rows[np.argsort(np.argsort(owner, kind="stable"), kind="stable")] = text.matrix
    if centred:
        rows -= rows.mean(axis=0)
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Space(_of_length_1(rows), _of_length_1(np.array(seen.matrix[used], dtype=np.float64)), first)


def _of_length_1(rows: Doubles) -> Doubles:
    """Divide rows, which are overwritten, by their lengths; a power of two first, so that no square overflows."""
    _, exponent = np.frexp(np.maximum(rows.max(axis=1, keepdims=True), -rows.min(axis=1, keepdims=True)))
    if (np.abs(exponent) > 400).any():
        np.ldexp(rows, -exponent, out=rows)
    lengths = np.sqrt(np.einsum("nd,nd->n", rows, rows))
    rows *= np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)[:, None]
    return rows


def all_alike(rows: Doubles) -> bool:
    """Return whether all rows are one direction up to rounding."""
    starts = range(0, len(rows), _BLOCK)
    return all(np.abs(rows[start : start + _BLOCK] - rows[0]).max() <= _SAME for start in starts)
