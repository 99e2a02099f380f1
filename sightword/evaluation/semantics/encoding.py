"""Encodes each distinct sentence once, in however many tasks and pairs it occurs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from sightword.errors import SemanticsError
from sightword.evaluation.semantics.classification_data import Features
from sightword.messages import counted_together, quote

log = logging.getLogger(__name__)

Vectors = NDArray[np.floating[Any]]

Encode = Callable[[list[str]], Any]
"""Encodes a list of N sentences as an array (N, D), itself or by its method ``encode``; an optional method ``prepare``
first receives all sentences."""


class Embeddings:
    """The vectors (S, D) of S distinct sentences, in the encoder's dtype."""

    def __init__(self, sentences: Sequence[str], vectors: Vectors) -> None:
        self._row = {sentence: row for row, sentence in enumerate(sentences)}
        self.vectors = vectors

    def rows(self, sentences: Sequence[str]) -> NDArray[np.int64]:
        """Return the (N,) rows of ``vectors`` that belong to these sentences."""
        return np.fromiter((self._row[sentence] for sentence in sentences), np.int64, len(sentences))

    def of(self, sentences: Sequence[str]) -> Vectors:
        """Return the vectors (N, D) of these sentences in order, in the encoder's dtype."""
        return self.vectors[self.rows(sentences)]

    def columns(self, which: slice) -> Embeddings:
        """Return some columns of the vectors, as the vectors of the same sentences."""
        return Embeddings(list(self._row), np.ascontiguousarray(self.vectors[:, which]))


def embed(encode: Encode, sentences: Iterable[str], *, chunk: int = 2048, progress: bool = False) -> Embeddings:
    """Encode each distinct sentence once, longest first, so that the largest memory need comes first.

    The encoder receives at most ``chunk`` sentences of similar length at once. SemanticsError without sentences, or if
    the encoder does not return an array of one finite vector for each sentence, all of one width and dtype.
    """
    distinct = sorted(set(sentences), key=lambda sentence: (-len(sentence), sentence))
    if not distinct:
        raise SemanticsError("there are no sentences to encode")
    prepare = getattr(encode, "prepare", None)
    if callable(prepare):
        prepare(list(distinct))
    call: Any = encode
    if not callable(call) and not isinstance(call, str):
        call = getattr(call, "encode", None)
    if not callable(call):
        expected = "a function of a list of sentences, or an encoder such as SentenceEncoder.from_pretrained(NAME)"
        raise SemanticsError(f"the encoder is {quote(encode)}", expected=expected)
    vectors: Vectors = np.empty((0, 0))
    bar = tqdm(total=len(distinct), desc="encoding", unit="sentence", disable=None if progress else True)
    with counted_together(), bar:
        for start in range(0, len(distinct), chunk):
            part = distinct[start : start + chunk]
            answer = _checked(call(list(part)), part)
            if start == 0:
                vectors = np.empty((len(distinct), answer.shape[1]), dtype=answer.dtype)
            now, before = (f"width {array.shape[1]} and type {array.dtype}" for array in (answer, vectors))
            if now != before:
                what, where = f"the encoder gave vectors of {now} after {before}", f"sentence {quote(part[0])}"
                raise SemanticsError(what, where=where, expected="one width and type for all sentences")
            vectors[start : start + len(part)] = answer
            bar.update(len(part))
    zeros = int((~vectors.any(axis=1)).sum())
    if zeros:
        log.warning("%d of %d sentences have a vector of zeros; their cosine counts as 0", zeros, len(distinct))
    return Embeddings(distinct, vectors)


