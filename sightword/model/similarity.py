"""The similarity of captions and pictures: the cosine, the dot product, or minus the penalty of order-embeddings.

Order-embeddings (Vendrov et al. 2016, sections 2.2 and 4): a caption is more general than its pictures, so its
embedding should be the smaller one in every dimension. The penalty is ``E(c, i) = sum_d max(0, c_d - i_d)^2``, without
a root, of the absolute values of embeddings of length 1. The 'symmetric' row of their table is ``similarity: cosine``
here, with the summed hinge loss and margin 0.2.

The join of two items holds what they share; their meet holds what either has (their Figure 4). In ``order`` a caption
has smaller coordinates than its picture: the elementwise maximum composes, and the minimum abstracts. In
``reversed_order`` the minimum composes. Embeddings that are compared by products compose by their sum.
"""

from __future__ import annotations

from itertools import product
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch.autograd.function import once_differentiable

from sightword.compute.threads import spread
from sightword.errors import EncoderError
from sightword.model.products import linear
from sightword.model.shape import ComparisonName, SimilarityName

Number = TypeVar("Number", np.float32, np.float64)
Vectors = npt.NDArray[np.float32]
ORDERS = ("order", "reversed_order")
"""The similarities with an abstraction."""
SHORTEST = 1e-12
"""Length below which a vector has no direction."""
_CPU_TILE, _OTHER_TILE = 1 << 19, 1 << 26
"""Numbers in a tile: a CPU's cache, and 256 MB elsewhere."""
_TABLE_TILE = (64, 512)
"""Captions and pictures of a tile of :func:`errors` on a CPU."""


def unit(vectors: torch.Tensor, similarity: SimilarityName, *, scaled: bool = True) -> torch.Tensor:
    """Scale the rows of (B, D) to length 1, as float32 (float64 stays); for the order similarities without signs.

    A row of zeros stays zero, without a gradient: it has no direction. A row whose squares overflow becomes NaN, which
    all readers refuse. Not ``scaled``, the rows keep their length.
    """
    vectors = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
    if scaled:
        length = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
        length = length.masked_fill(length.isinf(), torch.nan)
        vectors = vectors.masked_fill(length < SHORTEST, 0.0) / length.clamp_min(SHORTEST)
    return vectors if similarity == "cosine" else vectors.abs()


