"""The shape of the network, as a saved encoder keeps it.

This module does without pydantic, which encoding does not need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

RecurrentName = Literal["gru", "lstm"]
CellName = Literal["gru", "lstm", "ngrams"]
"""The readers of ``train.cell``: recurrent cells, or a bag of n-grams."""
SavedCellName = Literal["gru", "lstm", "layer_norm_gru", "ngrams"]
"""The readers of a saved encoder: ``skipthought.layer_norm`` adds one."""
PoolingName = Literal["attention", "max", "mean", "last"]
StandardiseName = Literal["none", "training"]
SimilarityName = Literal["cosine", "order", "reversed_order"]
"""The similarities by which a network is trained."""
ComparisonName = Literal["cosine", "dot", "order", "reversed_order"]
"""The similarities of an encoder: the dot product is for a sum of several vectors, whose length matters."""


@dataclass
class Shape:
    """The shape of both networks; :class:`sightword.model.settings.ModelSettings` explains the fields."""

    embedding: int
    cell: SavedCellName
    hidden: int
    bidirectional: bool
    pooling: PoolingName
    attention: int
    mask_padding: bool
    standardise: StandardiseName
    similarity: SimilarityName
    longest_ngram: int
    ngram_buckets: int

    @property
    def reader(self) -> str:
        """The name of what reads captions, for people."""
        return "n-grams" if self.cell == "ngrams" else self.cell.upper()

    @property
    def width(self) -> int:
        """Number of dimensions of an embedding."""
        if self.cell == "ngrams":
            return self.embedding
        return self.hidden * (2 if self.bidirectional else 1)

    @classmethod
    def from_json(cls, value: object) -> Shape:
        """Check and take a JSON object with all fields.

        Raises:
            ValueError: a field is unknown, missing, or has a wrong value (which field, and the expected value).
        """
        if not isinstance(value, Mapping):
            raise ValueError("model is no JSON object")
        kinds = get_type_hints(cls)
        for name in dict.fromkeys([*value, *kinds]):
            if name not in kinds or name not in value:
                raise ValueError(f"model.{name} is {'unknown' if name in value else 'missing'}")
            if wanted := _misses(value[name], kinds[name]):
                raise ValueError(f"model.{name} is {value[name]!r}; expected {wanted}")
        return cls(**value)


def _misses(value: object, kind: Any) -> str | None:
    """Return the expected value in place of a wrong one; None for a good value."""
    if get_origin(kind) is Literal:
        names = get_args(kind)
        return None if isinstance(value, str) and value in names else " or ".join(map(repr, names))
    if kind is bool:
        return None if isinstance(value, bool) else "true or false"
    return None if type(value) is int and value > 0 else "a whole number above 0"
