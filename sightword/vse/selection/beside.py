"""Encoders of other training runs, to stand beside the chosen snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from sightword.encoder.combination import check_joined
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError
from sightword.features.tables.origin import other_kind
from sightword.vse.training.snapshots import Snapshots


def read_beside(
    folder: Path, names: Sequence[str], snapshots: Snapshots, *, device: torch.device
) -> list[SentenceEncoder]:
    """Return saved encoders of a folder, each from another training run on what the snapshots were trained on.

    Equal captions make sure that no picture of dev or test was in the other training. An encoder without a side of
    pictures fits beside any features.

    Raises:
        EncoderError: there is no such encoder, it is damaged, or it was trained on other captions, on features of
            another kind, or for another similarity than the cosine.
    """
    found = []
    for name in names:
        place = folder / name
        if not (place / "encoder.json").is_file():
            known = ", ".join(sorted(path.parent.name for path in folder.glob("*/encoder.json"))) or "none yet"
            todo = f"Copy models/encoder of the other training run there, and run `dvc add {place}`."
            raise EncoderError("is no folder of an encoder (select.beside)", where=place, expected=known, todo=todo)
        encoder = SentenceEncoder.load(place, device=str(device))
        if encoder.notes.get("captions_sha256") != snapshots.captions_sha256:
            raise EncoderError(
                "was trained on other captions, perhaps on pictures of dev or test (captions_sha256)",
                where=place,
                expected=snapshots.captions_sha256,
                todo="Train that encoder on the same data/captions/captions.parquet.",
            )
        trained = encoder.notes.get("features") or {}
        both = encoder.features_width and snapshots.features_width  # one without a side of pictures fits beside any
        if both and (
            other := other_kind(trained, encoder.features_width, snapshots.features, snapshots.features_width)
        ):
            what, value, expected = other
            raise EncoderError(
                f"was trained on features of another kind: {what} {value!r}",
                where=place,
                expected=repr(expected),
                todo="Train that encoder on the same features.",
            )
        similarity = snapshots.model.similarity
        check_joined(encoder, snapshots.vocabulary, similarity, snapshots.features_width, where=place)
        found.append(encoder)
    return found
