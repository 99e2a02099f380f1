"""Shows the encoder's attention weights over the characters of a caption."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightword.captions.units import split

if TYPE_CHECKING:
    from sightword.captions.vocabulary import Vocabulary
    from sightword.encoder.sentence_encoder import SentenceEncoder
    from sightword.model.encoders import CaptionEncoder

LEVELS = 9
"""Shading levels besides none, from half an even share (none) to twice an even share or more (the last level)."""
NAMED = 3
"""The number of words to name, those with the highest weights."""


class Attended(NamedTuple):
    """A caption with the attention weights of its tokens."""

    text: str
    pieces: list[tuple[str, int]]
    """The tokens with their levels; neighbours of one level are joined."""
    words: list[tuple[str, int]]
    """The words with the highest weights, each with its share in percent."""


def attend(encoder: SentenceEncoder, texts: Sequence[str]) -> list[Attended] | None:
    """Return the attention weights for each text; None for an encoder with another pooling in a trained part.

    A token's weight is the mean over the features of the softmax over time (Merkx & Frank 2019, section 3.1.2), and
    over the networks of the encoder. Each text is encoded alone, without padding.
    """
    from sightword.model.pooling import Attention
    from sightword.model.shape import TfidfShape

    parts = [part for part in encoder.leaves if not isinstance(part.shape, TfidfShape)]
    if not parts or not all(isinstance(part.captions.pooling, Attention) for part in parts):
        return None
    found = []
    for text in texts:
        tokens = split(encoder.vocabulary.normalise(text), encoder.vocabulary.unit)
        if tokens:
            ids = encoder.vocabulary.encode(text)
            of_parts = [feature_weights(part.captions, ids).mean(axis=1) for part in parts]
            weights = np.mean(of_parts, axis=0)
            found.append(Attended(text, _pieces(tokens, weights, encoder.vocabulary), _words(tokens, weights)))
    return found


def attend_with(folder: Path, texts: Sequence[str]) -> list[Attended] | None:
    """Return :func:`attend` of the encoder in a folder, on a CPU, so that every machine draws the same.

    Raises:
        EncoderError: the encoder is damaged.
    """
    if not texts:
        return []
    from sightword.encoder.sentence_encoder import SentenceEncoder

    return attend(SentenceEncoder.load(folder, device="cpu"), texts)


def feature_weights(captions: CaptionEncoder, ids: Sequence[int]) -> NDArray[np.float64]:
    """Return the softmax over the T tokens of one caption, for each feature, (T, width); each column adds up to 1."""
    import torch

    from sightword.model.packing import Packing
    from sightword.model.pooling import Attention

    pooling = captions.pooling
    assert isinstance(pooling, Attention)
    with torch.inference_mode():
        packing = Packing.of(torch.tensor([len(ids)]))
        states = captions.recurrent(captions.embedding(torch.tensor(list(ids))), packing)  # (T, width)
        weights: NDArray[np.float64] = torch.softmax(pooling.logits(states), dim=0).double().numpy()
    return weights


def _pieces(tokens: Sequence[str], weights: NDArray[np.float64], vocabulary: Vocabulary) -> list[tuple[str, int]]:
    # Levels are whole numbers, so that the last bits of a sum do not change the page.
    levels = np.clip(np.round((weights * len(tokens) - 0.5) / 1.5 * LEVELS), 0, LEVELS).astype(int).tolist()
    gap = " " if vocabulary.unit == "word" else ""
    pairs = itertools.groupby(zip(tokens, levels, strict=True), key=lambda pair: pair[1])
    return [(gap.join(token for token, _ in run) + gap, level) for level, run in pairs]


def _words(tokens: Sequence[str], weights: NDArray[np.float64]) -> list[tuple[str, int]]:
    """Return the words with the highest weights; white space separates words of characters."""
    whole = any(len(token) > 1 for token in tokens)
    shares = []
    places = itertools.groupby(range(len(tokens)), key=lambda place: place if whole else tokens[place].isspace())
    for run in (list(run) for _, run in places):
        word = "".join(tokens[place] for place in run)
        if not word.isspace():
            shares.append((math.fsum(weights[run]), word))
    best = sorted(shares, key=lambda one: -round(one[0], 4))[:NAMED]
    return [(word, round(100 * share)) for share, word in best]
