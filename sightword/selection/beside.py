"""Encoders of other training runs, to stand beside the chosen snapshots."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import torch

from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError
from sightword.features.origin import other_kind
from sightword.features.table import FeatureTable

log = logging.getLogger(__name__)


def read_beside(
    folder: Path, names: Sequence[str], features: FeatureTable, *, device: torch.device
) -> list[SentenceEncoder]:
    """Return saved encoders of a folder, which were trained on features of the same kind as these.

    The log warns of an encoder that was trained on another file of features: a picture of dev or test may have been in
    its training.

    Raises:
        EncoderError: there is no such encoder, it is damaged, or its features are of another kind.
    """
    found = []
    for name in names:
        place = folder / name
        if not (place / "encoder.json").is_file():
            known = ", ".join(sorted(path.parent.name for path in folder.glob("*/encoder.json"))) or "none yet"
            todo = f"Copy models/encoder of the other training run to {place}, and run `dvc add {place}`."
            raise EncoderError("is no folder of an encoder (select.beside)", where=place, expected=known, todo=todo)
        encoder = SentenceEncoder.load(place, device=str(device))
        trained = encoder.notes.get("features", {})
        width = features.features.shape[1]
        if other := other_kind(features.attributes, width, trained, encoder.features_width):
            what, value, expected = other
            raise EncoderError(
                f"was trained on features of another kind: {what} {expected!r}",
                where=place,
                expected=f"{value!r}, as in data/features/features.h5",
                todo="Train that encoder on the same features.",
            )
        if trained.get("checksum") != features.attributes.get("checksum"):
            log.warning(
                "%s: this encoder was trained on another file of features; if its training had pictures of dev or "
                "test, their scores are too high",
                place,
            )
        found.append(encoder)
    return found
