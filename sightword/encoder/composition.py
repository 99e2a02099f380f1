"""Composition and abstraction of embeddings (Vendrov et al. 2016, Figure 4).

In order-embeddings the join of two items holds what they share; their meet holds what either has. In ``order`` a
caption has smaller coordinates than its picture: the elementwise maximum composes, and the minimum abstracts. In
``reversed_order`` the minimum composes. Embeddings that are compared by products compose by their sum.
"""

from __future__ import annotations

from sightword.errors import EncoderError
from sightword.model.embedding import Floats
from sightword.model.shape import ComparisonName
from sightword.model.similarity import unit_rows

ORDERS = ("order", "reversed_order")
"""The similarities with an abstraction."""


def compose(vectors: Floats, similarity: ComparisonName) -> Floats:
    """Compose n vectors (.., n, D) into one (.., D) that contains everything any of them contains.

    The result is the elementwise maximum in an ``order``, the minimum in a ``reversed_order``, and otherwise the sum of
    the vectors scaled to length 1.
    """
    if similarity in ORDERS:
        return _extreme(vectors, largest=similarity == "order")
    found: Floats = unit_rows(vectors).sum(axis=-2)
    return found


def abstract(vectors: Floats, similarity: ComparisonName) -> Floats:
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


def _extreme(vectors: Floats, *, largest: bool) -> Floats:
    found: Floats = vectors.max(axis=-2) if largest else vectors.min(axis=-2)
    return found
