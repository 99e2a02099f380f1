"""The sentence encoder made of one or more snapshots."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sightword.encoder.parts import parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.vse.training.snapshots import Snapshots


def ensemble(
    snapshots: Snapshots,
    epochs: list[int],
    renormalise: bool,
    device: torch.device,
    *,
    beside: Sequence[SentenceEncoder] = (),
) -> SentenceEncoder:
    """Return the sum of the snapshots of some epochs, in their order, joined with encoders of other training runs.

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
    return SentenceEncoder([own, *beside], "join", renormalise=True, notes=notes) if beside else own
