"""Vocabulary expansion: the words of a file of word vectors get embeddings too (Kiros et al. 2015, section 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from sightword.captions.units import is_token
from sightword.captions.vocabulary import PAD, UNKNOWN, Vocabulary
from sightword.encoder.parts import Part, blank
from sightword.errors import EncoderError
from sightword.model.embedding import Floats
from sightword.model.encoders import CaptionEncoder
from sightword.model.shape import NgramShape


@dataclass(frozen=True)
class Expanded:
    """A part with a larger vocabulary."""

    part: Part
    shared: int
    """Words of the file that were in the vocabulary, from which the map was learned."""
    added: int
    """Words of the file that are new."""


def expand(part: Part, words: Sequence[str], vectors: Floats, *, where: object = None) -> Expanded:
    """Return the part with the words of a file in its vocabulary; words of the vocabulary keep their embeddings.

    The embedding of a new word is an affine map of its vector, fitted to the shared words by least squares. Words that
    are no single token after normalisation are left out.

    Args:
        part: the part.
        words: W words, each once.
        vectors: (W, width) their vectors.
        where: the file, for messages.

    Raises:
        EncoderError: the part reads characters or n-grams, or the file shares too few words with the vocabulary.
    """
    vocabulary, captions = part.vocabulary, part.captions
    if vocabulary.unit == "character":
        raise EncoderError("words cannot be added to an encoder that reads characters", where=where)
    if isinstance(part.shape, NgramShape):
        raise EncoderError("words cannot be added to an encoder that reads n-grams", where=where)
    own = dict(zip(vocabulary.tokens, range(UNKNOWN + 1, len(vocabulary)), strict=True))
    shared = [(row, own[word]) for row, word in enumerate(words) if word in own]
    width = vectors.shape[1]
    if len(shared) <= width:
        raise EncoderError(
            f"shares {len(shared)} words with the vocabulary, too few for a map from {width} numbers",
            where=where,
            expected=f"more than {width}",
            todo="Take a file of the same language and case, or of shorter vectors.",
        )
    table = captions.embedding.weight.detach().cpu().numpy()
    known, embedded = (list(side) for side in zip(*shared, strict=True))
    inputs = np.column_stack([vectors[known], np.ones(len(known))]).astype(np.float64)
    map_, *_ = np.linalg.lstsq(inputs, table[embedded].astype(np.float64), rcond=None)  # (width + 1, embedding)
    new = {
        word: row
        for row, word in enumerate(words)
        if word not in own and is_token(word, vocabulary.unit) and vocabulary.normalise(word) == word
    }
    larger = Vocabulary(tuple(sorted([*own, *new])), vocabulary.normalise, vocabulary.unit)
    values = np.empty((len(larger), table.shape[1]), np.float32)
    values[: UNKNOWN + 1] = table[: UNKNOWN + 1]
    for place, word in enumerate(larger.tokens, start=UNKNOWN + 1):
        values[place] = table[own[word]] if word in own else vectors[new[word]] @ map_[:-1] + map_[-1]
    grown = blank(len(larger), part.shape)["captions"]
    assert isinstance(grown, CaptionEncoder)
    state = captions.state_dict() | {"embedding.weight": torch.from_numpy(values).to(captions.embedding.weight.device)}
    grown.load_state_dict(state, assign=True)
    assert grown.embedding.padding_idx == PAD
    return Expanded(replace(part, captions=grown.eval(), vocabulary=larger), len(shared), len(new))
