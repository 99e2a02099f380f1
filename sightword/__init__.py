"""Sightword: from pictures with captions to a sentence encoder, and to the tables that judge it.

``import sightword`` is quick: torch, torchvision, pandas and the rest load when used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightword.encoder.sentence_encoder import SentenceEncoder as SentenceEncoder

__all__ = ["SentenceEncoder"]

_LAZY = {"SentenceEncoder": "sightword.encoder.sentence_encoder"}


def __getattr__(name: str) -> Any:
    from sightword._lazy import load

    if name == "__version__":
        from importlib.metadata import version

        return version("sightword")
    return load(__name__, _LAZY, name)
