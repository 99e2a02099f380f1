"""Hashed n-grams of a row's tokens, weighted by their frequency in the training captions: no training, no pictures."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn

from sightword.compute.devices import move
from sightword.model.ngrams import NGrams, bucket, ngrams

HASHES = 1 << 32
"""The number of different hashes of FNV-1a."""


class Tfidf(NGrams):
    """The sum of a row's n-grams, each with its weight, hashed to few numbers.

    The weight of an n-gram is ``log((N + 1) / (n + 1))``, where n of the N training captions have the n-gram (Spärck
    Jones 1972, smoothed): an n-gram that no caption has weighs ``log(N + 1)``. N-grams share weights by their hashes.
    Each n-gram is added to or subtracted from one number, which its hash chooses: the products of two such vectors are
    unbiased estimates of those of the whole vectors (Weinberger et al. 2009, section 2). Hashes are those of
    :class:`sightword.model.ngrams.NGrams`. Weights are 1 until they are counted.

    Args:
        width: numbers to which the n-grams are hashed.
        tokens: number of ids; an id has as many bytes as the largest one needs.
        longest: tokens of the longest n-grams.
        buckets: number of weights, which n-grams share.
        frame: the token before and behind each row: the space, so that a row begins and ends as a word does; or 0.
    """

    def __init__(self, width: int, *, tokens: int, longest: int, buckets: int, frame: int = 0) -> None:
        super().__init__(0, tokens=tokens, longest=longest, buckets=buckets)
        self.width, self.frame = width, frame
        self.weight = nn.Parameter(self.weight.new_ones(buckets), requires_grad=False)

    def hashes(self, ids: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the hashes of all n-grams, int64 (N,), and the row of each, int64 (N,), as :func:`ngrams`."""
        found, counts = ngrams(
            ids, lengths, longest=self.longest, buckets=HASHES, id_bytes=self.id_bytes, frame=self.frame
        )
        return found, move(torch.arange(len(ids)).repeat_interleave(counts), ids.device)

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Map ids, int64 (B, T) padded with 0, and lengths, int64 (B,) from 1 to T, to float32 (B, width)."""
        hashed, rows = self.hashes(ids, lengths)
        weights = self.weight[bucket(hashed, self.buckets)] * (1 - 2 * (hashed >> 31))  # the highest bit is the sign
        found = weights.new_zeros(len(ids) * self.width)
        return found.index_add(0, rows * self.width + bucket(hashed, self.width), weights).view(len(ids), self.width)

    @torch.no_grad()
    def count(self, batches: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Set the weights by the training captions, in batches of ids (B, T) and lengths (B,) as :meth:`forward`."""
        captions = 0
        having = torch.zeros(self.buckets, dtype=torch.int64)
        for ids, lengths in batches:
            hashed, rows = self.hashes(ids, lengths)
            once = torch.unique(rows * self.buckets + hashed % self.buckets)
            having += torch.bincount(once % self.buckets, minlength=self.buckets)
            captions += len(ids)
        self.weight.copy_(math.log(captions + 1) - (having + 1).double().log())
