"""Retrieval: given a caption find its picture, given a picture find a caption of it.

``score`` is the door: embeddings in, one protocol's entry of ``metrics/retrieval.json`` out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightword.retrieval.protocols import score as score

__all__ = ["score"]

_LAZY = {"score": "sightword.retrieval.protocols"}


def __getattr__(name: str) -> Any:
    from sightword._lazy import load

    return load(__name__, _LAZY, name)
