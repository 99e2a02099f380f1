"""The networks that learn from ordered text: SkipThought, and neighbours told apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

from sightword.compute.devices import move
from sightword.grounded.skipthought.output import output_loss
from sightword.grounded.skipthought.reading import gru_states, last_states
from sightword.grounded.skipthought.settings import SkipthoughtSettings
from sightword.model.encoders import PAD, CaptionEncoder, pad
from sightword.model.layer_norm import LayerNormGru
from sightword.model.packing import Packing
from sightword.model.recurrent import LAYERS
from sightword.model.shape import RecurrentShape, SavedCellName
from sightword.text.storage import Text

Rows = Sequence[NDArray[np.int64]]

LIMIT = 0.1
"""Bound of the uniform initial weights."""
OFFSET = {"previous": -1, "next": 1}


def shape_of(settings: SkipthoughtSettings) -> RecurrentShape:
    """Return the shape of the encoder: a GRU in one direction, and its last state."""
    cell: SavedCellName = "gru" if settings.layer_norm == "none" else "layer_norm_gru"
    return RecurrentShape(settings.embedding, settings.hidden, cell, scaled=False)


def build(settings: SkipthoughtSettings, tokens: int) -> SkipThought | Neighbours:
    """Return a new network with initial weights drawn from torch's generator, for so many ids, padding included.

    Word vectors, input weights and the output layer are uniform in +-:data:`LIMIT`, the recurrent weights of each gate
    orthogonal, and biases 0 (released code). With the objective ``none`` the network is :class:`Neighbours`.
    """
    network = (SkipThought if settings.objective == "skipthought" else Neighbours)(settings, tokens)
    with torch.no_grad():
        for name, weights in network.named_parameters():
            if "bias" in name:
                weights.zero_()
            elif "weight_hh" in name:
                for gate in weights.chunk(3):  # views: the weights themselves are drawn
                    nn.init.orthogonal_(gate)
            else:
                weights.uniform_(-LIMIT, LIMIT)
        network.captions.embedding.weight[PAD] = 0.0
    return network


class _Reader(nn.Module):
    """An encoder of sentences, and the settings of its training run."""

    def __init__(self, settings: SkipthoughtSettings, tokens: int) -> None:
        super().__init__()
        self.settings = settings
        self.captions = CaptionEncoder(tokens, shape_of(settings))

    @property
    def dtype(self) -> torch.dtype:
        """The type that recurrent and output layers compute in."""
        return torch.bfloat16 if self.settings.precision == "bf16" else self.captions.embedding.weight.dtype

    def words(self, batches: Sequence[Rows]) -> tuple[torch.Tensor, list[Words]]:
        """Return the vectors of all words of some batches of sentences, (K, width), and the places of the words."""
        padded = [pad(rows) for rows in batches]
        packings = [Packing.of(lengths) for _, lengths in padded]
        lines = [packing.pack(ids).numpy() for (ids, _), packing in zip(padded, packings, strict=True)]
        known = np.unique(np.concatenate([np.array([PAD]), *lines]))
        table = self.captions.embedding(move(torch.from_numpy(known), self.captions.embedding.weight.device))
        return table, [
            Words(ids, np.searchsorted(known, ids), packing) for ids, packing in zip(lines, packings, strict=True)
        ]

    def read(
        self, layer: nn.Module, table: torch.Tensor, words: Words, start: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the states of a GRU after each of the N words of some sentences, from a table (K, width): (N, H).

        With initial states (B, H) the GRU reads a zero vector, then all words but the last: it predicts the words.
        """
        assert isinstance(layer, nn.GRU | LayerNormGru)
        found = np.unique(words.places if start is None else words.places_before(), return_inverse=True)
        own, places = (move(torch.from_numpy(each), table.device) for each in found)
        return gru_states(layer, table.index_select(0, own), places, words.packing, start, self.dtype)

    def vectors(self, table: torch.Tensor, words: Words) -> torch.Tensor:
        """Return the vectors of some sentences, (B, H): what ``captions.embed`` returns, to rounding."""
        return last_states(self.read(self.captions.recurrent.onward, table, words), words.packing)


@dataclass(frozen=True)
class Words:
    """The N words of B sentences, in the order of a packing."""

    ids: NDArray[np.int64]
    """(N,) ids."""
    places: NDArray[np.int64]
    """(N,) places in a table of vectors whose first vector is zero."""
    packing: Packing

    def places_before(self) -> NDArray[np.int64]:
        """Return the place of the word before each word, 0 before the first: (N,)."""
        sizes = self.packing.sizes
        starts = np.cumsum([0, *sizes])
        before = [self.places[start : start + size] for start, size in zip(starts, sizes[1:], strict=False)]
        return np.concatenate([np.zeros(sizes[0], np.int64), *before])


