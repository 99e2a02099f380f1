"""What a training run measures and keeps: recall on dev, the folder of snapshots, and counted n-grams (tf-idf).

The folder has a safetensors file for each snapshot, ``vocabulary.json``, ``snapshots.json`` and ``SHA256SUMS``.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tqdm import tqdm

from sightword.captions.vocabulary import PAD, UNKNOWN, Vocabulary
from sightword.encoder.parts import Part
from sightword.errors import EncoderError, TrainingError
from sightword.features.tables.origin import other_kind
from sightword.features.tables.pairs import Pairs
from sightword.io.files import Pathish
from sightword.io.saved import TENSORS, Format, as_folder, entry, summed, write_summed
from sightword.model.embedding import embed_captions, embed_images
from sightword.model.encoders import Encoders, pad
from sightword.model.ngrams import Tfidf
from sightword.model.saved import load_encoders, tensor_bytes
from sightword.model.settings import ModelSettings
from sightword.model.shape import NgramShape, Shape, SimilarityName
from sightword.model.similarity import errors, tie_width, unit

log = logging.getLogger(__name__)

DIRECTIONS = ("caption_to_image", "image_to_caption")
DEPTHS = (1, 5, 10)

Recall = dict[str, dict[str, float]]
"""For each direction ``r1``, ``r5`` and ``r10`` in percent, and ``mean_rank``."""

_NUMBERS = 1 << 22
"""Largest number of scores, or of coordinates, computed together."""
FORMAT = Format("snapshots.json", 5, "Run `dvc checkout models/snapshots`, or `dvc repro train`.")
_MEASURES = (*(f"r{k}" for k in DEPTHS), "mean_rank")


def validate(encoders: Encoders, pairs: Pairs, similarity: SimilarityName) -> Recall:
    """Rank all pictures of a split for each caption, and all captions for each picture.

    Embeddings are float32 whatever the precision of training, as the saved encoder computes them; scores are float64.
    Ties count against the right answer; the rank of a picture is the best rank of its own captions.

    Raises:
        TrainingError: an embedding is not finite.
    """
    sides = embed_images(encoders.images, pairs.features), embed_captions(encoders.captions, pairs.ids)
    images, captions = (torch.from_numpy(side).to(encoders.device).double() for side in sides)
    owner = torch.from_numpy(pairs.image_of_caption).to(encoders.device)
    recall = {}
    for direction, ranks in zip(DIRECTIONS, _ranks(captions, images, owner, similarity), strict=True):
        recall[direction] = {f"r{k}": 100.0 * int((ranks <= k).sum()) / len(ranks) for k in DEPTHS}
        recall[direction]["mean_rank"] = float(ranks.double().mean())
    return recall


@torch.no_grad()
def _ranks(
    captions: torch.Tensor, images: torch.Tensor, owner: torch.Tensor, similarity: SimilarityName
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rank of the right answer to each caption (M,) and to each picture (N,), from 1.

    Captions are float64 (M, D), images float64 (N, D); owner is int64 (M,), the row of each caption's picture.
    """
    cosine, dimensions = similarity == "cosine", images.shape[1]
    if cosine:
        images, captions = unit(images, similarity), unit(captions, similarity)
    elif similarity == "reversed_order":
        images, captions = -images, -captions  # max(0, i - c) is max(0, (-c) - (-i))

    def paired(captions: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        return (captions * images).sum(dim=1) if cosine else -(captions - images).relu().square().sum(dim=1)

    def bar(own: torch.Tensor) -> torch.Tensor:
        return own - tie_width(dimensions) * (1.0 if cosine else own.abs())

    blocks = _blocks(len(captions), max(1, _NUMBERS // dimensions))
    own = torch.cat([paired(captions[rows], images[owner[rows]]) for rows in blocks])
    if not own.isfinite().all():
        todo = "Lower train.rate_max, or look at the features' values."
        raise TrainingError("embeddings of dev are not finite", todo=todo)
    best = own.new_full((len(images),), -torch.inf).scatter_reduce(0, owner, own, "amax")
    of_captions, rivals = [], torch.zeros_like(best, dtype=torch.int64)
    for rows in _blocks(len(captions), max(1, _NUMBERS // len(images))):
        if cosine:
            table = captions[rows] @ images.T
        else:
            table = images.new_empty(len(captions[rows]), len(images))
            errors(captions[rows], images, table)
            table.neg_()
        table.scatter_(1, owner[rows, None], -torch.inf)  # the right answer is not its own rival
        of_captions.append(1 + (table >= bar(own[rows, None])).sum(dim=1))
        rivals += (table >= bar(best)).sum(dim=0)
    return torch.cat(of_captions), 1 + rivals


def _blocks(count: int, size: int) -> list[slice]:
    return [slice(start, start + size) for start in range(0, count, size)]


def file_name(epoch: int, ending: str = TENSORS) -> str:
    """Return the name of a snapshot's file."""
    return f"epoch-{epoch:03d}{ending}"


def keep(folder: Path, epoch: int, encoders: Encoders) -> None:
    """Write the snapshot of an epoch into the folder of a half-done run."""
    write_summed(folder, file_name(epoch, ""), tensor_bytes(encoders.state_dict()))


def copy_snapshots(source: Path, folder: Path, epochs: int) -> list[int]:
    """Copy the snapshots of a run of so many epochs into an existing folder; return the epochs of the snapshots.

    Raises:
        FileFormatError: a snapshot is not the one that was kept.
    """
    kept = {epoch: path for epoch in range(epochs + 1) for path in summed(source, file_name(epoch, ""))}
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
    frame: int | None = None
    """The frame of the start's n-grams, which an old encoder lacks; None: that of the vocabulary."""

    @property
    def epochs(self) -> list[int]:
        """The epochs of the snapshots, in their order."""
        return list(self.recall)

    @property
    def model(self) -> Shape:
        """The shape of the network."""
        settings = ModelSettings(**{name: self.training[name] for name in ModelSettings.model_fields})
        return shape_of(settings, self.vocabulary, self.frame)

    def write_index(self) -> None:
        """Write ``snapshots.json``, ``vocabulary.json`` and the sums of the snapshots, which are in the folder."""
        self.vocabulary.save(self.folder / "vocabulary.json")
        about = {
            "training": self.training,
            "features": self.features,
            "features_width": self.features_width,
            "captions_sha256": self.captions_sha256,
            "snapshots": [{"epoch": epoch, "dev": recall} for epoch, recall in self.recall.items()],
            **({} if self.frame is None else {"frame": self.frame}),
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
        snapshots = Snapshots(
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
            frame=entry(about, "frame", int) if "frame" in about else None,
        )
        _ = snapshots.model  # a wrong parameter is an error of this file
    FORMAT.require(names, "vocabulary.json", *map(file_name, snapshots.epochs), where=place)
    return snapshots


def _recall(dev: dict[str, Any]) -> Recall:
    return {
        direction: {name: entry(entry(dev, direction, dict), name, float) for name in _MEASURES}
        for direction in DIRECTIONS
    }


def shape_of(settings: ModelSettings, vocabulary: Vocabulary, frame: int | None = None) -> Shape:
    """Return the shape of the network; for n-grams, texts begin and end with ``frame``, or with the vocabulary's space,
    if any.
    """
    if not isinstance(settings.shape, NgramShape):
        return settings.shape
    return framed(settings.shape, vocabulary) if frame is None else replace(settings.shape, frame=frame)


def frame_of(start: Part | None) -> int | None:
    """Return the frame of the n-grams of a start; None without n-grams."""
    return start.shape.frame if start is not None and isinstance(start.shape, NgramShape) else None


def framed(shape: NgramShape, vocabulary: Vocabulary) -> NgramShape:
    """Return the shape whose texts begin and end with the vocabulary's space, if any."""
    tokens = vocabulary.tokens
    return replace(shape, frame=tokens.index(" ") + UNKNOWN + 1 if " " in tokens else PAD)


def count(
    shape: Shape, rows: Sequence[npt.NDArray[np.int64]], vocabulary: Vocabulary, *, progress: bool = False
) -> Encoders:
    """Return a network without a side of pictures, whose n-grams have the weights of captions (``train.cell: tfidf``).

    The order of the captions changes nothing.

    Args:
        shape: the shape, as :func:`shape_of` or :func:`framed` returns it.
        rows: the token ids of the training captions.
        vocabulary: the vocabulary of the ids.
        progress: show a progress bar on a terminal.
    """
    encoders = Encoders(len(vocabulary), 0, shape)
    assert isinstance(encoders.captions.embedding, Tfidf)
    order = sorted(range(len(rows)), key=lambda place: len(rows[place]))  # saves padding

    def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        blocks = tqdm(_blocks(len(order), 256), desc="train", leave=False, disable=None if progress else True)
        for block in blocks:
            yield pad([rows[place] for place in order[block]])

    encoders.captions.embedding.count(batches())
    return encoders.eval()
