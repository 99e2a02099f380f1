"""From the corpus's captions to the table with ids and the vocabulary behind it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pipeline.captions.normalise import Normalisation
from pipeline.captions.settings import CaptionsSettings
from pipeline.captions.table import CaptionTable
from pipeline.captions.vocabulary import Vocabulary
from pipeline.errors import CaptionsError


def encode_captions(table: CaptionTable, settings: CaptionsSettings) -> tuple[CaptionTable, Vocabulary]:
    """Build the vocabulary from the training captions alone and encode all captions with it.

    Raises:
        CaptionsError: there are no training captions, or a caption is empty after normalisation.
    """
    normalise = Normalisation(settings.unicode, settings.case, settings.whitespace, settings.full_stop)
    train = [text for text, split in zip(table.texts, table.splits, strict=True) if split == "train"]
    vocabulary = Vocabulary.build(train, normalise=normalise, min_count=settings.min_count, unit=settings.unit)
    ids = [np.array(vocabulary.encode(text), dtype=np.int32) for text in table.texts]
    for row, own in enumerate(ids):
        if not len(own):
            raise CaptionsError(
                f"the caption {table.texts[row]!r} is empty after normalisation",
                where=f"{table.image_ids[row]}#{table.captions[row]}",
                todo="Take it out of the corpus, or normalise less.",
            )
    return replace(table, ids=ids), vocabulary
