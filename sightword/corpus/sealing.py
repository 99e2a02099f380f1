"""The sealed split: training pictures that a hash draws, held out of everything until one last scoring.

The tables have the captions of these pictures under their own split, and the readers of captions withhold them
(:func:`sightword.captions.table.read_captions`).
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from sightword.corpus.records import SEALED, Corpus
from sightword.errors import CorpusError

SALT = "sightword sealed split 1\n"
"""The text before a picture's id; another text draws other pictures."""


def seal(corpus: Corpus, count: int) -> Corpus:
    """Return a corpus in which ``count`` training pictures are of the split ``sealed``.

    The pictures with the smallest sha256 of :data:`SALT` and their id are drawn, so the draw depends on the training
    pictures' ids alone.

    Raises:
        CorpusError: no training picture would be left.
    """
    training = [image.image_id for image in corpus.images if image.split == "train"]
    if not count:
        return corpus
    if count >= len(training):
        what, expected = f"corpus.seal is {count}", f"fewer than the {len(training)} training pictures"
        raise CorpusError(what, expected=expected, todo="Lower corpus.seal.")
    drawn = set(sorted(training, key=_digest)[:count])
    images = [replace(one, split=SEALED) if one.image_id in drawn else one for one in corpus.images]
    return replace(corpus, images=images)


def _digest(image_id: str) -> str:
    return hashlib.sha256(f"{SALT}{image_id}".encode()).hexdigest()
