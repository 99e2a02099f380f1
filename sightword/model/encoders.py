"""The caption side and the picture side of the common space."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sightword.compute.devices import move
from sightword.model.ngrams import NGrams, Tfidf
from sightword.model.packing import Packing
from sightword.model.pooling import Attention, pooling
from sightword.model.products import linear
from sightword.model.recurrent import Recurrent
from sightword.model.shape import InitialisationName, NgramShape, Shape, TfidfShape
from sightword.model.similarity import unit

PAD = 0
"""The id of padding."""
BLOCK = 4096
"""Pictures whose features are read together."""
LIMIT = 0.1
"""Bound of uniform initial weights."""


class CaptionEncoder(nn.Module):
    """Maps token ids to a unit vector (Merkx & Frank 2019, section 3.1.2; without signs for order-embeddings).

    Args:
        tokens: number of ids, padding and unknown included.
        shape: the shape of the network.
        dropout: share of the states, or of the mean of the n-grams, set to zero in training.
    """

    def __init__(self, tokens: int, shape: Shape, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding: nn.Embedding | NGrams
        self.dropout = nn.Dropout(dropout)
        self.width = shape.width
        self.similarity = shape.similarity
        self.scaled = shape.scaled
        if isinstance(shape, NgramShape):
            kind = Tfidf if isinstance(shape, TfidfShape) else NGrams
            self.embedding = kind(
                shape.embedding, tokens=tokens, longest=shape.longest_ngram, buckets=shape.ngram_buckets,
                frame=shape.frame,
            )  # fmt: skip
            self.pooling: nn.Module = nn.Identity()
            return
        weights = torch.empty(tokens, shape.embedding)
        self.embedding = nn.Embedding(tokens, shape.embedding, padding_idx=PAD, _weight=weights)
        if not weights.is_meta:  # for numbers without memory torch would load its compiler
            self.embedding.reset_parameters()
        self.recurrent = Recurrent(shape.embedding, shape.hidden, shape.cell, bidirectional=shape.bidirectional)
        self.pooling = pooling(shape)

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Map ids, int64 (B, T) padded with 0, and lengths, int64 (B,) from 1 to T, to float32 (B, width).

        With unmasked padding all padding counts, also beyond the longest row. With both on the CPU, nothing waits for
        the device of the weights.
        """
        device = self.embedding.weight.device
        if isinstance(self.embedding, NGrams):
            return self._finish(self.dropout(self.embedding(move(ids, device), lengths)))
        packing = Packing.of(lengths.cpu(), ids.shape[1])
        lines = move(packing.pack(ids), device)
        states = self.dropout(self.recurrent(self.embedding(lines), packing))
        if isinstance(self.pooling, Attention) and device.type == "cpu":
            return self._finish(self.pooling.packed(states, packing))
        return self._finish(self.pooling(packing.unpack(states), move(lengths, device)))

    def _finish(self, vectors: torch.Tensor) -> torch.Tensor:
        return unit(vectors, self.similarity, scaled=self.scaled)

    def embed(self, rows: Sequence[npt.NDArray[np.int64]]) -> torch.Tensor:
        """Map rows of ids to float32 unit vectors (B, width), in the order given."""
        if not rows:
            return self.embedding.weight.new_zeros(0, self.width)
        vectors: torch.Tensor = self(*pad(rows))
        return vectors


