"""Each distinct sentence is encoded once, however many tasks and pairs it stands in."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from pipeline.errors import SemanticsError

log = logging.getLogger(__name__)

Encode = Callable[[list[str]], Any]
"""From a list of N sentences to an array (N, D)."""


class Embeddings:
    """The vectors of distinct sentences."""

    def __init__(self, sentences: Sequence[str], vectors: NDArray[np.floating[Any]]) -> None:
        self._row = {sentence: row for row, sentence in enumerate(sentences)}
        self._vectors = vectors

    def of(self, sentences: Sequence[str]) -> NDArray[np.floating[Any]]:
        """The vectors of these sentences, in their order: (N, D), as the encoder gave them."""
        return self._vectors[[self._row[sentence] for sentence in sentences]]


def embed(encode: Encode, sentences: Iterable[str], *, chunk: int = 2048, progress: bool = False) -> Embeddings:
    """Encode each distinct sentence once, longest first (so that what needs most memory comes first).

    Args:
        encode: the encoder; it gets at most ``chunk`` sentences at once, of similar length.
        sentences: any sentences, repeated or not.
        chunk: the largest list handed over.
        progress: show a progress bar on a terminal.

    Raises:
        SemanticsError: the encoder's answer is no array of one finite vector for each
            sentence, all of the same width.
    """
    distinct = sorted(set(sentences), key=lambda sentence: (-len(sentence), sentence))
    if not distinct:
        raise SemanticsError("there is no sentence to encode")
    vectors: NDArray[np.floating[Any]] | None = None
    with tqdm(total=len(distinct), desc="encoding", unit="sentence", disable=None if progress else True) as bar:
        for start in range(0, len(distinct), chunk):
            batch = distinct[start : start + chunk]
            answer = _checked(encode(list(batch)), batch)
            if vectors is None:
                vectors = np.empty((len(distinct), answer.shape[1]), dtype=answer.dtype)
            if answer.shape[1] != vectors.shape[1]:
                raise SemanticsError(
                    f"the encoder gave vectors of width {answer.shape[1]} after width {vectors.shape[1]}",
                    where=f"sentence {batch[0]!r}",
                    expected="one width for all sentences",
                )
            vectors[start : start + len(batch)] = answer
            bar.update(len(batch))
    assert vectors is not None
    zeros = int((~vectors.any(axis=1)).sum())
    if zeros:
        log.warning("%d of %d sentences have a vector of zeros; their cosine counts as 0", zeros, len(distinct))
    return Embeddings(distinct, vectors)


def _checked(answer: Any, batch: Sequence[str]) -> NDArray[np.floating[Any]]:
    if hasattr(answer, "detach"):  # a torch tensor
        answer = answer.detach().cpu()
    try:
        vectors = np.asarray(answer)
    except ValueError:
        raise SemanticsError(
            "the encoder's vectors differ in width", where=f"a list of {len(batch)} sentences from {batch[0]!r}"
        ) from None
    if vectors.ndim != 2 or len(vectors) != len(batch) or vectors.shape[1] == 0 or vectors.dtype.kind not in "fiu":
        raise SemanticsError(
            f"the encoder gave an array of shape {vectors.shape} of {vectors.dtype}",
            where=f"a list of {len(batch)} sentences from {batch[0]!r}",
            expected=f"numbers of shape ({len(batch)}, width)",
        )
    if vectors.dtype.kind != "f":
        vectors = vectors.astype(np.float64)
    wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(wrong):
        raise SemanticsError(
            f"the encoder gave NaN or infinity for {len(wrong)} of {len(batch)} sentences",
            where=f"sentence {batch[wrong[0]]!r}",
            expected="finite vectors",
        )
    return vectors
