"""All numbers of a run: the entry of each protocol, and the best candidates."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from sightword.encoder.arguments import LONGEST
from sightword.errors import ScoringError
from sightword.evaluation.retrieval.folds import Folds
from sightword.evaluation.retrieval.languages import languages_entries
from sightword.evaluation.retrieval.lengths import NO_PAIRS, lengths_entry
from sightword.evaluation.retrieval.protocols import entry, rank_folds
from sightword.evaluation.retrieval.querybank import with_querybank
from sightword.evaluation.retrieval.ranks import Ranks, rank
from sightword.evaluation.retrieval.settings import RetrievalSettings
from sightword.evaluation.retrieval.tables import top_table
from sightword.features.tables.pairs import Pairs
from sightword.messages import plural

if TYPE_CHECKING:
    from sightword.encoder.sentence_encoder import SentenceEncoder

log = logging.getLogger(__name__)

Bank = tuple[NDArray[np.float32], list[str]]
"""Features (B, D) of training pictures, and a caption of each."""


@dataclass(frozen=True)
class Measured:
    """The numbers of a run."""

    metrics: dict[str, Any]
    """By protocol and language, with ``lengths`` where they are measured, and ``skipped``."""
    ranks: Ranks
    """Of the protocol ``full``."""
    full: dict[str, Any]
    """The entry of the protocol ``full``, whether it is asked for or not."""
    top: pa.Table


def measure(
    encoder: SentenceEncoder,
    split: Pairs,
    settings: RetrievalSettings,
    *,
    folds: tuple[Folds | None, str],
    bank: Bank | None,
    device: torch.device,
) -> Measured:
    """Score an encoder by retrieval on a split.

    Args:
        encoder: the encoder.
        split: pictures and captions.
        settings: of the stage.
        folds: from :func:`sightword.evaluation.retrieval.folds.choose_folds`.
        bank: the query bank; None if it is not asked for.
        device: the device that computes the scores.

    Raises:
        ScoringError: the encoder is not compared by the cosine, and the query bank is asked for.
    """
    similarity, owners = encoder.similarity_name, split.image_of_caption
    if bank and similarity != "cosine":
        what = f"querybank needs an encoder that is compared by the cosine, this one is by {similarity}"
        todo = f"Leave querybank out{', or set select.renormalise: true' * (similarity == 'dot')}."
        raise ScoringError(what, where="retrieval.protocols", todo=todo)
    encode = partial(encoder.encode, batch_size=settings.batch_size, show_progress_bar=True, max_length=LONGEST)
    with_bank: dict[str, Any] = {}
    sentences, images = encode(split.texts), encoder.encode_images(split.features)
    ranks = rank(sentences, images, owners, similarity, top=settings.top, device=device, progress=True)
    if bank:
        log.info("retrieval: the query bank has %s, with one caption each", plural(len(bank[1]), "picture"))
        queries = encode(bank[1]), encoder.encode_images(bank[0])
        sides = with_querybank(
            *(sentences, images, *queries), temperature=settings.bank_temperature, device=device, progress=True
        )
        ranked = rank(*sides, owners, "dot", device=device, progress=True)
        with_bank = {**entry([ranked]), "bank_pictures": len(bank[1])}
    chosen, few = folds
    skipped = {"five_fold_1k": few} if few else {}
    full = entry([ranks])
    found: dict[str, Any] = {}
    for protocol in settings.protocols:
        if protocol == "full":
            found[protocol] = full
        elif protocol == "querybank":
            found[protocol] = with_bank
        elif chosen is not None:
            found[protocol] = entry(rank_folds(sentences, images, owners, chosen, similarity, device=device))
    found |= languages_entries(sentences, images, owners, split.languages, similarity, device=device)
    if settings.length_pairs:
        lengths = lengths_entry(
            *(sentences, ranks.caption_to_image, similarity),
            most=settings.length_pairs, texts=split.texts, image_of_caption=owners, device=device,
        )  # fmt: skip
        if lengths:
            found["lengths"] = lengths
        else:
            skipped["lengths"] = NO_PAIRS
            log.warning("lengths left out: %s", NO_PAIRS)
    if skipped:
        found["skipped"] = skipped
    ids: dict[str, Any] = {"image_ids": split.image_ids, "image_of_caption": owners, "caption_numbers": split.numbers}
    top = top_table(ranks, split=settings.split, **ids)
    return Measured(found, ranks, full, top)
