"""The stage train: reads features and captions, and perhaps an encoder to start from; trains both encoders; writes the
snapshots with their recall on dev, the curves, and a few numbers. The curves are written after each epoch, to be
watched; with ``cell: tfidf`` they are empty.

A half-done run lives in the folder that ``SIGHTWORD_SCRATCH`` names, so that a killed run resumes where it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sightword.vse.training.settings import TrainSettings

if TYPE_CHECKING:
    from sightword.captions.vocabulary import Vocabulary
    from sightword.encoder.parts import Part
    from sightword.features.tables.pairs import Pairs
    from sightword.training.checkpoint import Progress
    from sightword.vse.training.task import CaptionTask

log = logging.getLogger(__name__)

SETTINGS = TrainSettings
CHECKPOINT = True
"""Whether a killed run goes on where it was."""

CAPTIONS = "data/captions/captions.parquet"
VOCABULARY = "data/captions/vocabulary.json"
CURVES = "plots/train"
SNAPSHOTS = "models/snapshots"
METRICS = "metrics/train.json"


class _Inputs(NamedTuple):
    """What a training reads."""

    training: Pairs
    dev: Pairs
    beside: Pairs | None
    """Captions without pictures, where the training takes any."""
    vocabulary: Vocabulary
    start: Part | None
    features: dict[str, Any]
    """The attributes of the features."""
    rejected: int
    """The number of rejected pictures."""
    captions_sha256: str


def work(settings: TrainSettings, *, inputs: str = "") -> Callable[[], object] | None:
    """Train the caption and image encoders, keep snapshots."""
    from sightword import machine
    from sightword.compute import devices
    from sightword.training.checkpoint import open_checkpoint
    from sightword.vse.training.snapshots import copy_snapshots, keep
    from sightword.vse.training.task import Data, train, write_curves

    here = machine.current()
    if settings.cell == "tfidf":
        _count(settings)
        return None
    data = _read(settings)
    device = devices.use(here)
    _tell(settings, data, devices.describe(device))

    def show(progress: Progress) -> None:
        try:  # file by file: whoever reads the folder always finds it
            write_curves(Path(CURVES), progress)
        except OSError as error:  # no reason to stop: the curves are written again at the end
            log.warning("train: the curves cannot be written now (%s)", error)

    about = settings.noted()
    with open_checkpoint(here.scratch, "train", inputs=inputs, device=device.type, parameters=about) as checkpoint:
        run = train(
            settings, Data(data.training, data.dev, data.vocabulary, data.start, data.beside), device=device,
            keep=partial(keep, checkpoint.folder), show=show, checkpoint=checkpoint, progress=True,
        )  # fmt: skip
        _write(settings, data, run, partial(copy_snapshots, checkpoint.folder, epochs=settings.epochs))
        return checkpoint.finished()


def _tell(settings: TrainSettings, data: _Inputs, device: str) -> None:
    """Log the sizes, and the tokens that an encoder to start from does not know."""
    from sightword.encoder.derived import report_unknown
    from sightword.features.tables.origin import describe

    training, beside, start = data.training, data.beside, data.start
    if start is not None:
        report_unknown(str(settings.start), start, [*training.ids, *(beside.ids if beside else ())])
    log.info(
        "train: %d pictures, %d captions, %d tokens, %d features (%s)%s; on the %s",
        *(len(training.image_ids), len(training.texts), len(data.vocabulary), training.features.shape[1]),
        *(describe(data.features), f", from the encoder {settings.start}" if start else "", device),
    )


def _write(settings: TrainSettings, data: _Inputs, run: CaptionTask, copied: Callable[[Path], list[int]]) -> None:
    """Write the snapshots, the curves and the numbers of a run."""
    from sightword.features.tables.origin import describe
    from sightword.io.files import atomic_folder, write_json
    from sightword.messages import plural
    from sightword.vse.training.snapshots import Snapshots, frame_of
    from sightword.vse.training.task import write_curves

    recall, training = run.recall, data.training
    with atomic_folder(SNAPSHOTS) as folder:
        epochs = copied(folder)
        Snapshots(
            folder, {epoch: recall[epoch] for epoch in epochs}, settings.noted(), data.features,
            training.features.shape[1], data.captions_sha256, data.vocabulary, frame_of(data.start),
        ).write_index()  # fmt: skip
    with atomic_folder(CURVES) as folder:
        write_curves(folder, run.progress)
    last = recall[settings.epochs]
    numbers = {
        "pictures": len(training.image_ids),
        "rejected_pictures": data.rejected,
        "captions": len(training.texts),
        **({"captions_beside": len(data.beside.ids)} if data.beside else {}),
        "features": describe(data.features),
        "device": run.device.type,
        "parameters": sum(weights.numel() for weights in run.encoders.parameters()),
        "epochs": settings.epochs,
        "snapshots": len(epochs),
        "loss": round(run.progress.last("loss", "loss"), 6),
        "dev_r10_caption_to_image": last["caption_to_image"]["r10"],
        "dev_r10_image_to_caption": last["image_to_caption"]["r10"],
    }
    write_json(METRICS, numbers)
    done = plural(settings.epochs, "epoch"), plural(len(epochs), "snapshot")
    log.info("train: %s, %s in models/snapshots", *done)


def _count(settings: TrainSettings) -> None:
    """Write the one snapshot of ``cell: tfidf``: the training captions are counted, and no picture is seen."""
    from sightword.io.files import atomic_folder, write_json
    from sightword.model.saved import write_tensors
    from sightword.training.checkpoint import Progress
    from sightword.vse.training.snapshots import Snapshots, count, file_name, shape_of
    from sightword.vse.training.task import write_curves

    data = _read(settings)
    encoders = count(shape_of(settings, data.vocabulary), data.training.ids, data.vocabulary, progress=True)
    with atomic_folder(SNAPSHOTS) as folder:
        write_tensors(folder / file_name(0), encoders.state_dict())
        Snapshots(folder, {0: {}}, settings.noted(), {}, 0, data.captions_sha256, data.vocabulary).write_index()
    with atomic_folder(CURVES) as folder:
        write_curves(folder, Progress())
    numbers = {
        "pictures": len(data.training.image_ids),
        "rejected_pictures": data.rejected,
        "captions": len(data.training.texts),
        "parameters": sum(weights.numel() for weights in encoders.parameters()),
        "snapshots": 1,
    }
    write_json(METRICS, numbers)
    log.info("train: counted the n-grams of %d captions, 1 snapshot in models/snapshots", len(data.training.texts))


def _read(settings: TrainSettings) -> _Inputs:
    """Read both splits, the vocabulary, and the encoder to start from, whose vocabulary then counts."""
    from sightword.captions.table import check_vocabulary, read_captions, sealed_pictures, with_ids
    from sightword.captions.vocabulary import FOLDER, Vocabulary
    from sightword.encoder.derived import read_start
    from sightword.features.tables.pairs import pair, report_uncaptioned, without_pictures
    from sightword.features.tables.table import read_features
    from sightword.io.files import sha256_file
    from sightword.settings import BESIDE

    features, captions = read_features("data/features/features.h5"), read_captions(CAPTIONS)
    FOLDER.read(Path(VOCABULARY).parent)
    vocabulary = Vocabulary.load(VOCABULARY)
    check_vocabulary(captions, vocabulary, where=CAPTIONS)
    report_uncaptioned(features, captions, sealed_pictures(CAPTIONS))
    start = None
    if settings.start:
        start = read_start(settings.encoders, settings.start, like=(settings.shape, vocabulary.unit))
        vocabulary = start.vocabulary
        captions = with_ids(captions, vocabulary)
    beside = None
    if settings.beside_batch and settings.cell != "tfidf":
        others = read_captions(CAPTIONS, withheld=[BESIDE]).split(BESIDE)
        beside = without_pictures(with_ids(others, vocabulary) if start else others)
    training, dev = pair(features, captions, "train"), pair(features, captions, "dev")
    origin = features.attributes, len(features.rejected), sha256_file(CAPTIONS)
    return _Inputs(training, dev, beside, vocabulary, start, *origin)
