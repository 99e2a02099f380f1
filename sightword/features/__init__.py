"""Features of pictures from image networks: mean of crops, exact, in one checked file.

The door is :func:`extract`: a list of picture files in, an array of features out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightword.features.api import extract as extract

__all__ = ["extract"]

_LAZY = {"extract": "sightword.features.api"}


def __getattr__(name: str) -> Any:
    from sightword._lazy import load

    return load(__name__, _LAZY, name)
