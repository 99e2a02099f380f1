"""The folder of snapshots: a safetensors file for each, ``vocabulary.json``, ``snapshots.json`` and ``SHA256SUMS``."""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightword.captions.vocabulary import Vocabulary
from sightword.errors import EncoderError
from sightword.features.tables.origin import other_kind
from sightword.io.files import Pathish
from sightword.io.saved import TENSORS, Format, as_folder, entry, summed, write_summed
from sightword.model.encoders import Encoders
from sightword.model.saved import load_encoders, tensor_bytes
from sightword.model.settings import ModelSettings
from sightword.model.shape import Shape
from sightword.vse.training.lexical import shape_of
from sightword.vse.training.validation import DEPTHS, DIRECTIONS, Recall

FORMAT = Format("snapshots.json", 4, "Run `dvc checkout models/snapshots`, or `dvc repro train`.")
_MEASURES = (*(f"r{k}" for k in DEPTHS), "mean_rank")

log = logging.getLogger(__name__)


def file_name(epoch: int) -> str:
    """Return the name of a snapshot's file."""
    return f"{_name(epoch)}{TENSORS}"


def _name(epoch: int) -> str:
    return f"epoch-{epoch:03d}"


def keep(folder: Path, epoch: int, encoders: Encoders) -> None:
    """Write the snapshot of an epoch into the folder of a half-done run."""
    write_summed(folder, _name(epoch), tensor_bytes(encoders.state_dict()))


def copy_snapshots(source: Path, folder: Path, epochs: int) -> list[int]:
    """Copy the snapshots of a run of so many epochs into an existing folder; return the epochs of the snapshots.

    Raises:
        FileFormatError: a snapshot is not the one that was kept.
    """
    kept = {epoch: path for epoch in range(epochs + 1) for path in summed(source, _name(epoch))}
    for epoch, path in kept.items():
        shutil.copyfile(path, folder / file_name(epoch))
    return list(kept)


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
        """Write ``snapshots.json``, ``vocabulary.json`` and the sums of the snapshots, which are in the folder."""
        self.vocabulary.save(self.folder / "vocabulary.json")
        about = {
            "training": self.training,
            "features": self.features,
            "features_width": self.features_width,
            "captions_sha256": self.captions_sha256,
            "snapshots": [{"epoch": epoch, "dev": recall} for epoch, recall in self.recall.items()],
        }
        FORMAT.write(self.folder, about, ["vocabulary.json", *map(file_name, self.epochs)])

    def load(self, epoch: int) -> Encoders:
        """Return the encoders as they were after an epoch.

        Raises:
            EncoderError: the file is missing, damaged, or of another network.
        """
        path = self.folder / file_name(epoch)
        with FORMAT.checked(self.folder / FORMAT.description):
            return load_encoders(path, len(self.vocabulary), self.features_width, self.model)

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
    """Read a folder of snapshots.

    Raises:
        EncoderError: the folder is missing, not whole, was changed, or has another format.
    """
    place = as_folder(folder)
    about, names = FORMAT.read(place)
    with FORMAT.checked(place / FORMAT.description):
        width = entry(about, "features_width", int)
        found = Snapshots(
            folder=place,
            recall={
                entry(one, "epoch", int): _recall(entry(one, "dev", dict)) if width else {}
                for one in entry(about, "snapshots", list)
            },
            training=entry(about, "training", dict),
            features=entry(about, "features", dict),
            features_width=width,
            captions_sha256=entry(about, "captions_sha256", str),
            vocabulary=Vocabulary.load(place / "vocabulary.json"),
        )
        assert found.model
    FORMAT.require(names, "vocabulary.json", *map(file_name, found.epochs), where=place)
    return found


def _recall(dev: dict[str, Any]) -> Recall:
    return {
        direction: {name: entry(entry(dev, direction, dict), name, float) for name in _MEASURES}
        for direction in DIRECTIONS
    }
