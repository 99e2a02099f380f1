"""Features of pictures from image networks: mean of crops, exact, in one checked file.

The door is :func:`extract`: a list of picture files in, an array of features out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.features.door import extract as extract

__all__ = ["extract"]

_DOORS = {"extract": "pipeline.features.door"}


def __getattr__(name: str) -> Any:
    from pipeline.doors import open_door

    return open_door(__name__, _DOORS, name)
