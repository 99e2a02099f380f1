"""Chooses the training captions, builds their vocabulary, and encodes the corpus's captions."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from sightword.captions.normalise import Normalisation
from sightword.captions.settings import CaptionsSettings
from sightword.captions.table import CaptionTable
from sightword.captions.vocabulary import Vocabulary
from sightword.errors import CaptionsError
from sightword.messages import plural, quote

SALT = "sightword training pictures 1\n"
"""The text before a picture's id; another text keeps other pictures."""


def subset(table: CaptionTable, settings: CaptionsSettings) -> CaptionTable:
    """Keep the training captions of ``train_pictures`` and ``train_captions``, in the corpus's order, and other splits.

    Raises:
        CaptionsError: the corpus has fewer training pictures than ``train_pictures``.
    """
    wanted, most = settings.train_pictures, settings.train_captions
    if not wanted and not most:
        return table
    captions = [*zip(table.image_ids, table.captions, table.splits, strict=True)]
    pictures: dict[str, list[tuple[str, int]]] = {}
    for name, number, split in captions:
        if split == "train":
            pictures.setdefault(name, []).append((name, number))
    if wanted > len(pictures):
        what = f"captions.train_pictures is {wanted}, and the corpus has {plural(len(pictures), 'training picture')}"
        expected = f"at most {len(pictures)}, or 0 for all"
        raise CaptionsError(what, expected=expected, todo="Set captions.train_pictures.")

    def place(caption: tuple[str, int]) -> bytes | int:
        name, number = caption
        return _hash(f"{settings.draw_seed}\n{name}\n{number}") if settings.draw == "hash" else number

    kept: set[tuple[str, int]] = set()
    for name in sorted(pictures, key=lambda name: _hash(f"{SALT}{name}"))[: wanted or None]:
        kept.update(sorted(pictures[name], key=place)[: most or None])
    return table.rows(
        [row for row, (name, number, split) in enumerate(captions) if split != "train" or (name, number) in kept]
    )


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def build_vocabulary(table: CaptionTable, settings: CaptionsSettings) -> Vocabulary:
    """Build the vocabulary from the training captions alone; CaptionsError if the corpus has none."""
    normalise = Normalisation(settings.unicode, settings.case, settings.whitespace, settings.full_stop)
    train = (text for text, split in zip(table.texts, table.splits, strict=True) if split == "train")
    return Vocabulary.build(train, normalise=normalise, min_count=settings.min_count, unit=settings.unit)


def with_ids(table: CaptionTable, vocabulary: Vocabulary) -> CaptionTable:
    """Return the captions with the ids of a vocabulary; CaptionsError if one is empty after normalisation."""
    ids = [row.astype(np.int32) for row in vocabulary.rows(table.texts)]
    empty = next((row for row, own in enumerate(ids) if not len(own)), None)
    if empty is not None:
        what = f"the caption {quote(table.texts[empty])} is empty after normalisation"
        where = f"{table.image_ids[empty]}#{table.captions[empty]}"
        raise CaptionsError(what, where=where, todo="Remove it from the corpus, or normalise less.")
    return replace(table, ids=ids)
