"""Measures the share of a test set that the encoder has read in training.

A sentence was seen if it equals a training caption after case folding, replacing every character that is neither a
letter nor a digit by a space, and collapsing runs of spaces. A sentence without letters and digits was never seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray


class Seen:
    """The training captions, indexed for look-ups."""

    def __init__(self, training_captions: Iterable[str]) -> None:
        self._known = {bare(caption) for caption in training_captions} - {""}

    def mask(self, sentences: Sequence[str]) -> NDArray[np.bool_]:
        """Return (N,) whether each of N sentences is a training caption."""
        return np.fromiter((bare(sentence) in self._known for sentence in sentences), np.bool_, len(sentences))

    def share(self, sentences: Sequence[str]) -> float:
        """Return the share of sentences that are training captions, 0 to 1, counting repeated sentences each time."""
        return float(self.mask(sentences).mean())


def bare(sentence: str) -> str:
    """Return the sentence without case and punctuation."""
    return " ".join("".join(c if c.isalnum() else " " for c in sentence.casefold()).split())
