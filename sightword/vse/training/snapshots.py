"""The folder of snapshots: a safetensors file for each, ``vocabulary.json``, and ``snapshots.json``, the index."""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightword.captions.vocabulary import Vocabulary
from sightword.errors import EncoderError
from sightword.features.tables.origin import other_kind
from sightword.io.files import Pathish, read_json, sha256_file, write_json
from sightword.model.encoders import Encoders
from sightword.model.saved import load_encoders, write_tensors
from sightword.model.settings import ModelSettings
from sightword.model.shape import Shape
from sightword.vse.training.lexical import shape_of
from sightword.vse.training.validation import Recall

SCHEMA = 3

log = logging.getLogger(__name__)


def file_name(epoch: int) -> str:
    """Return the name of a snapshot's file."""
    return f"epoch-{epoch:03d}.safetensors"


def keep(folder: Path, epoch: int, encoders: Encoders) -> None:
    """Write the snapshot of an epoch into a folder."""
    write_tensors(folder / file_name(epoch), encoders.state_dict())


def copy_snapshots(source: Path, folder: Path, epochs: int) -> list[int]:
    """Copy the snapshots of a run of so many epochs into an existing folder; return the epochs of the snapshots."""
    kept = [epoch for epoch in range(epochs + 1) if (source / file_name(epoch)).exists()]
    for epoch in kept:
        shutil.copyfile(source / file_name(epoch), folder / file_name(epoch))
    return kept


@dataclass(frozen=True)
class Snapshots:
    """A folder of snapshots; weights are loaded one at a time."""

    folder: Path
    recall: dict[int, Recall]
    """For each snapshot's epoch, the recall on dev as training measured it; empty without a side of pictures."""
    training: dict[str, Any]
    """The parameters of the section ``train``."""
    features: dict[str, Any]
    """The attributes of the features."""
    features_width: int
    """Number of features of a picture; 0 without a side of pictures."""
    captions_sha256: str
    """The sha256 of the table of captions that training read."""
    vocabulary: Vocabulary

    @property
    def epochs(self) -> list[int]:
        """The epochs of the snapshots, in their order."""
        return list(self.recall)

    @property
    def model(self) -> Shape:
        """The shape of the network."""
        settings = ModelSettings(**{name: self.training[name] for name in ModelSettings.model_fields})
        return shape_of(settings, self.vocabulary)

    def write_index(self) -> None:
        """Write ``snapshots.json`` and ``vocabulary.json`` beside the snapshots, which are in the folder."""
        self.vocabulary.save(self.folder / "vocabulary.json")
        index = {
            "schema": SCHEMA,
            "training": self.training,
            "features": self.features,
            "features_width": self.features_width,
            "captions_sha256": self.captions_sha256,
            "vocabulary_sha256": sha256_file(self.folder / "vocabulary.json"),
            "snapshots": [
                {"epoch": epoch, "file": name, "sha256": sha256_file(self.folder / name), "dev": recall}
                for epoch, recall in self.recall.items()
                for name in [file_name(epoch)]
            ],
        }
        write_json(self.folder / "snapshots.json", index)

    def load(self, epoch: int) -> Encoders:
        """Return the encoders as they were after an epoch.

        Raises:
            EncoderError: the file is missing, damaged, or of another network.
        """
        return load_encoders(self.folder / file_name(epoch), len(self.vocabulary), self.features_width, self.model)

    def check_features(self, attributes: dict[str, Any], width: int, *, where: Pathish) -> None:
        """Refuse features of another kind than those of the training; warn of another file of the same kind.

        A training without a side of pictures takes any features.

        Args:
            attributes: the attributes of the features.
            width: number of features of a picture.
            where: the file of the features.

        Raises:
            EncoderError: the backbone, weights, feature point, transform or width differ (both values are named).
        """
        if not self.features_width:
            return
        if other := other_kind(attributes, width, self.features, self.features_width):
            name, value, expected = other
            todo = "Run `dvc repro train`, or bring back the features of the snapshots."
            raise EncoderError(f"{name} is {value!r}", where=where, expected=f"{expected!r}, as in training", todo=todo)
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
        FileFormatError: a file is missing or is not JSON.
    """
    place = Path(folder)
    index = read_json(place / "snapshots.json", todo="The stage train writes it: run `dvc repro train`.")
    try:
        if index["schema"] != SCHEMA:
            raise EncoderError(
                f"has the format {index['schema']!r}", where=place, expected=str(SCHEMA), todo="Run `dvc repro train`."
            )
        found = Snapshots(
            folder=place,
            recall={int(snapshot["epoch"]): snapshot["dev"] for snapshot in index["snapshots"]},
            vocabulary=Vocabulary.load(place / "vocabulary.json"),
            **{name: index[name] for name in ("training", "features", "features_width", "captions_sha256")},
        )
        assert found.model
        sums = {file_name(snapshot["epoch"]): snapshot["sha256"] for snapshot in index["snapshots"]}
        sums["vocabulary.json"] = index["vocabulary_sha256"]
    except (KeyError, TypeError, ValueError) as error:
        raise EncoderError(f"is damaged ({error})", where=place / "snapshots.json") from None
    for name, wanted in sums.items():
        if not (place / name).is_file() or sha256_file(place / name) != wanted:
            raise EncoderError(
                "is not the file that was written with snapshots.json",
                where=place / name,
                todo="Run `dvc checkout models/snapshots`, or `dvc repro train`.",
            )
    return found
