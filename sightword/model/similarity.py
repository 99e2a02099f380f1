"""How alike captions and pictures are: the cosine, the dot product, or how far one is from standing above the other in
an order.

Order-embeddings (Vendrov et al. 2016, section 3): a caption is more general than its pictures, so in every dimension
its embedding should be the smaller one. What it exceeds costs its square:
``E(c, i) = sum_d max(0, c_d - i_d)^2``, no root taken. Embeddings have length 1 and then no signs.

The 'symmetric' row of their table is the cosine with the summed hinge loss and margin 0.2, without absolute values:
``similarity: cosine`` here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from sightword.model.shape import ComparisonName, SimilarityName

SHORTEST = 1e-12
"""A vector shorter than this has no direction."""
_CPU_TILE, _OTHER_TILE = 1 << 19, 1 << 26
"""Numbers in a tile: what stays in a processor's cache, and 256 MB elsewhere."""


def unit(vectors: torch.Tensor, similarity: SimilarityName) -> torch.Tensor:
    """Float (B, D) to float32 (float64 stays) rows of length 1, for the order similarities with absolute values.

    A row of zeros stays one, and gets no gradient: it has no direction that could be turned.
    """
    vectors = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
    length = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    vectors = vectors.masked_fill(length < SHORTEST, 0.0) / length.clamp_min(SHORTEST)
    return vectors if similarity == "cosine" else vectors.abs()


def scores(captions: torch.Tensor, images: torch.Tensor, similarity: ComparisonName) -> torch.Tensor:
    """The similarity of each caption with each picture; more is more alike.

    Args:
        captions: (B, D), from :func:`unit`.
        images: (N, D), likewise.
        similarity: ``cosine``, of rows of length 1; ``dot``, of rows as they are; ``order``, minus E(c, i); or
            ``reversed_order``, minus E(i, c).

    Returns:
        (B, N), with gradients to both sides.
    """
    if similarity in ("cosine", "dot"):
        return captions @ images.T
    if similarity == "order":
        return -order_errors(captions, images)
    return -order_errors(images, captions).T


def tie_width(dimensions: int) -> float:
    """Return the difference below which two float64 similarities are tied.

    The width is absolute for cosines, relative to the product of the longest rows for dot products, and relative to the
    score itself for the order similarities.

    A float64 sum of D products of unit vectors has an error of at most about D times 2**-53, in whatever order the
    products are added. Two scores and the lengths of their rows make the error four times as large, with some room for
    small D. The relative error of a sum of D squares is no larger.
    """
    return (dimensions + 16) * 2.0**-50


def order_errors(lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
    """``sum_d max(0, l_d - u_d)^2`` of each row l of one with each row u of the other.

    There is no form of it as a product of matrices. It is computed in tiles, and again for the gradients,
    so that memory stays that of a tile and never holds all (B, N, D) differences.

    Args:
        lower: (B, D).
        upper: (N, D).

    Returns:
        (B, N).
    """
    found: torch.Tensor = _OrderErrors.apply(lower, upper)  # type: ignore[no-untyped-call]  # torch gives it no type
    return found


class _OrderErrors(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(lower, upper)
        found = lower.new_empty(len(lower), len(upper))
        for rows in _tiles(lower, upper):
            excess = _excess(lower[rows], upper)
            found[rows] = excess.square_().sum(dim=2)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        lower, upper = ctx.saved_tensors
        of_lower, of_upper = torch.empty_like(lower), torch.zeros_like(upper)
        for rows in _tiles(lower, upper):
            excess, weight = _excess(lower[rows], upper), 2 * gradient[rows]  # (b, N, D), (b, N)
            of_lower[rows] = torch.bmm(weight[:, None, :], excess).squeeze(1)
            of_upper -= excess.mul_(weight[:, :, None]).sum(dim=0)
        return of_lower, of_upper


def _excess(lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
    return (lower[:, None, :] - upper[None, :, :]).clamp_min_(0)


def _tiles(lower: torch.Tensor, upper: torch.Tensor) -> list[slice]:
    numbers = _CPU_TILE if lower.device.type == "cpu" else _OTHER_TILE
    size = max(1, numbers // max(1, upper.numel()))
    return [slice(start, start + size) for start in range(0, len(lower), size)]
