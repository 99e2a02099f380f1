"""Parts combined by a sum or by joining their vectors, and the spaces behind the combined vector."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from torch import nn

from sightword.captions.units import NOUN
from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.parts import Part, widths_of
from sightword.errors import EncoderError
from sightword.messages import quote
from sightword.model.embedding import Floats
from sightword.model.shape import ComparisonName, SimilarityName, TfidfShape
from sightword.model.similarity import unit_rows

Combine = Literal["sum", "join"]
PICTURES = "visual"
"""The space whose vectors stand beside the features of pictures."""


@dataclass(frozen=True, eq=False, repr=False)
class Combination:
    """Parts, each a network or a combination without spaces of its own, and what becomes of their vectors.

    Raises:
        EncoderError: the parts cannot be combined, or there is no such space.
    """

    parts: Sequence[Part | Combination]
    combine: Combine = "sum"
    """``sum``: the vectors of parts of one shape are added; ``join``: vectors stand one after the other."""
    renormalise: bool = False
    """Divide a sum by its length. A joined vector is divided by its length too, and each part has the same length in
    it, or that of its share: the cosine of two vectors is the mean of the parts' cosines, weighted by the shares."""
    notes: dict[str, Any] = field(default_factory=dict)
    """The training parameters, the features, and the epochs of the networks."""
    heads: Mapping[str, nn.Sequential] = field(default_factory=dict)
    """For each space the map from the combined vector; an empty ``Sequential`` is the identity. Without heads the
    combined vector is the only space, without a name."""
    default: str | None = None
    """The space of the embeddings, where there are heads."""
    shares: Sequence[float] = ()
    """The share of each part in the cosine of two joined vectors of length 1; empty: equal shares."""

    def __post_init__(self) -> None:
        if isinstance(self.parts, str | os.PathLike):
            name = quote(os.fspath(self.parts))
            todo = f"To load an encoder, call SentenceEncoder.from_pretrained({name})."
            raise EncoderError(f"{name} is a name, and the constructor takes networks", todo=todo)
        object.__setattr__(self, "parts", tuple(self.parts) if isinstance(self.parts, Iterable) else (self.parts,))
        if not self.parts:
            raise EncoderError("has no parts", expected="a Part or more")
        if self.combine not in get_args(Combine):
            raise EncoderError(f"is combined by {quote(self.combine)}", expected="sum or join")
        if self.default not in (self.heads or (None,)):
            raise EncoderError(f"has no space {quote(self.default)}", expected=" or ".join(self.heads) or "None")
        object.__setattr__(self, "shares", tuple(self.shares))
        shared = self.combine == "join" and self.renormalise and len(self.shares) == len(self.parts)
        right = shared and min(self.shares) > 0 and math.isclose(sum(self.shares), 1, abs_tol=1e-6)
        if self.shares and not right:
            expected = "one above 0 for each part of a joined vector of length 1, and 1 in all"
            raise EncoderError(f"shares are {quote(self.shares)}", expected=expected)
        for place, part in enumerate(self.parts, start=1):
            self._check_part(part, f"part {place}")
        for module in (*(part.network for part in self.leaves), *self.heads.values()):
            module.eval()

    def _check_part(self, part: object, where: str) -> None:
        if self.combine == "sum":
            if not isinstance(part, Part):
                raise EncoderError(f"is {type(part).__name__}", where=where, expected="a Part of a sum")
            for name in ("shape", "vocabulary", "features_width"):
                if getattr(part, name) != getattr(self.parts[0], name):
                    what = f"has another {name.removesuffix('_width')} than the first part"
                    raise EncoderError(what, where=where, expected="parts of one kind", todo="Join them instead.")
        elif not isinstance(part, Part | Combination):
            raise EncoderError(f"is {type(part).__name__}", where=where, expected="a Part or a SentenceEncoder")
        elif isinstance(part, Combination) and part.heads:
            todo = "Join its parts instead."
            raise EncoderError("has spaces of its own", where=where, expected="an encoder of one space", todo=todo)
        elif self.renormalise:
            one = self.parts[0]
            first = one if isinstance(one, Part) else one.leaves[0]
            widths = (one.features_width for one in self.parts if isinstance(one, Part | Combination))
            width = next((one for one in widths if one), 0)
            if isinstance(part, Combination):
                check_joined(part, first.vocabulary, first.shape.similarity, width, where=where)
            elif part.features_width not in (0, width):
                what = f"takes {part.features_width} features of a picture"
                raise EncoderError(what, where=where, expected=str(width))

    @property
    def lengths(self) -> list[float]:
        """The length of each part in a joined vector of length 1: the root of its share."""
        return [math.sqrt(share) for share in self.shares or [1 / len(self.parts)] * len(self.parts)]

    @property
    def all_notes(self) -> list[Mapping[str, Any]]:
        """The notes of the encoder, and of the encoders that it is joined of."""
        joined = (part for part in self.parts if isinstance(part, Combination))
        return [self.notes, *(notes for part in joined for notes in part.all_notes)]

    @property
    def leaves(self) -> list[Part]:
        """All networks, in their order."""
        return [one for part in self.parts for one in ([part] if isinstance(part, Part) else part.leaves)]

    def with_parts(self, change: Callable[[Part], Part]) -> Self:
        """Return the same combination of changed networks."""
        return replace(
            self, parts=[change(part) if isinstance(part, Part) else part.with_parts(change) for part in self.parts]
        )

    def to(self, device: torch.device) -> Self:
        """Move the weights to a device, and return the combination."""
        for module in (*(part.network for part in self.leaves), *self.heads.values()):
            module.to(device)
        return self

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.leaves[0].captions.embedding.weight.device

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the last network, which is that of all but in encoders of several trainings."""
        return self.leaves[-1].vocabulary

    @property
    def spaces(self) -> tuple[str, ...]:
        """The names of the spaces; none for one space without a name."""
        return tuple(self.heads)

    @property
    def width(self) -> int:
        """Number of dimensions of an embedding."""
        return self.width_of(self.default)

    def width_of(self, space: str | None) -> int:
        """Return the number of dimensions of a space; EncoderError if there is no such space."""
        return next(iter(widths_of(self.head(space))[::-1]), self.combined_width)

    @property
    def combined_width(self) -> int:
        """Number of dimensions of the combined vector."""
        widths = [part.shape.width if isinstance(part, Part) else part.width for part in self.parts]
        return sum(widths) if self.combine == "join" else widths[0]

    def head(self, space: str | None) -> nn.Sequential:
        """Return the map into a space; EncoderError if there is no such space."""
        if space not in (self.heads or (None,)):
            what = (
                f"has no space {quote(space)}"
                if self.heads
                else f"has one space only, without a name; not {quote(space)}"
            )
            raise EncoderError(what, expected=" or ".join(self.heads) or None)
        return self.heads[space] if space is not None else nn.Sequential()

    @property
    def features_width(self) -> int:
        """Number of features of a picture; 0 where pictures have no embeddings.

        With spaces, the features themselves are embeddings in the space ``visual``, and in no other. In a vector that
        is joined and divided by its length, a part without a side of pictures has zeros for each picture: it changes
        the similarity of two sentences, and no order of pictures.
        """
        if self.heads:
            return self.width if self.default == PICTURES else 0
        widths = [part.features_width for part in self.parts]
        return max(widths) if self.combine == "join" and self.renormalise else min(widths)

    @property
    def similarity_name(self) -> ComparisonName:
        """The similarity of embeddings: ``cosine``, ``dot``, ``order`` or ``reversed_order``.

        The similarity is that of the training, but the dot product for several parts that were trained for the cosine,
        if their sum is not scaled to length 1. Joined vectors and those of spaces are compared by the cosine.
        """
        if self.heads or self.combine == "join":
            return "cosine"
        trained = self.leaves[0].shape.similarity
        return "dot" if trained == "cosine" and len(self.parts) > 1 and not self.renormalise else trained

    @property
    def reads(self) -> str:
        """The readers of sentences, for people, such as ``2 x GRU``."""
        if self.combine == "sum":
            return f"{len(self.parts)} x {self.leaves[0].shape.reader}"
        return " + ".join(f"1 x {part.shape.reader}" if isinstance(part, Part) else part.reads for part in self.parts)

    def __repr__(self) -> str:
        """Describe the encoder in one line, without the weights."""
        pictures = f", {self.features_width} features" if self.features_width else ""
        spaces = ", ".join(f"{space} {self.width_of(space)}" for space in self.spaces)
        embedding = f"{self.default} of {spaces}" if spaces else f"{self.width} numbers an embedding"
        return (
            f"<{type(self).__name__}: {self.reads} over {NOUN[self.vocabulary.unit]}s{pictures}, "
            f"{embedding}, {self.similarity_name}, {self.device}>"
        )

    def combined(self, embed: Callable[[Part], Floats]) -> Floats:
        """Embed with every network by ``embed``, and return the combined vectors (N, D)."""
        vectors = [embed(part) if isinstance(part, Part) else part.combined(embed) for part in self.parts]
        if self.combine == "sum":
            total = functools.reduce(np.add, vectors)
            return unit_rows(total) if self.renormalise else total
        if self.renormalise:
            pairs = zip(vectors, self.lengths, strict=True)
            vectors = [unit_rows(each) * np.float32(length) for each, length in pairs]
        return np.concatenate(vectors, axis=1) if len(vectors) > 1 else vectors[0]


def check_joined(
    other: Combination, vocabulary: Vocabulary, similarity: SimilarityName, features_width: int, *, where: object
) -> None:
    """Refuse an encoder that cannot be joined, all lengths equal, with one of this vocabulary and similarity.

    Raises:
        EncoderError: a similarity is no cosine, the encoder is joined itself, or it reads other tokens or another
            number of features.
    """
    for trained in (part.shape.similarity for part in other.leaves):
        if trained != "cosine":
            raise EncoderError(f"was trained with the similarity {trained}", where=where, expected="cosine")
    if similarity != "cosine":
        what = f"cannot be joined with an encoder that was trained with the similarity {similarity}"
        raise EncoderError(what, where=where, expected="train.similarity: cosine")
    if other.combine == "join":
        what, todo = "is joined of several encoders", "Name each of them instead."
        if any(isinstance(part.shape, TfidfShape) for part in other.leaves):
            what, todo = "has a lexical part", "Take its run with select.lexical: 0, and set select.lexical here."
        raise EncoderError(what, where=where, todo=todo)
    if 0 not in (other.features_width, features_width) and other.features_width != features_width:
        what, todo = f"takes {other.features_width} features of a picture", "Train both on the same features."
        raise EncoderError(what, where=where, expected=str(features_width), todo=todo)
    if other.vocabulary != vocabulary:
        todo = "Train both on the same captions, cut into the same units."
        raise EncoderError("has another vocabulary", where=where, todo=todo)
