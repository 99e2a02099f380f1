"""Composition and abstraction of embeddings (Vendrov et al. 2016, Figure 4).

In an order, what is above two captions or pictures is what they have in common, and what is below both has what either
has. If a caption has the smaller coordinates (``order``), the elementwise maximum composes, and the minimum abstracts;
in ``reversed_order`` it is the other way round. Embeddings that are compared by products compose by their sum.
"""

from __future__ import annotations

from sightword.errors import EncoderError
from sightword.model.embedding import Floats
from sightword.model.shape import ComparisonName
from sightword.model.similarity import unit_rows

ORDERS = ("order", "reversed_order")
"""The similarities with an abstraction."""


def compose(vectors: Floats, similarity: ComparisonName) -> Floats:
    """Return the compositions (.., D) of some vectors (.., n, D): what has all that one of them has.

    The result is the elementwise maximum in an ``order``, the minimum in a ``reversed_order``, and otherwise the sum of
    the vectors scaled to length 1.
    """
    if similarity in ORDERS:
        return _extreme(vectors, largest=similarity == "order")
    found: Floats = unit_rows(vectors).sum(axis=-2)
    return found


def abstract(vectors: Floats, similarity: ComparisonName) -> Floats:
    """Return the abstractions (.., D) of some vectors (.., n, D): what all of them have in common.

    The result is the elementwise minimum in an ``order``, and the maximum in a ``reversed_order``.

    Raises:
        EncoderError: the similarity is no order.
    """
    if similarity not in ORDERS:
        what = f"embeddings that are compared by the {'dot product' if similarity == 'dot' else 'cosine'}"
        todo = "Take an encoder that was trained with train.similarity: order, as in the recipe coco-order."
        raise EncoderError(f"{what} have no abstraction", expected="order-embeddings", todo=todo)
    return _extreme(vectors, largest=similarity == "reversed_order")


def _extreme(vectors: Floats, *, largest: bool) -> Floats:
    found: Floats = vectors.max(axis=-2) if largest else vectors.min(axis=-2)
    return found
