"""The shape of the network, as a saved encoder keeps it.

This module needs no pydantic, so that encoding does not need it either. The section of the parameters
(:class:`sightword.model.settings.ModelSettings`) has the same entries, with defaults and limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

CellName = Literal["gru", "lstm"]
PoolingName = Literal["attention", "max", "mean", "last"]
StandardiseName = Literal["none", "training"]
SimilarityName = Literal["cosine", "order", "reversed_order"]
"""How a network is trained to compare captions with pictures."""
ComparisonName = Literal["cosine", "dot", "order", "reversed_order"]
"""How an encoder compares captions with pictures: a sum of several vectors has a length that may weigh."""


@dataclass(frozen=True)
class Shape:
    """The shape of both networks; :class:`sightword.model.settings.ModelSettings` explains the entries."""

    embedding: int
    cell: CellName
    hidden: int
    bidirectional: bool
    pooling: PoolingName
    attention: int
    mask_padding: bool
    standardise: StandardiseName
    similarity: SimilarityName

    @property
    def width(self) -> int:
        """Numbers in an embedding."""
        return self.hidden * (2 if self.bidirectional else 1)

    @classmethod
    def from_json(cls, value: object) -> Shape:
        """Check and take a JSON object with all entries.

        Raises:
            ValueError: an entry is unknown, missing, or has a wrong value (which entry, and what was expected).
        """
        if not isinstance(value, Mapping):
            raise ValueError("model is no JSON object")
        for key, found in value.items():
            kind = _kinds().get(key)
            if kind is None:
                raise ValueError(f"model.{key} is unknown")
            if wanted := _misses(found, kind):
                raise ValueError(f"model.{key} is {found!r}; expected {wanted}")
        if missing := _kinds().keys() - value.keys():
            raise ValueError(f"model.{min(missing)} is missing")
        return cls(**value)


def to_json(shape: Shape) -> dict[str, Any]:
    """Return a shape as a JSON object, its entries in their order."""
    return {name: getattr(shape, name) for name in _kinds()}


@cache
def _kinds() -> dict[str, Any]:
    return get_type_hints(Shape)


def _misses(value: object, kind: Any) -> str | None:
    """Return what was expected in place of a value, or None for a good value."""
    if get_origin(kind) is Literal:
        names = get_args(kind)
        return None if isinstance(value, str) and value in names else " or ".join(map(repr, names))
    if kind is bool:
        return None if isinstance(value, bool) else "true or false"
    whole = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return None if whole else "a whole number above 0"
