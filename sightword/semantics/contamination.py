"""How much of a test set the encoder has read while it was trained.

The rule: a sentence was seen when, after case folding, with every character that is
neither a letter nor a digit turned into a space, and runs of spaces into one, it
equals a training caption treated the same. A sentence with neither letter nor digit
was never seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray


class Seen:
    """The training captions, ready for look-ups."""

    def __init__(self, training_captions: Iterable[str]) -> None:
        self._known = {bare(caption) for caption in training_captions} - {""}

    def mask(self, sentences: Sequence[str]) -> NDArray[np.bool_]:
        """Which of these N sentences are verbatim training captions: (N,)."""
        return np.fromiter((bare(sentence) in self._known for sentence in sentences), np.bool_, len(sentences))

    def share(self, sentences: Sequence[str]) -> float:
        """The share of these sentences that are verbatim training captions, 0 to 1; repeated ones count each time."""
        return float(self.mask(sentences).mean())


def bare(sentence: str) -> str:
    """The sentence without case and punctuation."""
    return " ".join("".join(c if c.isalnum() else " " for c in sentence.casefold()).split())
