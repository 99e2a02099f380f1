"""Ordered text in memory."""

from __future__ import annotations

import numpy as np

from sightword.captions.vocabulary import Vocabulary
from sightword.text.storage import Text


def text_of(rows, *, words, passages=None, held_out=(), max_tokens=30):
    """Sentences, as lists of ids from 2 on, of a vocabulary of so many ids; one passage by default."""
    vocabulary = Vocabulary.build([" ".join(f"w{number:04}" for number in range(words - 2))], unit="word")
    assert len(vocabulary) == words
    split = np.zeros(len(rows), np.uint8)
    split[list(held_out)] = 1
    return Text(
        vocabulary,
        np.concatenate([np.array(row, np.uint16) for row in rows]),
        np.cumsum([0, *map(len, rows)]),
        np.zeros(len(rows), np.int32) if passages is None else np.array(passages, np.int32),
        split,
        max_tokens=max_tokens,
    )
