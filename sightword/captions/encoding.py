"""Builds the vocabulary and encodes the corpus's captions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from sightword.captions.normalise import Normalisation
from sightword.captions.settings import CaptionsSettings
from sightword.captions.table import CaptionTable
from sightword.captions.vocabulary import Vocabulary
from sightword.errors import CaptionsError
from sightword.messages import quote


def build_vocabulary(parts: Iterable[CaptionTable], settings: CaptionsSettings) -> Vocabulary:
    """Build the vocabulary from the training captions alone; CaptionsError if the corpus has none."""
    normalise = Normalisation(settings.unicode, settings.case, settings.whitespace, settings.full_stop)
    train = (text for table in parts for text, split in zip(table.texts, table.splits, strict=True) if split == "train")
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
