"""The space ``visual`` of an encoder of grounded spaces: sentences beside pictures, for search."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.arguments import MAX_LENGTH
from sightword.encoder.by_name import folder_and_space, no_such_space
from sightword.encoder.folder import is_grounded
from sightword.encoder.grounded import GroundedEncoder
from sightword.encoder.pretrained import find_encoder
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError
from sightword.io.files import Pathish
from sightword.model.embedding import Floats
from sightword.model.shape import ComparisonName
from sightword.model.similarity import unit_rows


@dataclass(frozen=True, eq=False)
class VisualEncoder:
    """Sentences by f(s), pictures by their own features; all vectors have length 1."""

    grounded: GroundedEncoder

    similarity_name: ComparisonName = "cosine"

    @property
    def width(self) -> int:
        """Number of dimensions of an embedding."""
        return self.grounded.width_of("visual")

    @property
    def features_width(self) -> int:
        """Number of features of a picture."""
        return self.width

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the network that reads sentences."""
        return self.grounded.parts[-1].vocabulary

    @property
    def notes(self) -> dict[str, Any]:
        """The notes of the encoder."""
        return self.grounded.notes

    def encode(self, sentences: str | Iterable[str], *, max_length: int = MAX_LENGTH) -> Floats:
        """Return the vectors of sentences, float32 (N, width), or (width,) for one text."""
        return self.grounded.encode(sentences, space="visual", normalize_embeddings=True, max_length=max_length)

    def encode_images(self, features: Floats) -> Floats:
        """Return the vectors of pictures (N, features_width), float32 (N, width)."""
        return unit_rows(np.asarray(features, np.float32))


def open_beside_pictures(name: Pathish, *, device: torch.device | str = "cpu") -> SentenceEncoder | VisualEncoder:
    """Read an encoder of captions and pictures, or one with a space ``visual``.

    Args:
        name: as for :func:`sightword.encoder.pretrained.find_encoder`, or ``FOLDER:visual``.
        device: as for :meth:`sightword.encoder.sentence_encoder.SentenceEncoder.load`.

    Raises:
        EncoderError: there is no such encoder, or it is damaged; or another space is named.
        SetupError: the device does not exist.
    """
    place, space = folder_and_space(name)
    place = find_encoder(name) if space is None else place
    if not is_grounded(place):
        if space is not None:
            raise no_such_space(place, space)
        return SentenceEncoder.load(place, device=device)
    if space not in (None, "visual"):
        what = f"sentences are beside pictures in the space visual, not in {space!r}"
        raise EncoderError(what, where=place, todo=f"Remove :{space}.")
    found = GroundedEncoder.load(place, device=device)
    if "visual" not in found.spaces:
        todo = "Take a scenario with projection, or a sequential one."
        raise EncoderError("has no space of pictures", where=place, expected="the space visual", todo=todo)
    return VisualEncoder(found)
