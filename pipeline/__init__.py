"""Sightword: from pictures with captions to a sentence encoder, and to the tables that judge it.

``import pipeline`` is quick: torch, torchvision, pandas and the rest load when used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.model.sentence_encoder import SentenceEncoder as SentenceEncoder

__all__ = ["SentenceEncoder"]
__version__ = "0.1.0"

_DOORS = {"SentenceEncoder": "pipeline.model.sentence_encoder"}


def __getattr__(name: str) -> Any:
    from pipeline.doors import open_door

    return open_door(__name__, _DOORS, name)
