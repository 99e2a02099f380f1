"""The sentence encoder made of one or more snapshots."""

from __future__ import annotations

from collections.abc import Sequence

import torch

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
    """Return the encoder made of the snapshots of some epochs, in their order, and of encoders beside it.

    Raises:
        EncoderError: a snapshot cannot be loaded, or an encoder does not fit beside it.
    """
    return SentenceEncoder(
        members=[snapshots.load(epoch).to(device) for epoch in epochs],
        vocabulary=snapshots.vocabulary,
        model=snapshots.model,
        renormalise=renormalise,
        notes={
            "epochs": epochs,
            "training": snapshots.training,
            "features": snapshots.features,
            "captions_sha256": snapshots.captions_sha256,
        },
        beside=beside,
    )
