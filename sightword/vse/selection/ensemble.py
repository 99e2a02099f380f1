"""The sentence encoder made of one or more snapshots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.parts import parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.model.shape import TfidfShape
from sightword.vse.training.snapshots import Snapshots
from sightword.vse.training.tfidf import count, framed

LONGEST_NGRAM, WEIGHTS = 4, 16_384
"""Tokens of the longest n-grams of a lexical part, and the number of their weights."""


def ensemble(
    snapshots: Snapshots,
    epochs: list[int],
    renormalise: bool,
    device: torch.device,
    *,
    beside: Sequence[SentenceEncoder] = (),
    lexical: SentenceEncoder | None = None,
    share: float = 0.0,
) -> SentenceEncoder:
    """Return the sum of the snapshots of some epochs, in their order, joined with encoders of other training runs, and
    with a lexical part of this share.

    Raises:
        EncoderError: a snapshot cannot be loaded, or an encoder does not fit beside it.
    """
    pictured = [one.notes.get("features", {}) for one in beside if one.features_width]
    networks = [snapshots.load(epoch).to(device) for epoch in epochs]
    notes = {
        "epochs": epochs,
        "training": snapshots.training,
        "features": next(iter(pictured), {}) if not snapshots.features_width else snapshots.features,
        "captions_sha256": snapshots.captions_sha256,
    }
    own = SentenceEncoder(
        parts_of(networks, snapshots.vocabulary, snapshots.model), renormalise=renormalise, notes=notes
    )
    parts: list[SentenceEncoder] = [own, *beside]
    shares: list[float] = []
    if lexical:
        shares = [*[(1 - share) / len(parts)] * len(parts), share]
        parts.append(lexical)
    return SentenceEncoder(parts, "join", renormalise=True, notes=notes, shares=shares) if len(parts) > 1 else own


def lexical_part(
    width: int, rows: Sequence[npt.NDArray[np.int32]], vocabulary: Vocabulary, *, device: torch.device
) -> SentenceEncoder:
    """Return n-grams weighted by their frequency in these captions, as an encoder.

    Args:
        width: numbers of an embedding.
        rows: the token ids of the training captions.
        vocabulary: the vocabulary of the ids.
        device: where the encoder is.
    """
    shape = framed(TfidfShape(width, LONGEST_NGRAM, WEIGHTS), vocabulary)
    network = count(shape, [row.astype(np.int64) for row in rows], vocabulary)
    return SentenceEncoder(parts_of([network], vocabulary, shape)).to(device)
