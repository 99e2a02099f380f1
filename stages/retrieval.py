"""Recall@k and ranks: reads the encoder, the features and the captions of a split, the pictures' order in the corpus,
and the attributes that the sample's pictures show; writes ``metrics/retrieval.json``, ``plots/retrieval/``, the best
candidates of each query to ``data/retrieval/top.parquet``, and the pairs of a short and a long caption to
``data/retrieval/lengths.parquet``.
"""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Any

from sightword.errors import ScoringError
from sightword.evaluation.retrieval.settings import RetrievalSettings

log = logging.getLogger(__name__)

SETTINGS = RetrievalSettings

ENCODER = Path("models/encoder")
FEATURES = Path("data/features/features.h5")
CAPTIONS = Path("data/captions/captions.parquet")
IMAGES = Path("data/corpus/images.parquet")
DRAWN = Path("data/corpus/drawn.parquet")
METRICS = Path("metrics/retrieval.json")
PLOTS = Path("plots/retrieval")
LISTS = Path("data/retrieval")


def work(settings: RetrievalSettings) -> None:
    """Score the chosen encoder by retrieval on the test split."""
    from sightword import machine
    from sightword.captions.table import read_captions
    from sightword.compute import devices
    from sightword.encoder.arguments import LONGEST
    from sightword.encoder.sentence_encoder import SentenceEncoder
    from sightword.evaluation.retrieval.composition import composition_entry
    from sightword.evaluation.retrieval.distributed import ranker
    from sightword.evaluation.retrieval.folds import PICTURES, corpus_order, fold_rows
    from sightword.evaluation.retrieval.lengths import NO_PAIRS, lengths_entry, lengths_table
    from sightword.evaluation.retrieval.protocols import entry, rank_folds
    from sightword.evaluation.retrieval.querybank import bank, with_querybank
    from sightword.evaluation.retrieval.tables import rank_rows, recall_rows, top_table
    from sightword.features.pairs import pair
    from sightword.features.table import read_features
    from sightword.io.files import atomic_folder, read_table, write_json, write_table, write_tsv
    from sightword.messages import plural
    from sightword.statistics import rounded

    here = machine.current()
    device = devices.use(here)
    features, captions = read_features(FEATURES), read_captions(CAPTIONS)
    split = pair(features, captions, settings.split)
    asking = bank(features, captions, settings.bank_pictures) if "querybank" in settings.protocols else None
    del features, captions  # gigabytes of a large corpus
    owners = split.image_of_caption
    folds, skipped = None, {}
    if "five_fold_1k" in settings.protocols:
        few = f"the split {settings.split} has {len(split.image_ids)} pictures, five folds need {PICTURES}"
        if len(split.image_ids) >= PICTURES:
            folds = fold_rows(corpus_order(IMAGES, split.image_ids), settings.folds, settings.fold_seed)
        elif settings.protocols == ["five_fold_1k"]:
            what, todo = f"{few}, and no other protocol is asked for", "Add full to retrieval.protocols."
            raise ScoringError(what, where="retrieval.protocols", todo=todo)
        else:
            skipped["five_fold_1k"] = few
            log.warning("protocol five_fold_1k left out: %s", few)
    encoder = SentenceEncoder.load(ENCODER, device=device)
    similarity = encoder.similarity_name
    if asking and similarity != "cosine":
        what = f"querybank needs an encoder that is compared by the cosine, this one is by {similarity}"
        todo = f"Leave querybank out{', or set select.renormalise: true' * (similarity == 'dot')}."
        raise ScoringError(what, where="retrieval.protocols", todo=todo)
    counts = {"captions": len(split.texts), "pictures": len(split.image_ids), "dimensions": encoder.width}
    encode = partial(encoder.encode, batch_size=settings.batch_size, show_progress_bar=True, max_length=LONGEST)
    with_bank: dict[str, Any] = {}
    with ranker(here, **counts, rankings=2 if asking else 1, device=device, folder=LISTS.parent) as rank:
        images, sentences = encoder.encode_images(split.features), encode(split.texts)
        ranks = rank(images, sentences, owners, similarity, top=settings.top)
        if asking:
            log.info("retrieval: the query bank has %s, with one caption each", plural(len(asking[1]), "picture"))
            queries = encoder.encode_images(asking[0]), encode(asking[1])
            sides = with_querybank(
                *(images, sentences, *queries),
                temperature=settings.bank_temperature, device=device, progress=True,
            )  # fmt: skip
            with_bank = {**entry([rank(*sides, owners, "dot")]), "bank_pictures": len(asking[1])}

    found: dict[str, Any] = {}
    for protocol in settings.protocols:
        if protocol == "full":
            found[protocol] = entry([ranks])
        elif protocol == "querybank":
            found[protocol] = with_bank
        elif folds is not None:
            found[protocol] = entry(rank_folds(images, sentences, owners, folds, similarity, device=device))
    about: dict[str, Any] = {
        "split": settings.split,
        "image_ids": split.image_ids,
        "image_of_caption": owners,
        "caption_numbers": split.numbers,
    }
    table = top_table(ranks, **about)
    pairs = lengths_table(
        *(sentences, ranks.caption_to_image, similarity),
        **about, most=settings.length_pairs, texts=split.texts, device=device,
    )  # fmt: skip
    if len(pairs):
        found["lengths"] = lengths_entry(pairs)
    elif settings.length_pairs:
        skipped["lengths"] = NO_PAIRS
        log.warning("lengths left out: %s", NO_PAIRS)
    if DRAWN.exists():
        drawn = read_table(DRAWN, ["image_id", "attribute"], todo="Make it anew with the stage corpus.")
        rows = zip(drawn["image_id"].to_pylist(), drawn["attribute"].to_pylist(), strict=True)
        if composed := composition_entry(encoder.encode, images, rows, split.image_ids, similarity, device=device):
            found["composition"] = composed
    if skipped:
        found["skipped"] = skipped

    with atomic_folder(LISTS) as folder:
        write_table(folder / "top.parquet", table)
        write_table(folder / "lengths.parquet", pairs)
    with atomic_folder(PLOTS) as folder:
        write_tsv(folder / "recall.tsv", ("k", "caption_to_image", "image_to_caption"), recall_rows(ranks))
        write_tsv(folder / "ranks.tsv", ("rank", "caption_to_image", "image_to_caption"), rank_rows(ranks))
    write_json(METRICS, rounded({settings.split: found}))
    full = found.get("full") or entry([ranks])
    recalls = [
        "/".join(f"{full[direction][recall]:.1f}" for recall in ("r1", "r5", "r10"))
        for direction in ("caption_to_image", "image_to_caption")
    ]
    log.info(
        "retrieval: %s, %d captions x %d pictures; R@1/5/10 caption to image %s, image to caption %s",
        *(settings.split, len(sentences), len(images), *recalls),
    )
