"""Reads ``data/corpus/captions.parquet``; writes ``data/captions/``: ``captions.parquet`` (the captions with the ids of
their characters or words) and ``vocabulary.json``.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

from sightword.captions.settings import CaptionsSettings

log = logging.getLogger(__name__)

SETTINGS = CaptionsSettings


def work(settings: CaptionsSettings) -> None:
    """Normalise the captions and turn them into ids of characters or words."""
    import numpy as np
    from tqdm import tqdm

    from sightword.captions.encoding import build_vocabulary, with_ids
    from sightword.captions.subset import subset
    from sightword.captions.table import CaptionTable, Parts, write_parts
    from sightword.captions.vocabulary import FOLDER, UNKNOWN
    from sightword.io.files import atomic_folder
    from sightword.messages import counts
    from sightword.settings import BESIDE, SPLITS

    unknown: Counter[str] = Counter()
    captions: Counter[str] = Counter()

    def encoded() -> Iterator[CaptionTable]:
        bar = tqdm(total=len(parts), desc="captions", unit="caption", disable=None)
        for part in parts:
            table = with_ids(keep(part), vocabulary)
            captions.update(table.splits)
            for split, ids in zip(table.splits, table.ids, strict=True):
                unknown[split] += int(np.count_nonzero(ids == UNKNOWN))
            bar.update(len(part))
            yield table
        bar.close()

    parts = Parts("data/corpus/captions.parquet")
    keep = subset(parts, settings)
    vocabulary = build_vocabulary(map(keep, parts), settings)
    with atomic_folder("data/captions") as folder:
        write_parts(folder / "captions.parquet", encoded(), languages=parts.languages)
        FOLDER.write(folder, vocabulary.to_json(), ["captions.parquet"])
    log.info(
        "captions: %d captions, %d %ss in the vocabulary (of %d training captions)%s",
        *(captions.total(), len(vocabulary.tokens), vocabulary.unit, captions["train"]),
        counts(
            {f"in {split}": unknown[split] for split in (*SPLITS, *[BESIDE] * (BESIDE in unknown))},
            before=f"; unknown {vocabulary.unit}s: ",
        ),
    )
