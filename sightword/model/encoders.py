"""The caption side and the picture side of the common space."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sightword.devices import move
from sightword.model.attention import Attention
from sightword.model.inference import gru_states
from sightword.model.packing import Packing
from sightword.model.pooling import pooling
from sightword.model.recurrent import Recurrent
from sightword.model.shape import Shape
from sightword.model.similarity import unit

PAD = 0
"""The id of padding, never a character's."""
BLOCK = 4096
"""Pictures whose features are looked at together."""


class CaptionEncoder(nn.Module):
    """Token ids to a unit vector (Merkx & Frank 2019, section 3.2; of order-embeddings without signs).

    Args:
        tokens: ids in use, padding and unknown included.
        shape: of the network.
        dropout: share of the states set to zero in training.
        empty: see :class:`Encoders`.
    """

    def __init__(self, tokens: int, shape: Shape, *, dropout: float = 0.0, empty: bool = False) -> None:
        super().__init__()
        if empty:  # torch would load its compiler for the start of an embedding without memory
            nothing = torch.empty(tokens, shape.embedding, device="meta")
            self.embedding = nn.Embedding(tokens, shape.embedding, padding_idx=PAD, _weight=nothing)
        else:
            self.embedding = nn.Embedding(tokens, shape.embedding, padding_idx=PAD)
        self.recurrent = Recurrent(
            shape.embedding, shape.hidden, shape.cell, bidirectional=shape.bidirectional, empty=empty
        )
        self.dropout = nn.Dropout(dropout)
        self.pooling = pooling(shape, empty=empty)
        self.similarity = shape.similarity

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Int64 (B, T) padded with 0, and int64 (B,) of 1 to T, to float32 unit vectors (B, width).

        Where padding is not masked, all padding counts, that beyond the longest row included.
        """
        if ids.device.type != "cpu":
            states = self.dropout(self.recurrent(self.embedding(ids), lengths))
            return unit(self.pooling(states, lengths), self.similarity)
        packing = Packing.of(lengths, ids.shape[1])
        lines = packing.pack(ids)
        layers = [layer for layer in self.recurrent.layers if isinstance(layer, nn.GRU)]
        if self.training or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or not layers:
            states = self.dropout(self.recurrent.packed(self.embedding(lines), packing))
        else:
            tokens, places = torch.unique(lines, return_inverse=True)
            states = gru_states(layers, self.embedding(tokens), places, packing)
        if isinstance(self.pooling, Attention):
            return unit(self.pooling.packed(states, packing), self.similarity)
        return unit(self.pooling(packing.unpack(states), lengths), self.similarity)

    def embed(self, rows: Sequence[npt.NDArray[np.int64]]) -> torch.Tensor:
        """Rows of ids to float32 unit vectors (B, width), in the order given."""
        ids, lengths = pad(rows)
        device = self.embedding.weight.device
        vectors: torch.Tensor = self(move(ids, device), move(lengths, device))
        return vectors


class ImageEncoder(nn.Module):
    """Picture features to a unit vector: a linear map, then L2 (Merkx & Frank 2019, section 3.1).

    Args:
        features: numbers in a picture's feature vector.
        shape: of the network.
        dropout: share of the features set to zero in training.
        empty: see :class:`Encoders`.
    """

    mean: torch.Tensor
    deviation: torch.Tensor

    def __init__(self, features: int, shape: Shape, *, dropout: float = 0.0, empty: bool = False) -> None:
        super().__init__()
        device = "meta" if empty else None
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(features, shape.width, device=device)
        self.similarity = shape.similarity
        self.register_buffer("mean", torch.zeros(features, device=device))
        self.register_buffer("deviation", torch.ones(features, device=device))

    def standardise_by(self, features: npt.NDArray[np.float32]) -> None:
        """Take mean and standard deviation from training features (N, D).

        A feature that hardly varies would be blown up to noise: its deviation is
        set to infinity, so that it contributes nothing.
        """
        # In blocks: all of COCO's features in float64 would take more memory than the training.
        blocks = np.array_split(features, len(features) // BLOCK + 1)
        mean = sum(block.sum(axis=0, dtype=np.float64) for block in blocks) / len(features)
        deviation = np.sqrt(sum(np.square(block - mean).sum(axis=0) for block in blocks) / len(features))
        deviation[deviation <= 1e-6 * max(float(deviation.max(initial=0.0)), 1e-30)] = np.inf
        self.mean.copy_(torch.from_numpy(mean))
        self.deviation.copy_(torch.from_numpy(deviation))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Float (B, D) raw features to float32 unit vectors (B, width)."""
        return unit(self.linear(self.dropout((features - self.mean) / self.deviation)), self.similarity)


class Encoders(nn.Module):
    """Both sides, as a snapshot holds them; dropout belongs to training only.

    Args:
        tokens: ids in use, padding and unknown included.
        features: numbers in a picture's feature vector.
        shape: of the network.
        dropout_states: share of the states set to zero in training.
        dropout_features: share of the features set to zero in training.
        empty: weights without memory, for weights from a file; no random numbers are drawn.
    """

    def __init__(
        self,
        tokens: int,
        features: int,
        shape: Shape,
        *,
        dropout_states: float = 0.0,
        dropout_features: float = 0.0,
        empty: bool = False,
    ) -> None:
        super().__init__()
        self.captions = CaptionEncoder(tokens, shape, dropout=dropout_states, empty=empty)
        self.images = ImageEncoder(features, shape, dropout=dropout_features, empty=empty)

    @property
    def width(self) -> int:
        """Numbers in an embedding."""
        return self.images.linear.out_features

    @property
    def features_width(self) -> int:
        """Numbers in a picture's features."""
        return self.images.linear.in_features

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.images.linear.weight.device


def pad(rows: Sequence[npt.NDArray[np.int64]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of ids to a padded matrix int64 (B, T) and their lengths int64 (B,).

    An empty row becomes one padding, so that every row has a state.
    """
    lengths = [max(len(row), 1) for row in rows]
    ids = np.full((len(rows), max(lengths, default=1)), PAD, np.int64)
    for matrix_row, row in zip(ids, rows, strict=True):
        matrix_row[: len(row)] = row
    return torch.from_numpy(ids), torch.tensor(lengths, dtype=torch.int64)
