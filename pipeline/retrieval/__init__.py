"""Retrieval: given a caption find its picture, given a picture find a caption of it.

``score`` is the door: embeddings in, one protocol's entry of ``metrics/retrieval.json`` out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.retrieval.protocols import score as score

__all__ = ["score"]

_DOORS = {"score": "pipeline.retrieval.protocols"}


def __getattr__(name: str) -> Any:
    from pipeline.doors import open_door

    return open_door(__name__, _DOORS, name)
