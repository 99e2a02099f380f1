"""The folder of snapshots: one safetensors file each, and ``snapshots.json`` that tells how they were made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipeline.captions.vocabulary import Vocabulary
from pipeline.errors import EncoderError
from pipeline.files import Pathish, read_json, sha256_file, write_json
from pipeline.model.encoders import Encoders
from pipeline.model.saved import load_weights
from pipeline.model.settings import ModelSettings
from pipeline.training.settings import TrainSettings

SCHEMA = 1


def file_name(epoch: int) -> str:
    """The name of a snapshot's file."""
    return f"epoch-{epoch:03d}.safetensors"


def write_index(
    folder: Pathish,
    epochs: list[int],
    *,
    settings: TrainSettings,
    vocabulary: Vocabulary,
    features: dict[str, Any],
    features_width: int,
) -> None:
    """Write ``snapshots.json`` and ``vocabulary.json`` beside snapshots that are already there."""
    place = Path(folder)
    vocabulary.save(place / "vocabulary.json")
    write_json(
        place / "snapshots.json",
        {
            "schema": SCHEMA,
            "training": settings.model_dump(),
            "features": features,
            "features_width": features_width,
            "snapshots": [
                {"epoch": epoch, "file": file_name(epoch), "sha256": sha256_file(place / file_name(epoch))}
                for epoch in epochs
            ],
        },
    )


@dataclass(frozen=True)
class Snapshots:
    """A folder of snapshots that was read and checked; weights are loaded one at a time."""

    folder: Path
    epochs: list[int]
    training: dict[str, Any]
    features: dict[str, Any]
    features_width: int
    vocabulary: Vocabulary
    model: ModelSettings

    def load(self, epoch: int) -> Encoders:
        """The encoders as they were after an epoch.

        Raises:
            EncoderError: the file is missing, damaged, or of another network.
        """
        encoders = Encoders(len(self.vocabulary), self.features_width, self.model)
        load_weights(self.folder / file_name(epoch), encoders)
        return encoders.eval()


def read_snapshots(folder: Pathish) -> Snapshots:
    """Read ``snapshots.json`` and check that each snapshot is the one it names.

    Raises:
        EncoderError: no snapshots, another format, or a file that changed since it was written.
        FileFormatError: a file is missing or no JSON.
    """
    place = Path(folder)
    index = read_json(place / "snapshots.json", todo="The stage train writes it: run `dvc repro train`.")
    try:
        if index["schema"] != SCHEMA:
            raise EncoderError(f"has the format {index['schema']!r}", where=place, expected=str(SCHEMA))
        training = dict(index["training"])
        shape = {name: training[name] for name in ModelSettings.model_fields}
        found = Snapshots(
            folder=place,
            epochs=[int(snapshot["epoch"]) for snapshot in index["snapshots"]],
            training=training,
            features=dict(index["features"]),
            features_width=int(index["features_width"]),
            vocabulary=Vocabulary.load(place / "vocabulary.json"),
            model=ModelSettings.model_validate(shape),
        )
        hashes = {int(snapshot["epoch"]): str(snapshot["sha256"]) for snapshot in index["snapshots"]}
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        raise EncoderError(f"is damaged ({error})", where=place / "snapshots.json") from None
    for epoch in found.epochs:
        if sha256_file(place / file_name(epoch)) != hashes[epoch]:
            raise EncoderError(
                "is not the file that was written with snapshots.json",
                where=place / file_name(epoch),
                todo="Run `dvc checkout models/snapshots`, or `dvc repro train`.",
            )
    return found
