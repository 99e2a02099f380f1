"""The sentence encoder made of one or more snapshots."""

from __future__ import annotations

import torch

from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.training.snapshots import Snapshots


def ensemble(snapshots: Snapshots, epochs: list[int], renormalise: bool, device: torch.device) -> SentenceEncoder:
    """Return the encoder made of the snapshots of some epochs, in their order.

    Raises:
        EncoderError: a snapshot cannot be loaded.
    """
    return SentenceEncoder(
        members=[snapshots.load(epoch).to(device) for epoch in epochs],
        vocabulary=snapshots.vocabulary,
        model=snapshots.model,
        renormalise=renormalise,
        notes={"epochs": epochs, "training": snapshots.training, "features": snapshots.features},
    )
