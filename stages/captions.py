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

    from sightword.captions.table import WITHHELD, build_vocabulary, read_texts, subset, with_ids, write_captions
    from sightword.captions.vocabulary import FOLDER, UNKNOWN
    from sightword.io.files import atomic_folder
    from sightword.messages import counts
    from sightword.settings import BESIDE, SPLITS

    table = subset(read_texts("data/corpus/captions.parquet", withheld=WITHHELD), settings)
    vocabulary = build_vocabulary(table, settings)
    table = with_ids(table, vocabulary)
    with atomic_folder("data/captions") as folder:
        write_captions(folder / "captions.parquet", table)
        FOLDER.write(folder, vocabulary.to_json(), ["captions.parquet"])
    unknown: Counter[str] = Counter()
    for split, ids in zip(table.splits, table.ids, strict=True):
        unknown[split] += int(np.count_nonzero(ids == UNKNOWN))
    log.info(
        "captions: %d captions, %d %ss in the vocabulary (of %d training captions)%s",
        *(len(table), len(vocabulary.tokens), vocabulary.unit, table.splits.count("train")),
        counts(
            {f"in {split}": unknown[split] for split in (*SPLITS, *[BESIDE] * (BESIDE in unknown))},
            before=f"; unknown {vocabulary.unit}s: ",
        ),
    )
