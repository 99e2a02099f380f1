"""The inputs of a classifier: features of sentences or pairs, computed from their vectors on demand.

The features of SNLI's half a million pairs would fill tens of gigabytes; their vectors are held once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sightword.errors import SemanticsError
from sightword.evaluation.semantics.classification_data import Features
from sightword.evaluation.semantics.encoding import Embeddings

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
