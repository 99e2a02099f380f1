"""Vectors of sentences in several spaces, each distinct sentence read once for all spaces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightword.encoder.arguments import LONGEST
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.evaluation.semantics.encoding import Embeddings, embed


def embed_spaces(
    encoder: SentenceEncoder, sentences: Iterable[str], spaces: Sequence[str], *, batch_size: int = 256
) -> dict[str, Embeddings]:
    """Encode each distinct sentence once; return the vectors of each space.

    Raises:
        SemanticsError: there is no sentence, or the vectors are not finite.
    """
    widths: dict[str, int] = {}

    def encode(texts: list[str]) -> NDArray[Any]:
        found = encoder.encode_spaces(texts, batch_size=batch_size, max_length=LONGEST)
        widths.update({space: found[space].shape[1] for space in spaces})
        return np.concatenate([found[space] for space in spaces], axis=1)

    joined = embed(encode, sentences)
    ends = np.cumsum([widths[space] for space in spaces])
    return {space: joined.columns(slice(end - widths[space], end)) for space, end in zip(spaces, ends, strict=True)}
