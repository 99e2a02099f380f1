"""A bag of hashed n-grams of a row's tokens: no order beyond a few tokens, and no list of n-grams."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from sightword.devices import move

SHORTEST = 2
"""Tokens of the shortest n-grams."""
PRIME = (1 << 31) - 1
"""Hashes are taken modulo this number: products of two of them fit into int64."""
FACTOR, SPREAD = 1_103_515_245, 1_181_783_497


class NGrams(nn.Module):
    """The mean of the embeddings of a row's n-grams.

    Charagram (Wieting et al. 2016, section 3) sums the vectors of the character n-grams of a text. Here n-grams are
    hashed, as in fastText (Bojanowski et al. 2017, section 3.2), so that one that was never seen has a vector too.

    Args:
        width: numbers of an embedding.
        longest: tokens of the longest n-grams; the shortest ones have :data:`SHORTEST`.
        buckets: number of embeddings, which n-grams share.
    """

    def __init__(self, width: int, *, longest: int, buckets: int) -> None:
        super().__init__()
        self.longest, self.buckets = longest, buckets
        self.weight = nn.Parameter(torch.empty(buckets, width))
        if not self.weight.is_meta:
            nn.init.normal_(self.weight, std=0.05)

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Map ids, int64 (B, T) padded with 0, and lengths, int64 (B,) from 1 to T, to float32 (B, width).

        With lengths on the CPU, nothing waits for the device of the ids.
        """
        rows, counts = ngrams(ids, lengths, longest=self.longest, buckets=self.buckets)
        starts = move(counts.cumsum(0) - counts, ids.device)
        return F.embedding_bag(rows, self.weight, starts, mode="mean")


def ngrams(
    ids: torch.Tensor, lengths: torch.Tensor, *, longest: int, buckets: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the buckets of all n-grams, int64 (N,), row after row, and on the CPU the number in each row, int64 (B,).

    The token 0 stands before and behind each row, so that n-grams there differ from others.

    Args:
        ids: int64 (B, T), padded with 0.
        lengths: int64 (B,), from 1 to T.
        longest: tokens of the longest n-grams.
        buckets: number of buckets.
    """
    framed, lengths = F.pad(ids, (1, 1)), lengths.cpu()
    found, inside = [], []
    for size in range(SHORTEST, longest + 1):
        starts = framed.shape[1] - size + 1
        if starts < 1:
            break
        hashed = framed.new_full((len(ids), starts), size)
        for place in range(size):
            hashed = (hashed * FACTOR + framed[:, place : place + starts] + 1) % PRIME
        found.append(hashed * SPREAD % PRIME % buckets)
        inside.append(torch.arange(starts) < (lengths + 3 - size)[:, None])
    mask = torch.cat(inside, dim=1)
    places = move(mask.flatten().nonzero().flatten(), ids.device)
    return torch.cat(found, dim=1).flatten().index_select(0, places), mask.sum(dim=1)
