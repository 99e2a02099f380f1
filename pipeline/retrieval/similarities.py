"""The similarities by name."""

from __future__ import annotations

import torch

from pipeline.errors import ScoringError
from pipeline.retrieval.cosine import Cosine
from pipeline.retrieval.dot import Dot
from pipeline.retrieval.inputs import Embeddings
from pipeline.retrieval.order import Order
from pipeline.retrieval.similarity import Similarity

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