def _checked(answer: Any, sentences: Sequence[str]) -> Vectors:
    place = f"a list of {len(sentences)} sentences from {quote(sentences[0])}"
    try:
        vectors = _array(answer)
    except ValueError:
        raise SemanticsError("the encoder's vectors differ in width", where=place) from None
    if vectors.ndim != 2 or len(vectors) != len(sentences) or vectors.shape[1] == 0 or vectors.dtype.kind not in "fiu":
        what = f"the encoder gave an array of shape {vectors.shape} of {vectors.dtype}"
        raise SemanticsError(what, where=place, expected=f"numbers of shape ({len(sentences)}, width)")
    if vectors.dtype.kind != "f":
        vectors = vectors.astype(np.float64)
    wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(wrong):
        what = f"the encoder gave NaN or infinity for {len(wrong)} of {len(sentences)} sentences"
        raise SemanticsError(what, where=f"sentence {quote(sentences[wrong[0]])}", expected="finite vectors")
    return vectors


def _array(answer: Any) -> NDArray[Any]:
    """Convert an encoder's result to an array: arrays, lists, torch tensors, lists of tensors, sparse matrices."""
    if hasattr(answer, "detach"):
        answer = answer.detach().cpu()
        if str(answer.dtype) == "torch.bfloat16":  # numpy has no bfloat16
            answer = answer.float()
    elif hasattr(answer, "toarray"):
        answer = answer.toarray()
    elif isinstance(answer, list | tuple) and answer and hasattr(answer[0], "detach"):
        answer = [_array(row) for row in answer]
    return np.asarray(answer)


Rows = NDArray[np.int64]

_PARTS: dict[Features, int] = {"vector": 1, "compared": 2, "directed": 3, "all": 4}


@dataclass(frozen=True)
class Inputs:
    """N examples: the rows of their sentences in a table of vectors, and their classes or scores."""

    vectors: torch.Tensor
    """(S, D)"""
    features: Features
    first: Rows
    """(N,) rows of ``vectors``"""
    second: Rows | None
    labels: NDArray[Any]
    """(N,) classes, or people's scores of pairs."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def width(self) -> int:
        """The number of features of an example."""
        return self.vectors.shape[1] * _PARTS[self.features]

    def at(self, index: NDArray[np.int64] | slice) -> Inputs:
        """Return the examples at these indices, in order."""
        second = None if self.second is None else self.second[index]
        return replace(self, first=self.first[index], second=second, labels=self.labels[index])

    def batch(self, index: NDArray[np.int64] | slice) -> torch.Tensor:
        """Return the features (B, width) of these examples in float32, computed in the vectors' dtype."""
        return self._computed(index).float()

    def _computed(self, index: NDArray[np.int64] | slice) -> torch.Tensor:
        u = self.vectors.index_select(0, torch.from_numpy(self.first[index]))
        if self.second is None:
            return u
        v = self.vectors.index_select(0, torch.from_numpy(self.second[index]))
        apart = (u - v).abs_()
        if self.features == "compared":
            return torch.cat([apart, u * v], dim=1)
        return torch.cat([u, v, apart] if self.features == "directed" else [u, v, u * v, apart], dim=1)


def inputs_of(
    vectors: Embeddings, features: Features, first: Sequence[str], second: Sequence[str] | None, labels: NDArray[Any]
) -> Inputs:
    """Return the inputs of N sentences or pairs that all have a vector, with their classes or scores (N,).

    Vectors in half precision are converted to single precision, since their products would overflow.
    """
    table = vectors.vectors
    if table.dtype not in (np.float32, np.float64):  # torch supports no other float dtype or byte order
        table = table.astype(np.float64 if table.dtype.itemsize > 4 else np.float32)
    rows = None if second is None else vectors.rows(second)
    return Inputs(torch.from_numpy(table), features, vectors.rows(first), rows, labels)


def finite(values: torch.Tensor) -> torch.Tensor:
    """Return the values of features or outputs; SemanticsError if any overflows."""
    if not torch.isfinite(values).all():
        raise SemanticsError(
            "the encoder's vectors are so large that a classifier on them overflows",
            expected="features and products that single precision can hold",
            todo="Scale the vectors down.",
        )
    return values
