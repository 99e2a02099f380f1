"""The stage train: reads features and captions, and perhaps an encoder to start from; trains both encoders; writes the
snapshots with their recall on dev, the curves, and a few numbers. The curves are written after each epoch, to be
watched; with ``cell: tfidf`` they are empty.

A half-done run lives in the folder that ``SIGHTWORD_SCRATCH`` names, so that a killed run resumes where it was.

With ``RANKS`` the launcher may run the stage in several processes, of which the first does all but its share of the
training: only there is a checkpoint, a dev split and output.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightword.vse.training.settings import TrainSettings

if TYPE_CHECKING:
    from sightword.captions.vocabulary import Vocabulary
    from sightword.encoder.parts import Part
    from sightword.features.tables.pairs import Pairs
    from sightword.machine import Machine, Place
    from sightword.training.checkpoint import Progress
    from sightword.vse.training.sharing import Inputs

log = logging.getLogger(__name__)

SETTINGS = TrainSettings
CHECKPOINT = True
"""Whether a killed run goes on where it was."""
RANKS = True
"""Whether several processes may share the work."""

CAPTIONS = "data/captions/captions.parquet"
VOCABULARY = "data/captions/vocabulary.json"
CURVES = "plots/train"


def work(settings: TrainSettings, *, inputs: str = "") -> Callable[[], object] | None:
    """Train the caption and image encoders, keep snapshots."""
    from sightword import machine
    from sightword.compute import devices
    from sightword.encoder.derived import report_unknown
    from sightword.features.tables.origin import describe
    from sightword.io.files import atomic_folder, write_json
    from sightword.messages import plural
    from sightword.training.checkpoint import open_checkpoint
    from sightword.training.curves import events_folder
    from sightword.vse.training.curves import write_curves
    from sightword.vse.training.sharing import joined, share
    from sightword.vse.training.snapshots import Snapshots, copy_snapshots, keep
    from sightword.vse.training.task import check_sizes, train

    here, place = machine.current(), machine.place()
    if settings.cell == "tfidf":
        if not place.rank:
            _count(settings)
        return None
    if place.rank:
        _help(settings, here, place)
        return None
    if events := events_folder():  # a missing package is reported before any work
        log.info("train: events for TensorBoard in %s", events)
    training, dev, vocabulary, start, origin, rejected, hashes = _read(settings)
    beside = _beside(settings, start)
    if start is not None:
        report_unknown(str(settings.start), start, [*training.ids, *(beside.ids if beside else ())])
    check_sizes(settings, training, beside, place.ranks)
    device = devices.use(here, deterministic=settings.deterministic)
    log.info(
        "train: %d pictures, %d captions, %d tokens, %d features (%s)%s; on the %s%s",
        *(len(training.image_ids), len(training.texts), len(vocabulary), training.features.shape[1]),
        *(describe(origin), f", from the encoder {settings.start}" if start else ""),
        *(devices.describe(device), f" each, {place.ranks} processes" if place.ranks > 1 else ""),
    )
    parameters = settings.noted()
    with open_checkpoint(here.scratch, "train", inputs=inputs, device=device.type, parameters=parameters) as checkpoint:

        def show(progress: Progress) -> None:
            try:  # file by file: whoever reads the folder always finds it
                write_curves(Path(CURVES), progress)
            except OSError as error:  # no reason to stop: the curves are written again at the end
                log.warning("train: the curves cannot be written now (%s)", error)

        with joined(place, device) as processes:
            own = (training, beside, len(vocabulary))
            training, beside, tokens = share(processes, own, hashes, here.scratch)
            run = train(
                settings, training, dev, tokens=tokens, device=device, start=start, beside=beside,
                keep=partial(keep, checkpoint.folder), show=show, checkpoint=checkpoint, progress=True,
                processes=processes,
            )  # fmt: skip
        recall = run.recall
        with atomic_folder("models/snapshots") as folder:
            epochs = copy_snapshots(checkpoint.folder, folder, settings.epochs)
            Snapshots(
                folder, {epoch: recall[epoch] for epoch in epochs}, parameters, origin,
                training.features.shape[1], hashes["captions"], vocabulary,
            ).write_index()  # fmt: skip
        with atomic_folder(CURVES) as folder:
            write_curves(folder, run.progress)
        last = recall[settings.epochs]
        write_json(
            "metrics/train.json",
            {
                "pictures": len(training.image_ids),
                "rejected_pictures": rejected,
                "captions": len(training.texts),
                **({"captions_beside": len(beside.ids)} if beside else {}),
                "features": describe(origin),
                "device": device.type,
                "parameters": sum(weights.numel() for weights in run.encoders.parameters()),
                "epochs": settings.epochs,
                "snapshots": len(epochs),
                "loss": round(run.progress.last("loss", "loss"), 6),
                "dev_r10_caption_to_image": last["caption_to_image"]["r10"],
                "dev_r10_image_to_caption": last["image_to_caption"]["r10"],
            },
        )
        done = plural(settings.epochs, "epoch"), plural(len(epochs), "snapshot")
        log.info("train: %s, %s in models/snapshots", *done)
        return checkpoint.finished()


def _count(settings: TrainSettings) -> None:
    """Write the one snapshot of ``cell: tfidf``: the training captions are counted, and no picture is seen."""
    from sightword.io.files import atomic_folder, write_json
    from sightword.model.saved import write_tensors
    from sightword.vse.training.curves import write_empty
    from sightword.vse.training.lexical import count, shape_of
    from sightword.vse.training.snapshots import Snapshots, file_name

    training, _, vocabulary, _, _, rejected, hashes = _read(settings)
    encoders = count(shape_of(settings, vocabulary), training.ids, vocabulary, progress=True)
    parameters = settings.noted()
    with atomic_folder("models/snapshots") as folder:
        write_tensors(folder / file_name(0), encoders.state_dict())
        Snapshots(folder, {0: {}}, parameters, {}, 0, hashes["captions"], vocabulary).write_index()
    with atomic_folder(CURVES) as folder:
        write_empty(folder)
    numbers = {
        "pictures": len(training.image_ids),
        "rejected_pictures": rejected,
        "captions": len(training.texts),
        "parameters": sum(weights.numel() for weights in encoders.parameters()),
        "snapshots": 1,
    }
    write_json("metrics/train.json", numbers)
    log.info("train: counted the n-grams of %d captions, 1 snapshot in models/snapshots", len(training.texts))


def _read(
    settings: TrainSettings,
) -> tuple[Pairs, Pairs, Vocabulary, Part | None, dict[str, Any], int, dict[str, Any]]:
    """Return both splits, the vocabulary, the start, what the features are, the number of rejected pictures, hashes."""
    from sightword.captions.encoding import with_ids
    from sightword.captions.table import check_vocabulary, read_captions, sealed_pictures
    from sightword.captions.vocabulary import FOLDER, Vocabulary
    from sightword.encoder.derived import read_start
    from sightword.features.tables.pairs import pair, report_uncaptioned
    from sightword.features.tables.table import read_features
    from sightword.io.files import sha256_file
    from sightword.io.saved import SUMS

    features, captions = read_features("data/features/features.h5"), read_captions(CAPTIONS)
    FOLDER.read(Path(VOCABULARY).parent)
    vocabulary = Vocabulary.load(VOCABULARY)
    check_vocabulary(captions, vocabulary, where=CAPTIONS)
    report_uncaptioned(features, captions, sealed_pictures(CAPTIONS))
    hashes = {
        "settings": settings.noted(),
        "features": str(features.attributes["checksum"]),
        "captions": sha256_file(CAPTIONS),
        "vocabulary": sha256_file(VOCABULARY),
    }
    start = None
    if settings.start:
        start = read_start(settings.encoders, settings.start, like=(settings.shape, vocabulary.unit))
        vocabulary = start.vocabulary
        captions = with_ids(captions, vocabulary)
        hashes["start"] = sha256_file(Path(settings.encoders, settings.start, SUMS))
    training, dev = pair(features, captions, "train"), pair(features, captions, "dev")
    return training, dev, vocabulary, start, features.attributes, len(features.rejected), hashes


def _beside(settings: TrainSettings, start: Part | None) -> Pairs | None:
    """Return the captions without pictures, where the training takes any, with the ids of the start's vocabulary."""
    from sightword.captions.encoding import with_ids
    from sightword.captions.table import read_captions
    from sightword.features.tables.pairs import without_pictures
    from sightword.settings import BESIDE

    if not settings.beside_batch:
        return None
    captions = read_captions(CAPTIONS, withheld=[BESIDE]).split(BESIDE)
    return without_pictures(with_ids(captions, start.vocabulary) if start else captions)


def _help(settings: TrainSettings, here: Machine, place: Place) -> None:
    """Do the share of a rank after the first; the first rank of each machine reads for the others there."""
    from sightword.compute import devices
    from sightword.encoder.derived import read_start
    from sightword.vse.training.sharing import joined, share
    from sightword.vse.training.task import train

    own: Inputs | None = None
    hashes: dict[str, Any] = {}
    if place.local_rank:
        start = read_start(settings.encoders, settings.start) if settings.start else None
    else:
        split, _, vocabulary, start, _, _, hashes = _read(settings)
        own = split, _beside(settings, start), len(vocabulary)
        del split
    device = devices.use(here, deterministic=settings.deterministic)
    with joined(place, device) as processes:
        training, beside, tokens = share(processes, own, hashes, here.scratch)
        own = None  # the shared one takes its place in memory
        train(settings, training, None, tokens=tokens, device=device, start=start, beside=beside, processes=processes)
