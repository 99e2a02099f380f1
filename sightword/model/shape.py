"""The shape of the network as a saved encoder keeps it, read without the library that checks parameter files.

Whoever only encodes needs no such library. :class:`sightword.model.settings.ModelSettings` has the
same entries with what they mean; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Literal, Protocol, get_args, get_origin, get_type_hints

CellName = Literal["gru", "lstm"]
PoolingName = Literal["attention", "max", "mean", "last"]
StandardiseName = Literal["none", "training"]
SimilarityName = Literal["cosine", "order", "reversed_order"]
"""How a network is trained to compare captions with pictures."""
ComparisonName = Literal["cosine", "dot", "order", "reversed_order"]
"""How an encoder compares captions with pictures: a sum of several vectors has a length that may weigh."""


class Shape(Protocol):
    """What the networks read of their settings."""

    @property
    def embedding(self) -> int:
        """Width of a token's embedding."""

    @property
    def cell(self) -> CellName:
        """Recurrent cell."""

    @property
    def hidden(self) -> int:
        """States of each direction."""

    @property
    def bidirectional(self) -> bool:
        """Whether captions are read in both directions."""

    @property
    def pooling(self) -> PoolingName:
        """How the states over time become one vector."""

    @property
    def attention(self) -> int:
        """Hidden units of the attention."""

    @property
    def mask_padding(self) -> bool:
        """Whether padding is left out of the attention."""

    @property
    def standardise(self) -> StandardiseName:
        """How picture features are standardised."""

    @property
    def similarity(self) -> SimilarityName:
        """How captions and pictures are compared."""

    @property
    def width(self) -> int:
        """Numbers in an embedding."""


@dataclass(frozen=True)
class SavedShape:
    """A :class:`Shape` from a file."""

    embedding: int = 20
    cell: CellName = "gru"
    hidden: int = 1024
    bidirectional: bool = True
    pooling: PoolingName = "attention"
    attention: int = 128
    mask_padding: bool = True
    standardise: StandardiseName = "none"
    similarity: SimilarityName = "cosine"

    @property
    def width(self) -> int:
        """Numbers in an embedding."""
        return self.hidden * (2 if self.bidirectional else 1)

    @classmethod
    def from_json(cls, value: object) -> SavedShape:
        """Check and take what :func:`to_json` gave; an entry that is not there has its default.

        Raises:
            ValueError: an entry is unknown, or has a value that cannot be (which, and what was expected).
        """
        if not isinstance(value, Mapping):
            raise ValueError("model is no JSON object")
        for key, found in value.items():
            kind = _kinds().get(key)
            if kind is None:
                raise ValueError(f"model.{key} is unknown")
            if wanted := _misses(found, kind):
                raise ValueError(f"model.{key} is {found!r}; expected {wanted}")
        return cls(**value)


def to_json(shape: Shape) -> dict[str, Any]:
    """A shape as a JSON object, its entries in their order."""
    return {field.name: getattr(shape, field.name) for field in fields(SavedShape)}


@cache
def _kinds() -> dict[str, Any]:
    return get_type_hints(SavedShape)


def _misses(value: object, kind: Any) -> str | None:
    """What was expected in place of a value, None where it will do."""
    if get_origin(kind) is Literal:
        names = get_args(kind)
        return None if isinstance(value, str) and value in names else " or ".join(map(repr, names))
    if kind is bool:
        return None if isinstance(value, bool) else "true or false"
    whole = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return None if whole else "a whole number above 0"