def unit_rows(vectors: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Return the rows (.., D) of an array of float32 or float64 with length 1; a row of zeros stays zero."""
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    if (overflown := np.isinf(lengths)).any():
        largest: npt.NDArray[Any] = np.abs(vectors).max(axis=-1, keepdims=True)
        largest[~overflown] = 1
        return unit_rows(vectors / largest)
    found: npt.NDArray[Number] = vectors / np.maximum(lengths, SHORTEST)
    return found


def scores(captions: torch.Tensor, images: torch.Tensor, similarity: ComparisonName) -> torch.Tensor:
    """Return the similarity (B, N) of each caption with each picture, with gradients to both; more is more similar.

    Args:
        captions: (B, D), from :func:`unit`.
        images: (N, D), from :func:`unit`.
        similarity: ``cosine`` of rows of length 1; ``dot`` of any rows; ``order``, minus E(c, i); or
            ``reversed_order``, minus E(i, c).
    """
    if similarity in ("cosine", "dot"):
        return linear(captions, images)
    if similarity == "order":
        return -order_errors(captions, images)
    return -order_errors(images, captions).T


def paired_scores(captions: torch.Tensor, images: torch.Tensor, similarity: ComparisonName) -> torch.Tensor:
    """Return the diagonal of :func:`scores`, (N,), of as many captions as pictures (N, D)."""
    if similarity in ("cosine", "dot"):
        return (captions * images).sum(dim=1)
    lower, upper = (captions, images) if similarity == "order" else (images, captions)
    return -(lower - upper).clamp_min(0).square().sum(dim=1)


def tie_width(dimensions: int) -> float:
    """Return the difference below which two float64 similarities are tied.

    The width is absolute for cosines, relative to the product of the longest rows for dot products, and relative to the
    score itself for the order similarities. A float64 sum of D products of unit vectors has an error of at most about D
    times 2**-53, in any order of addition; two scores and the lengths of their rows make it four times as large, with
    some room for small D. The relative error of a sum of D squares is not larger.
    """
    return (dimensions + 16) * 2.0**-50


def order_errors(lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
    """Return ``sum_d max(0, l_d - u_d)^2``, (B, N), of each row l of lower (B, D) with each row u of upper (N, D).

    The differences (B, N, D) are computed in tiles, and again for the gradients, so that memory holds one tile.
    """
    found: torch.Tensor = _OrderErrors.apply(lower, upper)  # type: ignore[no-untyped-call]  # torch gives it no type
    return found


class _OrderErrors(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(lower, upper)
        found = lower.new_empty(len(lower), len(upper))
        for rows in _tiles(lower, upper):
            found[rows] = _excess(lower[rows], upper).square_().sum(dim=2)
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


def errors(captions: torch.Tensor, images: torch.Tensor, out: torch.Tensor) -> None:
    """Compute ``sum_d max(0, c_d - i_d)^2`` of each caption c with each picture i, without gradients.

    The dimensions are added one after another, a tile of pairs at a time, which stays in a CPU's cache.

    Args:
        captions: float64 (n, D).
        images: float64 (m, D).
        out: float64 (n, m), overwritten. A pair's error does not depend on its tile.
    """
    across, down = captions.T.contiguous()[:, :, None], images.T.contiguous()  # (D, n, 1), (D, m)
    cpu = out.device.type == "cpu"
    tall, wide = _TABLE_TILE if cpu else out.shape

    def tile(place: tuple[int, int]) -> None:
        top, left = place
        columns, rows = across[:, top : top + tall], down[:, left : left + wide]
        total = out.new_zeros(columns.shape[1], rows.shape[1])
        excess = torch.empty_like(total)
        for column, row in zip(columns, rows, strict=True):
            torch.sub(column, row, out=excess).relu_()
            total.addcmul_(excess, excess)
        out[top : top + tall, left : left + wide] = total

    places = product(range(0, len(captions), tall), range(0, len(images), wide))
    if cpu:  # each tile in one thread, which is too little work for more
        spread(tile, places)
    else:
        for place in places:
            tile(place)


def compose(vectors: Vectors, similarity: ComparisonName) -> Vectors:
    """Compose n vectors (.., n, D) into one (.., D) that contains everything any of them contains.

    The result is the elementwise maximum in an ``order``, the minimum in a ``reversed_order``, and otherwise the sum of
    the vectors scaled to length 1.
    """
    if similarity in ORDERS:
        return _extreme(vectors, largest=similarity == "order")
    total: Vectors = unit_rows(vectors).sum(axis=-2)
    return total


def abstract(vectors: Vectors, similarity: ComparisonName) -> Vectors:
    """Abstract n vectors (.., n, D) to one (.., D) that contains what all of them contain.

    The result is the elementwise minimum in an ``order``, and the maximum in a ``reversed_order``.

    Raises:
        EncoderError: the similarity is no order.
    """
    if similarity not in ORDERS:
        what = f"embeddings that are compared by the {'dot product' if similarity == 'dot' else 'cosine'}"
        todo = "Take an encoder that was trained with train.similarity: order, as in the recipe coco-order."
        raise EncoderError(f"{what} have no abstraction", expected="order-embeddings", todo=todo)
    return _extreme(vectors, largest=similarity == "reversed_order")


def _extreme(vectors: Vectors, *, largest: bool) -> Vectors:
    extreme: Vectors = vectors.max(axis=-2) if largest else vectors.min(axis=-2)
    return extreme
