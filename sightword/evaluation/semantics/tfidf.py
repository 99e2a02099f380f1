"""The cosine of weighted n-grams of characters, a control for any encoder of sentences: no training, no pictures.

:class:`sightword.model.ngrams.Tfidf` is the same with few numbers, as a network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from sightword.errors import SemanticsError

SIZES = (2, 4)
"""Characters of the shortest and of the longest n-grams."""


class TfIdf:
    """Sentences as sparse vectors: a number for each n-gram of 2 to 4 characters.

    The number is the count of the n-gram in the sentence times its weight, ``log((N + 1) / (n + 1))``, where n of the N
    captions have the n-gram (Spärck Jones 1972, smoothed): an n-gram that no caption has weighs ``log(N + 1)``. A space
    stands before and behind each text, so that a text begins and ends as a word does; case is kept, and any white space
    is one space.

    Args:
        captions: texts whose n-grams are counted: the training captions of an encoder.
        progress: show a progress bar on a terminal.

    Raises:
        SemanticsError: there is no caption.
    """

    def __init__(self, captions: Iterable[str], *, progress: bool = False) -> None:
        self._captions, self._progress = list(captions), progress
        if not self._captions:
            raise SemanticsError("there are no captions to count n-grams in")

    def prepare(self, sentences: Sequence[str]) -> None:
        """Compute the vectors of all sentences that :meth:`cosines` compares."""
        from scipy import sparse

        distinct = sorted(set(sentences))
        self._row = {sentence: row for row, sentence in enumerate(distinct)}
        counts = [Counter(_ngrams(sentence)) for sentence in distinct]
        # N-grams of the captions alone are in no cosine.
        columns = {ngram: column for column, ngram in enumerate(sorted(set().union(*counts)))}
        having = np.zeros(len(columns), np.int64)
        for caption in tqdm(self._captions, "counting", unit="caption", disable=None if self._progress else True):
            having[[columns[ngram] for ngram in columns.keys() & _ngrams(caption)]] += 1
        weights = np.log((len(self._captions) + 1) / (having + 1))
        ends = np.cumsum([0, *map(len, counts)])
        places = np.fromiter((columns[ngram] for row in counts for ngram in sorted(row)), np.int64, ends[-1])
        values = np.fromiter((row[ngram] for row in counts for ngram in sorted(row)), np.int64, ends[-1])
        self._vectors = sparse.csr_array((values * weights[places], places, ends), (len(counts), len(columns)))

    def cosines(self, first: Sequence[str], second: Sequence[str]) -> NDArray[np.float64]:
        """Return the (N,) cosines of N pairs of prepared sentences; 0 for a sentence without an n-gram."""
        a, b = (self._vectors[[self._row[sentence] for sentence in side]] for side in (first, second))
        dots, one, other = ((x * y).sum(axis=1) for x, y in ((a, b), (a, a), (b, b)))
        norms = np.sqrt(one * other)
        found: NDArray[np.float64] = np.divide(dots, norms, out=np.zeros_like(dots), where=norms > 0)
        return found


def _ngrams(text: str) -> Iterator[str]:
    framed = f" {' '.join(text.split())} " if text.strip() else ""
    for size in range(SIZES[0], SIZES[1] + 1):
        for start in range(len(framed) - size + 1):
            yield framed[start : start + size]