class SkipThought(_Reader):
    """An encoder whose vectors predict the words of the neighbours (Kiros et al. 2015; Bordes et al. 2019).

    A decoder is a GRU whose initial state is the sentence's vector itself, and whose inputs are the words before, with
    a zero vector first. The decoders share the table of words with the encoder, and have one output layer.

    Args:
        settings: the parameters.
        tokens: number of ids, padding and unknown included.
    """

    def __init__(self, settings: SkipthoughtSettings, tokens: int) -> None:
        super().__init__(settings, tokens)
        kind = LAYERS[shape_of(settings).cell]
        layers = {name: kind(settings.embedding, settings.hidden) for name in ("previous", "next")}
        self.decoders = nn.ModuleDict({name: layers[name] for name in layers if name in settings.decode})
        self.output = nn.Linear(settings.hidden, tokens)

    def loss(self, text: Text, middles: NDArray[np.int64]) -> torch.Tensor:
        """Return the loss of B triples, reduced as the settings say: a scalar.

        Args:
            text: the text.
            middles: the middle sentence of each triple, (B,).
        """
        divisors = {"padded": len(middles) * text.max_tokens, "sentences": len(middles)}
        return self._loss(text, middles, divisors.get(self.settings.reduction))[0]

    def total(self, text: Text, middles: NDArray[np.int64]) -> tuple[torch.Tensor, int]:
        """Return the sum of the losses of all predicted words of B triples, and the number of the words."""
        return self._loss(text, middles, 1)

    def _loss(self, text: Text, middles: NDArray[np.int64], divisor: int | None) -> tuple[torch.Tensor, int]:
        """Return the sum over decoders of the words' losses by a divisor, by default the words of the decoder."""
        table, (own, *targets) = self.words(
            [text.rows(middles), *(text.rows(middles + OFFSET[name]) for name in self.decoders)]
        )
        vectors, output = self.vectors(table, own), self.output
        states = [
            self.read(layer, table, words, vectors)
            for layer, words in zip(self.decoders.values(), targets, strict=True)
        ]
        ids = np.concatenate([words.ids for words in targets])
        scale = np.concatenate([np.full(len(words.ids), 1 / (divisor or len(words.ids))) for words in targets])
        loss = output_loss(
            torch.cat(states),
            output.weight,
            output.bias,
            move(torch.from_numpy(ids), table.device),
            move(torch.from_numpy(scale).to(output.weight.dtype), table.device),
        )
        return loss, len(ids)


class Neighbours(_Reader):
    """An encoder that tells a sentence's next sentence from the others of a batch (after Logeswaran & Lee 2018).

    Unlike there, one network reads both sentences, and vectors are compared by the cosine.
    """

    def loss(self, text: Text, firsts: NDArray[np.int64]) -> torch.Tensor:
        """Return the mean cross-entropy of B pairs, over both directions: a scalar.

        Duplicates of the target or of the anchor are no negatives.

        Args:
            text: the text.
            firsts: the first sentence of each pair, (B,).
        """
        return self.total(text, firsts)[0] / (2 * len(firsts))

    def total(self, text: Text, firsts: NDArray[np.int64]) -> tuple[torch.Tensor, int]:
        """Return the sum of the cross-entropies of B pairs in both directions, and their number, 2 B."""
        rows = text.rows(np.concatenate([firsts, firsts + 1]))
        table, (words,) = self.words([rows])
        both = F.normalize(self.vectors(table, words).to(table.dtype), dim=1)
        one, other = both[: len(firsts)], both[len(firsts) :]
        logits = one @ other.t() / self.settings.temperature
        right = torch.arange(len(firsts), device=logits.device)
        forth, back = (move(torch.from_numpy(each), logits.device) for each in _left_out(rows))
        loss = F.cross_entropy(logits.masked_fill(forth, float("-inf")), right, reduction="sum")
        loss = loss + F.cross_entropy(logits.t().masked_fill(back, float("-inf")), right, reduction="sum")
        return loss, 2 * len(firsts)


def _left_out(rows: Rows) -> Iterator[NDArray[np.bool_]]:
    """Yield which of B second sentences are not wrong ones for each of B first, and the reverse: twice bool (B, B).

    The first B rows are the first sentences. The right sentence, on the diagonal, is never left out.
    """
    _, numbers = np.unique([row.tobytes() for row in rows], return_inverse=True)
    first, second = numbers[: len(rows) // 2], numbers[len(rows) // 2 :]
    for own, others in ((first, second), (second, first)):
        equal = (others == others[:, None]) | (others == own[:, None])
        np.fill_diagonal(equal, val=False)
        yield equal
