"""The shape of a network, as a saved encoder keeps it: one class for each kind of reader.

This module does without pydantic, which encoding does not need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from sightword.messages import quote

CellName = Literal["gru", "lstm", "ngrams", "tfidf"]
"""The readers of ``train.cell``: recurrent cells, a bag of n-grams, or n-grams weighted by their frequency."""
RecurrentCellName = Literal["gru", "lstm"]
PoolingName = Literal["attention", "max", "mean", "last"]
StandardiseName = Literal["none", "training"]
InitialisationName = Literal["char_gru", "vsepp", "order_embeddings"]
SimilarityName = Literal["cosine", "order", "reversed_order"]
"""The similarities by which a network is trained."""
ComparisonName = Literal["cosine", "dot", "order", "reversed_order"]
"""The similarities of an encoder: the dot product is for a sum of several vectors, whose length matters."""
MOST = 10**8
"""The largest number in a shape: weights of such sizes can be described without memory."""


@dataclass(frozen=True)
class RecurrentShape:
    """A recurrent layer over tokens; :class:`sightword.model.settings.ModelSettings` explains the fields."""

    embedding: int
    hidden: int
    cell: RecurrentCellName = "gru"
    bidirectional: bool = False
    pooling: PoolingName = "last"
    attention: int = 0
    """Hidden units of the pooling ``attention``; 0 for another pooling."""
    mask_padding: bool = True
    similarity: SimilarityName = "cosine"
    scaled: bool = True
    """Whether vectors have length 1; the released code of order-embeddings for entailment does not scale them."""

    @property
    def reader(self) -> str:
        """The name of the reader, for people."""
        return self.cell.upper()

    @property
    def width(self) -> int:
        """Number of dimensions of an embedding."""
        return self.hidden * (2 if self.bidirectional else 1)


@dataclass(frozen=True)
class NgramShape:
    """A bag of hashed n-grams of tokens; :class:`sightword.model.settings.ModelSettings` explains the fields."""

    embedding: int
    longest_ngram: int
    ngram_buckets: int
    similarity: SimilarityName = "cosine"
    scaled: bool = True
    frame: int = 0
    """The token before and behind each text: the space, or 0 for words and for encoders from before the frame."""

    reader = "n-grams"

    @property
    def width(self) -> int:
        """Number of dimensions of an embedding."""
        return self.embedding


@dataclass(frozen=True)
class TfidfShape(NgramShape):
    """Hashed n-grams of tokens, weighted by their frequency; :mod:`sightword.model.ngrams` explains the fields."""

    reader = "tf-idf"


Shape = RecurrentShape | NgramShape
_KINDS: dict[str, type[Shape]] = {"recurrent": RecurrentShape, "ngrams": NgramShape, "tfidf": TfidfShape}


def shape_as_json(shape: Shape) -> dict[str, Any]:
    """Return a shape as a JSON object, which :func:`shape_from_json` reads."""
    name = next(name for name, kind in _KINDS.items() if type(shape) is kind)
    return {"reader": name, **asdict(shape)}


def shape_from_json(value: object) -> Shape:
    """Check and take a JSON object with all fields.

    Raises:
        ValueError: a field is unknown, missing, or has a wrong value (which field, and the expected value).
    """
    if not isinstance(value, Mapping):
        raise ValueError(f"shape is {quote(value)}; expected a JSON object")
    fields = dict(value)
    name = fields.pop("reader", None)
    if not isinstance(name, str) or name not in _KINDS:
        raise ValueError(f"shape.reader is {quote(name)}; expected {' or '.join(map(repr, _KINDS))}")
    kinds = get_type_hints(_KINDS[name])
    if name == "ngrams":
        fields.setdefault("frame", 0)  # saved before n-grams had a frame
    for field in dict.fromkeys([*fields, *kinds]):
        if field not in kinds or field not in fields:
            raise ValueError(f"shape.{quote(field)[1:-1]} is {'unknown' if field in fields else 'missing'}")
        least = 0 if field == "frame" or (field == "attention" and fields.get("pooling") != "attention") else 1
        if wanted := _misses(fields[field], kinds[field], least):
            raise ValueError(f"shape.{field} is {quote(fields[field])}; expected {wanted}")
    return _KINDS[name](**fields)


def _misses(value: object, kind: Any, least: int) -> str | None:
    """Return the expected value in place of a wrong one; None for a good value."""
    if get_origin(kind) is Literal:
        names = get_args(kind)
        return None if isinstance(value, str) and value in names else " or ".join(map(repr, names))
    if kind is bool:
        return None if isinstance(value, bool) else "true or false"
    return None if type(value) is int and least <= value <= MOST else f"a whole number from {least} to {MOST:,}"
