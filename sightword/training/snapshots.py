"""The folder of snapshots: a safetensors file for each, and ``snapshots.json``, the index."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sightword.captions.vocabulary import Vocabulary
from sightword.errors import EncoderError
from sightword.files import Pathish, read_json, sha256_file, write_json
from sightword.model.encoders import Encoders
from sightword.model.saved import load_encoders
from sightword.model.settings import ModelSettings
from sightword.model.shape import Shape
from sightword.training.settings import TrainSettings
from sightword.training.validation import DEPTHS, DIRECTIONS, Recall

SCHEMA = 3
_IDENTITY = ("backbone", "feature_point", "weights_sha256", "transform")

log = logging.getLogger(__name__)


def file_name(epoch: int) -> str:
    """Return the name of a snapshot's file."""
    return f"epoch-{epoch:03d}.safetensors"


def write_index(
    folder: Pathish,
    recall: Mapping[int, Recall],
    *,
    settings: TrainSettings,
    vocabulary: Vocabulary,
    features: dict[str, Any],
    features_width: int,
    captions_sha256: str,
) -> None:
    """Write ``snapshots.json`` and ``vocabulary.json`` beside snapshots that are already there.

    Args:
        folder: of the snapshots.
        recall: of each snapshot's epoch, recall on dev as training measured it.
        settings: of the training run.
        vocabulary: of the captions.
        features: the attributes of the features.
        features_width: numbers in a picture's features.
        captions_sha256: of the table of captions.
    """
    place = Path(folder)
    vocabulary.save(place / "vocabulary.json")
    write_json(
        place / "snapshots.json",
        {
            "schema": SCHEMA,
            "training": settings.model_dump(),
            "features": features,
            "features_width": features_width,
            "captions_sha256": captions_sha256,
            "vocabulary_sha256": sha256_file(place / "vocabulary.json"),
            "snapshots": [
                {
                    "epoch": epoch,
                    "file": file_name(epoch),
                    "sha256": sha256_file(place / file_name(epoch)),
                    "dev": found,
                }
                for epoch, found in recall.items()
            ],
        },
    )


@dataclass(frozen=True)
class Snapshots:
    """A folder of snapshots that was read and checked; weights are loaded one at a time."""

    folder: Path
    recall: dict[int, Recall]
    """For each snapshot's epoch, recall on dev as training measured it."""
    training: dict[str, Any]
    features: dict[str, Any]
    features_width: int
    captions_sha256: str
    """Of the table of captions that training read."""
    vocabulary: Vocabulary
    model: Shape

    @property
    def epochs(self) -> list[int]:
        """The epochs of the snapshots, in their order."""
        return list(self.recall)

    def load(self, epoch: int) -> Encoders:
        """Return the encoders as they were after an epoch.

        Raises:
            EncoderError: the file is missing, damaged, or of another network.
        """
        path = self.folder / file_name(epoch)
        return load_encoders(path, len(self.vocabulary), self.features_width, self.model)

    def check_features(self, attributes: dict[str, Any], width: int, *, where: Pathish) -> None:
        """Refuse features of another kind than the snapshots were trained on; warn of other features of that kind.

        Args:
            attributes: those of the features at hand.
            width: numbers in a picture's features.
            where: their file.

        Raises:
            EncoderError: another network, weights, way of cutting out, or width (which, and both values).
        """
        todo = "The snapshots belong to other parameters: run `dvc repro train`, or bring back their features."
        if width != self.features_width:
            raise EncoderError(
                f"has {width} features a picture",
                where=where,
                expected=f"{self.features_width}, as in training",
                todo=todo,
            )
        for key in _IDENTITY:
            if attributes.get(key) != self.features.get(key):
                raise EncoderError(
                    f"{key} is {attributes.get(key)!r}",
                    where=where,
                    expected=f"{self.features.get(key)!r}, as in training",
                    todo=todo,
                )
        if attributes.get("checksum") != self.features.get("checksum"):
            log.warning(
                "%s: this is not the file that the snapshots were trained on, only features of the same kind", where
            )

    def validated_on(self, features: dict[str, Any], captions_sha256: str) -> bool:
        """Return whether :attr:`recall` was measured on these features (their attributes) and captions."""
        known = self.features.get("checksum")
        return known is not None and (features.get("checksum"), captions_sha256) == (known, self.captions_sha256)


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
            raise EncoderError(
                f"has the format {index['schema']!r}", where=place, expected=str(SCHEMA), todo="Run `dvc repro train`."
            )
        training = dict(index["training"])
        shape = {name: training[name] for name in ModelSettings.model_fields}
        found = Snapshots(
            folder=place,
            recall={int(snapshot["epoch"]): _recall(snapshot["dev"]) for snapshot in index["snapshots"]},
            training=training,
            features=dict(index["features"]),
            features_width=int(index["features_width"]),
            captions_sha256=str(index["captions_sha256"]),
            vocabulary=Vocabulary.load(place / "vocabulary.json"),
            model=ModelSettings.model_validate(shape).shape,
        )
        vocabulary = str(index["vocabulary_sha256"])
        hashes = {int(snapshot["epoch"]): str(snapshot["sha256"]) for snapshot in index["snapshots"]}
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        raise EncoderError(f"is damaged ({error})", where=place / "snapshots.json") from None
    for name, wanted in [
        ("vocabulary.json", vocabulary),
        *((file_name(epoch), hashes[epoch]) for epoch in found.epochs),
    ]:
        if not (place / name).is_file() or sha256_file(place / name) != wanted:
            raise EncoderError(
                "is not the file that was written with snapshots.json",
                where=place / name,
                todo="Run `dvc checkout models/snapshots`, or `dvc repro train`.",
            )
    return found


def _recall(entry: dict[str, Any]) -> Recall:
    names = [*(f"r{k}" for k in DEPTHS), "mean_rank"]
    return {direction: {name: float(entry[direction][name]) for name in names} for direction in DIRECTIONS}
