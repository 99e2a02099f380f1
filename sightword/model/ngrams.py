"""Hashed n-grams of a row's tokens: the mean of embeddings, or a sum weighted by frequency (tf-idf)."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn
from torch.nn import functional as F

from sightword.compute.devices import move

SHORTEST = 2
"""Tokens of the shortest n-grams."""
BASIS, PRIME = 2_166_136_261, 16_777_619
"""The hash of no byte, and the factor of each byte, of FNV-1a with 32 bits (Fowler, Noll & Vo)."""
HASHES = 1 << 32
"""The number of different hashes of FNV-1a."""


class NGrams(nn.Module):
    """The mean of the embeddings of a row's n-grams.

    Charagram (Wieting et al. 2016, section 3) sums the vectors of the character n-grams of a text. Here n-grams are
    hashed by FNV-1a, as in fastText (Bojanowski et al. 2017, section 3.2), so that one that was never seen has a vector
    too. The bytes are those of the tokens' ids, the lowest first; fastText takes the bytes of the text. They count from
    0 to 255, as FNV-1a is published; fastText extends the sign of bytes above 127.

    Args:
        width: numbers of an embedding.
        tokens: number of ids; an id has as many bytes as the largest one needs.
        longest: tokens of the longest n-grams; the shortest ones have :data:`SHORTEST`.
        buckets: number of embeddings, which n-grams share.
        frame: the token before and behind each row: the space, so that a row begins and ends as a word does; or 0.
    """

    def __init__(self, width: int, *, tokens: int, longest: int, buckets: int, frame: int = 0) -> None:
        super().__init__()
        self.longest, self.buckets, self.frame = longest, buckets, frame
        self.id_bytes = max(1, -(-(tokens - 1).bit_length() // 8))
        self.weight = nn.Parameter(torch.empty(buckets, width))
        if not self.weight.is_meta:
            nn.init.normal_(self.weight, std=0.05)

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Map ids, int64 (B, T) padded with 0, and lengths, int64 (B,) from 1 to T, to float32 (B, width).

        With lengths on the CPU, nothing waits for the device of the ids.
        """
        rows, counts = self._found(ids, lengths, self.buckets)
        starts = move(counts.cumsum(0) - counts, ids.device)
        return F.embedding_bag(rows, self.weight, starts, mode="mean")

    def _found(self, ids: torch.Tensor, lengths: torch.Tensor, buckets: int) -> tuple[torch.Tensor, torch.Tensor]:
        return ngrams(ids, lengths, longest=self.longest, buckets=buckets, id_bytes=self.id_bytes, frame=self.frame)


class Tfidf(NGrams):
    """The sum of a row's n-grams, each with its weight, hashed to few numbers.

    The weight of an n-gram is ``log((N + 1) / (n + 1))``, where n of the N training captions have the n-gram (Spärck
    Jones 1972, smoothed): an n-gram that no caption has weighs ``log(N + 1)``. N-grams share weights by their hashes.
    Each n-gram is added to or subtracted from one number, which its hash chooses: the products of two such vectors are
    unbiased estimates of those of the whole vectors (Weinberger et al. 2009, section 2). Hashes are those of
    :class:`NGrams`. Weights are 1 until they are counted.

    Args:
        width: numbers to which the n-grams are hashed.
        tokens: number of ids; an id has as many bytes as the largest one needs.
        longest: tokens of the longest n-grams.
        buckets: number of weights, which n-grams share.
        frame: the token before and behind each row.
    """

    def __init__(self, width: int, *, tokens: int, longest: int, buckets: int, frame: int = 0) -> None:
        super().__init__(0, tokens=tokens, longest=longest, buckets=buckets, frame=frame)
        self.width = width
        self.weight = nn.Parameter(self.weight.new_ones(buckets), requires_grad=False)

    def hashes(self, ids: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the hashes of all n-grams, int64 (N,), and the row of each, int64 (N,), as :func:`ngrams`."""
        found, counts = self._found(ids, lengths, HASHES)
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


def ngrams(
    ids: torch.Tensor, lengths: torch.Tensor, *, longest: int, buckets: int, id_bytes: int, frame: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the buckets of all n-grams, int64 (N,), row after row, and on the CPU the number in each row, int64 (B,).

    The token ``frame`` stands before and behind each row; with the padding's 0, n-grams there differ from others.

    Args:
        ids: int64 (B, T), padded with 0.
        lengths: int64 (B,), from 1 to T.
        longest: tokens of the longest n-grams.
        buckets: number of buckets.
        id_bytes: bytes of an id.
        frame: a token.
    """
    framed, lengths = F.pad(ids, (1, 1)), lengths.cpu()
    if frame:
        framed[:, 0] = frame
        framed[torch.arange(len(ids)), move(lengths + 1, ids.device)] = frame
    hashed = torch.full_like(framed, BASIS)  # of the n-gram that begins at each place
    found, inside = [], []
    for size in range(1, min(longest, framed.shape[1]) + 1):
        starts = framed.shape[1] - size + 1
        hashed = fnv1a(hashed[:, :starts], framed[:, size - 1 :], id_bytes)
        if size >= SHORTEST:
            found.append(bucket(hashed, buckets))
            inside.append(torch.arange(starts) < (lengths + 3 - size)[:, None])
    mask = torch.cat(inside, dim=1)
    places = move(mask.flatten().nonzero().flatten(), ids.device)
    return torch.cat(found, dim=1).flatten().index_select(0, places), mask.sum(dim=1)


def bucket(hashed: torch.Tensor, buckets: int) -> torch.Tensor:
    """Return hashes modulo a number, which is quick for a power of two."""
    return hashed & (buckets - 1) if buckets & (buckets - 1) == 0 else hashed % buckets


def fnv1a(hashed: torch.Tensor, numbers: torch.Tensor, width: int) -> torch.Tensor:
    """Return hashes continued by the bytes of numbers, the lowest byte first; all int64 of one shape.

    Args:
        hashed: the hashes of the bytes before, :data:`BASIS` at the start.
        numbers: not negative.
        width: bytes of a number.
    """
    for place in range(width):
        hashed = (hashed ^ (numbers >> 8 * place & 0xFF)) * PRIME & 0xFFFFFFFF  # below 2^57 before the mask
    return hashed
