"""The similarities by name."""

from __future__ import annotations

import torch

from sightword.errors import ScoringError
from sightword.retrieval.cosine import Cosine
from sightword.retrieval.dot import Dot
from sightword.retrieval.inputs import Embeddings
from sightword.retrieval.order import Order
from sightword.retrieval.similarity import Similarity

NAMES = ("cosine", "dot", "order", "reversed_order")


def similarity(name: str, images: Embeddings, captions: Embeddings, device: torch.device) -> Similarity:
    """The similarity of that name, for these embeddings.

    Raises:
        ScoringError: there is none, or the embeddings are too long for it.
    """
    if name == "cosine":
        return Cosine(images, captions, device)
    if name == "dot":
        return Dot(images, captions, device)
    if name in NAMES:
        return Order(images, captions, device, reverse=name == "reversed_order")
    raise ScoringError(f"no such similarity: {name!r}", expected=", ".join(NAMES[:-1]) + f" or {NAMES[-1]}")
