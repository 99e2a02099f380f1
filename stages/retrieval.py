"""Recall@k and ranks: reads the encoder, the features and the captions of a split, and the pictures' order in the
corpus; writes ``metrics/retrieval.json``, ``plots/retrieval/``, and the best candidates of each query to
``data/retrieval/top.parquet``.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from sightword.evaluation.ledger import PICTURES, Enter, alone, hash_of, scored
from sightword.evaluation.retrieval.settings import RetrievalSettings

log = logging.getLogger(__name__)

SETTINGS = RetrievalSettings
SCORES = True
"""Whether scorings are entered in the ledger."""

ENCODER = Path("models/encoder")
FEATURES = Path("data/features/features.h5")
CAPTIONS = Path("data/captions/captions.parquet")
IMAGES = Path("data/corpus/images.parquet")
METRICS = Path("metrics/retrieval.json")
PLOTS = Path("plots/retrieval")
LISTS = Path("data/retrieval")

NO_PICTURES = "the encoder has no embeddings of pictures"


def work(settings: RetrievalSettings, *, enter: Enter = alone) -> None:
    """Score the chosen encoder by retrieval on the test split."""
    from sightword import machine
    from sightword.captions.table import read_captions
    from sightword.compute import devices
    from sightword.encoder.arguments import LONGEST
    from sightword.encoder.sentence_encoder import SentenceEncoder
    from sightword.evaluation.retrieval.measuring import languages_entries, measure, rank_rows, recall_rows
    from sightword.evaluation.retrieval.protocols import choose_folds, drawn_splits
    from sightword.evaluation.retrieval.querybank import bank
    from sightword.features.tables.pairs import pair
    from sightword.features.tables.table import read_features
    from sightword.io.files import atomic_folder, write_json, write_table, write_tsv
    from sightword.settings import SEALED
    from sightword.statistics.inference import rounded

    device = devices.use(machine.current())
    features, captions = (
        read_features(FEATURES),
        read_captions(CAPTIONS, withheld=[SEALED] * (settings.split == SEALED)),
    )
    split = pair(features, captions, settings.split)
    asking = bank(features, captions, settings.bank_pictures) if "querybank" in settings.protocols else None
    named = captions.split(settings.split)
    rows = list(zip(named.image_ids, named.texts, strict=True))
    del features, captions, named  # gigabytes of a large corpus
    folds = choose_folds(settings, split.image_ids, IMAGES)
    encoder = SentenceEncoder.load(ENCODER, device=device)
    if not encoder.features_width:
        sentences = encoder.encode(split.texts, batch_size=settings.batch_size, max_length=LONGEST)
        about = split.image_of_caption, split.languages, encoder.similarity_name
        across = languages_entries(sentences, None, *about, device=device)
        if across:
            enter(scored(settings.split, PICTURES, rows, hash_of(ENCODER)))
        _skip(settings, across)
        return
    found = measure(encoder, split, settings, folds=folds, bank=asking, device=device)
    enter(scored(settings.split, PICTURES, rows, hash_of(ENCODER)))
    with atomic_folder(LISTS) as folder:
        write_table(folder / "top.parquet", found.top)
    with atomic_folder(PLOTS) as folder:
        write_tsv(folder / "recall.tsv", ("k", "caption_to_image", "image_to_caption"), recall_rows(found.ranks))
        write_tsv(folder / "ranks.tsv", ("rank", "caption_to_image", "image_to_caption"), rank_rows(found.ranks))
    if drawing := drawn_splits(IMAGES):
        found.metrics["drawn_splits"] = drawing
    write_json(METRICS, rounded({settings.split: found.metrics}))
    recalls = [
        "/".join(f"{found.full[direction][recall]:.1f}" for recall in ("r1", "r5", "r10"))
        for direction in ("caption_to_image", "image_to_caption")
    ]
    log.info(
        "retrieval: %s, %d captions x %d pictures; R@1/5/10 caption to image %s, image to caption %s",
        *(settings.split, len(split.texts), len(split.image_ids), *recalls),
    )


def _skip(settings: RetrievalSettings, across: dict[str, Any]) -> None:
    """Write empty tables, the recall across languages and the reason, for an encoder without a side of pictures."""
    from sightword.evaluation.retrieval.measuring import TOP_SCHEMA
    from sightword.io.files import atomic_folder, write_json, write_table, write_tsv
    from sightword.statistics.inference import rounded

    with atomic_folder(LISTS) as folder:
        write_table(folder / "top.parquet", TOP_SCHEMA.empty_table())
    with atomic_folder(PLOTS) as folder:
        for name, first in (("recall", "k"), ("ranks", "rank")):
            write_tsv(folder / f"{name}.tsv", (first, "caption_to_image", "image_to_caption"), [])
    skipped = {"skipped": dict.fromkeys(settings.protocols, NO_PICTURES)}
    write_json(METRICS, rounded({settings.split: {**across, **skipped}}))
    log.warning("retrieval: left out, since %s", NO_PICTURES)