class ImageEncoder(nn.Module):
    """Maps picture features to a unit vector: a linear map, then L2 (Merkx & Frank 2019, section 3.1.1).

    Args:
        features: number of features of a picture.
        shape: the shape of the network.
        dropout: share of the features set to zero in training.
    """

    mean: torch.Tensor
    deviation: torch.Tensor

    def __init__(self, features: int, shape: Shape, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(features, shape.width)
        self.similarity = shape.similarity
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("deviation", torch.ones(features))

    def standardise_by(self, features: npt.NDArray[np.float32]) -> None:
        """Set mean and standard deviation by training features (N, D).

        The standard deviation of a nearly constant feature is set to infinity, so that the feature contributes nothing
        instead of noise.
        """
        # In blocks: all of COCO's features in float64 would take more memory than the training.
        blocks = np.array_split(features, len(features) // BLOCK + 1)
        mean = sum(block.sum(axis=0, dtype=np.float64) for block in blocks) / len(features)
        deviation = np.sqrt(sum(np.square(block - mean).sum(axis=0) for block in blocks) / len(features))
        deviation[deviation <= 1e-6 * max(float(deviation.max(initial=0.0)), 1e-30)] = np.inf
        self.mean.copy_(torch.from_numpy(mean))
        self.deviation.copy_(torch.from_numpy(deviation))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Map raw features, float (B, D), to float32 unit vectors (B, width)."""
        lines = self.dropout((features - self.mean) / self.deviation)
        return unit(linear(lines, self.linear.weight, self.linear.bias), self.similarity)


class Encoders(nn.Module):
    """Both sides, as a snapshot holds them.

    Args:
        tokens: number of ids, padding and unknown included.
        features: number of features of a picture; 0: there is no side of pictures, and no attribute ``images``.
        shape: the shape of the network.
        dropout_states: share of the states set to zero in training.
        dropout_features: share of the features set to zero in training.
    """

    def __init__(
        self, tokens: int, features: int, shape: Shape, *, dropout_states: float = 0.0, dropout_features: float = 0.0
    ) -> None:
        super().__init__()
        self.captions = CaptionEncoder(tokens, shape, dropout=dropout_states)
        if features:
            self.images = ImageEncoder(features, shape, dropout=dropout_features)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.captions.embedding.weight.device


def pad(rows: Sequence[npt.NDArray[np.int64]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows of ids as a padded matrix int64 (B, T) and their lengths int64 (B,); an empty row is one padding."""
    lengths = [max(len(row), 1) for row in rows]
    ids = np.full((len(rows), max(lengths, default=1)), PAD, np.int64)
    for matrix_row, row in zip(ids, rows, strict=True):
        matrix_row[: len(row)] = row
    return torch.from_numpy(ids), torch.tensor(lengths, dtype=torch.int64)


@torch.no_grad()
def initialise(encoders: Encoders, name: InitialisationName) -> None:
    """Draw the initial weights of new encoders in place, from torch's generator, as the released code of a paper does.

    The linear map of the pictures starts by Xavier's uniform rule, the embedding of padding is 0, and other weights
    keep torch's start, except: in ``char_gru`` (Merkx & Frank 2019) the hidden weights of the attention are orthogonal;
    in ``vsepp`` (Faghri et al. 2018) embeddings are uniform in +-:data:`LIMIT` and the biases of the map 0; in
    ``order_embeddings`` (Vendrov et al. 2016) moreover the input weights of the recurrent layer are uniform in
    +-:data:`LIMIT`, the recurrent weights of each gate orthogonal, and the biases 0. The embeddings of n-grams keep
    their start.
    """
    linear, captions = encoders.images.linear, encoders.captions
    nn.init.xavier_uniform_(linear.weight)
    if name == "char_gru":
        if isinstance(captions.pooling, Attention):
            nn.init.orthogonal_(captions.pooling.hidden.weight)
        return
    nn.init.zeros_(linear.bias)
    if not isinstance(captions.embedding, nn.Embedding):
        return
    nn.init.uniform_(captions.embedding.weight, -LIMIT, LIMIT)
    captions.embedding.weight[PAD] = 0.0
    if name == "vsepp":
        return
    for layer in captions.recurrent.layers:
        inputs, recurrent, *biases = layer.all_weights[0]
        nn.init.uniform_(inputs, -LIMIT, LIMIT)
        for gate in recurrent.chunk(len(recurrent) // layer.hidden_size):  # views: the weights themselves are drawn
            nn.init.orthogonal_(gate)
        for bias in biases:
            nn.init.zeros_(bias)
