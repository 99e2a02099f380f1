"""Reads ``data/corpus/captions.parquet``; writes ``data/captions/``: ``captions.parquet`` (the captions with the ids of
their characters or words) and ``vocabulary.json``.
"""

from __future__ import annotations

import logging
from collections import Counter

from sightword.captions.settings import CaptionsSettings

log = logging.getLogger(__name__)

SETTINGS = CaptionsSettings


def work(settings: CaptionsSettings) -> None:
    """Normalise the captions and turn them into ids of characters or words."""
    import numpy as np

    from sightword.captions.encoding import encode_captions
    from sightword.captions.subset import subset
    from sightword.captions.table import BESIDE, SPLITS, WITHHELD, read_texts, write_captions
    from sightword.captions.vocabulary import UNKNOWN
    from sightword.io.files import atomic_folder
    from sightword.messages import counts

    texts = subset(read_texts("data/corpus/captions.parquet", withheld=WITHHELD), settings)
    table, vocabulary = encode_captions(texts, settings)
    with atomic_folder("data/captions") as folder:
        write_captions(folder / "captions.parquet", table)
        vocabulary.save(folder / "vocabulary.json")
    unknown: Counter[str] = Counter()
    for split, ids in zip(table.splits, table.ids, strict=True):
        unknown[split] += int(np.count_nonzero(ids == UNKNOWN))
    tokens, unit, training = len(vocabulary.tokens), vocabulary.unit, table.splits.count("train")
    log.info(
        "captions: %d captions, %d %ss in the vocabulary (of %d training captions)%s",
        *(len(table), tokens, unit, training),
        counts(
            {f"in {split}": unknown[split] for split in (*SPLITS, *[BESIDE] * (BESIDE in unknown))},
            before=f"; unknown {unit}s: ",
        ),
    )
