"""The attention of the encoder over the characters of captions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sightword.captions.units import split

if TYPE_CHECKING:
    from sightword.captions.vocabulary import Vocabulary
    from sightword.encoder.sentence_encoder import SentenceEncoder
    from sightword.model.encoders import CaptionEncoder

LEVELS = 9
"""Strengths that are drawn besides none, which is half an even share or less; the last one is twice that share."""
TOLD = 3
"""Words that are named, those with most weight."""


@dataclass(frozen=True)
class Attended:
    """A caption with what its tokens weigh.

    Attributes:
        text: the caption.
        pieces: its tokens, neighbours of one level together, with the level.
        words: the words with most weight, each with its share in percent.
    """

    text: str
    pieces: list[tuple[str, int]]
    words: list[tuple[str, int]]


def attend(encoder: SentenceEncoder, texts: Sequence[str]) -> list[Attended] | None:
    """Compute the attention over each text; None for an encoder with another pooling.

    A token's weight is the mean over the features of the softmax over time (Merkx & Frank 2019, equation 2), and over
    the members of the ensemble. Each text is read by itself, so that no padding takes part.
    """
    from sightword.model.attention import Attention

    if not all(isinstance(member.captions.pooling, Attention) for member in encoder.members):
        return None
    found = []
    for text in texts:
        tokens = split(encoder.vocabulary.normalise(text), encoder.vocabulary.unit)
        if tokens:
            ids = encoder.vocabulary.encode(text)
            weights = np.mean(
                [feature_weights(member.captions, ids).mean(axis=1) for member in encoder.members], axis=0
            )
            found.append(Attended(text, _pieces(tokens, weights, encoder.vocabulary), _words(tokens, weights)))
    return found


def feature_weights(captions: CaptionEncoder, ids: Sequence[int]) -> NDArray[np.float64]:
    """Return the softmax over the tokens of one caption, for each feature.

    Args:
        captions: an encoder that pools by attention.
        ids: T ids, at least one.

    Returns:
        (T, width); each column adds up to 1.
    """
    import torch

    from sightword.model.attention import Attention

    pooling = captions.pooling
    assert isinstance(pooling, Attention)
    with torch.inference_mode():
        rows, lengths = torch.tensor([list(ids)]), torch.tensor([len(ids)])
        states = captions.recurrent(captions.embedding(rows), lengths)[0]  # (T, width)
        weights: NDArray[np.float64] = torch.softmax(pooling.logits(states), dim=0).double().numpy()
    return weights


def _pieces(tokens: Sequence[str], weights: NDArray[np.float64], vocabulary: Vocabulary) -> list[tuple[str, int]]:
    # Whole levels, so that the last bits of a sum do not change the page.
    levels = np.clip(np.round((weights * len(tokens) - 0.5) / 1.5 * LEVELS), 0, LEVELS).astype(int).tolist()
    gap = " " if vocabulary.unit == "word" else ""
    pairs = itertools.groupby(zip(tokens, levels, strict=True), key=lambda pair: pair[1])
    return [(gap.join(token for token, _ in run) + gap, level) for level, run in pairs]


def _words(tokens: Sequence[str], weights: NDArray[np.float64]) -> list[tuple[str, int]]:
    """The words with most weight; what stands between white space is a word, or a token that is one."""
    shares: dict[tuple[int, str], float] = {}
    word, total, start = "", 0.0, 0
    whole = any(len(token) > 1 for token in tokens)
    for place, (token, weight) in enumerate(zip([*tokens, " "], [*weights.tolist(), 0.0], strict=True)):
        if token.isspace() or whole:
            if word:
                shares[start, word] = total
            word, total, start = "", 0.0, place
        if not token.isspace():
            word, total = word + token, total + weight
    best = sorted(shares, key=lambda key: (-round(shares[key], 4), key))[:TOLD]
    return [(word, round(100 * shares[start, word])) for start, word in best]
