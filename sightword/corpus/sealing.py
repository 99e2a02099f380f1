"""The sealed split: training pictures that a hash draws, held out of everything until one last scoring.

The tables have the captions of these pictures under their own split, and the readers of captions withhold them
(:func:`sightword.captions.table.read_captions`).
"""

from __future__ import annotations

import hashlib
import heapq
from dataclasses import replace

import numpy as np

from sightword.corpus.records import ALL_SPLITS, Corpus
from sightword.errors import CorpusError
from sightword.settings import SEALED

SALT = "sightword sealed split 1\n"
"""The text before a picture's id; another text draws other pictures."""


def seal(corpus: Corpus, count: int) -> Corpus:
    """Return a corpus in which ``count`` training pictures are of the split ``sealed``.

    The pictures with the smallest sha256 of :data:`SALT` and their id are drawn, so the draw depends on the training
    pictures' ids alone.

    Raises:
        CorpusError: no training picture would be left.
    """
    if not count:
        return corpus
    splits = corpus.images.split
    training = np.flatnonzero(splits == ALL_SPLITS.index("train"))
    if count >= len(training):
        what, expected = f"corpus.seal is {count}", f"fewer than the {len(training)} training pictures"
        raise CorpusError(what, expected=expected, todo="Lower corpus.seal.")
    drawn = heapq.nsmallest(count, training.tolist(), key=lambda place: _digest(corpus.images.image_id(place)))
    splits[drawn] = ALL_SPLITS.index(SEALED)
    return replace(corpus, images=corpus.images.with_splits(splits))


def _digest(image_id: str) -> str:
    return hashlib.sha256(f"{SALT}{image_id}".encode()).hexdigest()
