"""Recall@k and ranks: reads the encoder, the features and the captions of a split, and the pictures' order in the
corpus; writes ``metrics/retrieval.json``, ``plots/retrieval/``, and the best candidates of each query to
``data/retrieval/top.parquet``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightword.evaluation.ledger import PICTURES, Enter, alone, hash_of, scored
from sightword.evaluation.retrieval.settings import RetrievalSettings

if TYPE_CHECKING:
    import pyarrow as pa

    from sightword.features.tables.pairs import Pairs

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

Rows = Sequence[Sequence[object]]
DIRECTIONS = ("caption_to_image", "image_to_caption")
NO_PICTURES = "the encoder has no embeddings of pictures"


def work(settings: RetrievalSettings, *, enter: Enter = alone) -> None:
    """Score the chosen encoder by retrieval on the test split."""
    from sightword import machine
    from sightword.compute import devices
    from sightword.encoder.arguments import LONGEST
    from sightword.encoder.sentence_encoder import SentenceEncoder
    from sightword.evaluation.retrieval.measuring import TOP_SCHEMA, languages_entries, measure, rank_rows, recall_rows
    from sightword.evaluation.retrieval.protocols import choose_folds, drawn_splits

    device = devices.use(machine.current())
    split, queries, rows = _read(settings)
    folds = choose_folds(settings, split.image_ids, IMAGES)
    encoder = SentenceEncoder.load(ENCODER, device=device)
    if not encoder.features_width:
        sentences = encoder.encode(split.texts, batch_size=settings.batch_size, max_length=LONGEST)
        about = split.image_of_caption, split.languages, encoder.similarity_name
        across = languages_entries(sentences, None, *about, device=device)
        if across:
            enter(scored(settings.split, PICTURES, rows, hash_of(ENCODER)))
        skipped = {**across, "skipped": dict.fromkeys(settings.protocols, NO_PICTURES)}
        _write({settings.split: skipped}, TOP_SCHEMA.empty_table(), [], [])
        log.warning("retrieval: left out, since %s", NO_PICTURES)
        return
    measured = measure(encoder, split, settings, folds=folds, bank=queries, device=device)
    enter(scored(settings.split, PICTURES, rows, hash_of(ENCODER)))
    if drawing := drawn_splits(IMAGES):
        measured.metrics["drawn_splits"] = drawing
    ranks = measured.ranks
    _write({settings.split: measured.metrics}, measured.top, recall_rows(ranks), rank_rows(ranks))
    recalls = ["/".join(f"{measured.full[way][name]:.1f}" for name in ("r1", "r5", "r10")) for way in DIRECTIONS]
    log.info(
        "retrieval: %s, %d captions x %d pictures; R@1/5/10 caption to image %s, image to caption %s",
        *(settings.split, len(split.texts), len(split.image_ids), *recalls),
    )


def _read(settings: RetrievalSettings) -> tuple[Pairs, Any, list[tuple[str, str]]]:
    """Return the split, the bank of queries if a protocol needs it, and the picture and text of each caption."""
    from sightword.captions.table import read_captions
    from sightword.evaluation.retrieval.querybank import bank
    from sightword.features.tables.pairs import pair
    from sightword.features.tables.table import read_features
    from sightword.settings import SEALED

    withheld = [SEALED] * (settings.split == SEALED)
    features, captions = read_features(FEATURES), read_captions(CAPTIONS, withheld=withheld)
    split = pair(features, captions, settings.split)
    queries = bank(features, captions, settings.bank_pictures) if "querybank" in settings.protocols else None
    scored_captions = captions.split(settings.split)
    rows = list(zip(scored_captions.image_ids, scored_captions.texts, strict=True))
    return split, queries, rows


def _write(metrics: dict[str, Any], top: pa.Table, recalls: Rows, ranks: Rows) -> None:
    """Write the numbers, the best candidates, and the rows of recall and ranks: none without a side of pictures."""
    from sightword.io.files import atomic_folder, write_json, write_table, write_tsv
    from sightword.statistics.inference import rounded

    with atomic_folder(LISTS) as folder:
        write_table(folder / "top.parquet", top)
    with atomic_folder(PLOTS) as folder:
        write_tsv(folder / "recall.tsv", ("k", *DIRECTIONS), recalls)
        write_tsv(folder / "ranks.tsv", ("rank", *DIRECTIONS), ranks)
    write_json(METRICS, rounded(metrics))
