"""The stage train: reads features and captions, trains both encoders, writes the snapshots with their recall on dev,
the curves, and a few numbers. The curves are written after each epoch, to be watched.

A half-done run lives in the folder that ``SIGHTWORD_SCRATCH`` names, so that a killed run resumes where it was.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from sightword.training.settings import TrainSettings

log = logging.getLogger(__name__)

SETTINGS = TrainSettings

CAPTIONS = "data/captions/captions.parquet"
VOCABULARY = "data/captions/vocabulary.json"
CURVES = "plots/train"


def work(settings: TrainSettings) -> Callable[[], object]:
    """Train the caption and image encoders, keep snapshots."""
    from sightword import devices, machine
    from sightword.captions.table import check_vocabulary, read_captions
    from sightword.captions.vocabulary import Vocabulary
    from sightword.features.origin import describe
    from sightword.features.table import read_features
    from sightword.files import atomic_folder, sha256_file, write_json
    from sightword.pairs import pair, report_uncaptioned
    from sightword.training.checkpoint import open_checkpoint
    from sightword.training.curves import events_folder, open_events, write_curves
    from sightword.training.loop import History, check_sizes, train
    from sightword.training.snapshots import Snapshots

    events = events_folder()
    features, captions = read_features("data/features/features.h5"), read_captions(CAPTIONS)
    vocabulary = Vocabulary.load(VOCABULARY)
    check_vocabulary(captions, vocabulary, where=CAPTIONS)
    report_uncaptioned(features, captions)
    training, dev = pair(features, captions, "train"), pair(features, captions, "dev")
    origin, rejected = features.attributes, len(features.rejected)
    del features, captions  # a gigabyte for COCO
    check_sizes(settings, training)
    here = machine.current()
    device = devices.use(here, deterministic=settings.deterministic)
    log.info(
        "train: %d pictures, %d captions, %d tokens, %d features (%s); on the %s",
        *(len(training.image_ids), len(training.texts), len(vocabulary), training.features.shape[1]),
        *(describe(origin), devices.describe(device)),
    )
    captions_sha256 = sha256_file(CAPTIONS)
    inputs = {
        "settings": settings.model_dump(),
        "features": str(origin["checksum"]),
        "captions": captions_sha256,
        "vocabulary": sha256_file(VOCABULARY),
        "device": device.type,
        "threads": here.threads,
    }
    with contextlib.ExitStack() as stack:
        checkpoint = stack.enter_context(open_checkpoint(here.scratch, inputs))
        # File by file: whoever reads the folder always finds it.
        writers: list[Callable[[History], None]] = [partial(write_curves, Path(CURVES))]
        if events:
            events /= checkpoint.folder.name
            writers.append(stack.enter_context(open_events(events, settings.model_dump())))
            log.info("train: events for TensorBoard in %s", events)

        def show(history: History) -> None:
            try:
                for write in writers:
                    write(history)
            except OSError as error:  # no reason to stop: the curves are written again at the end
                log.warning("train: the curves cannot be written now (%s)", error)

        encoders, history = train(
            settings, training, dev, tokens=len(vocabulary), device=device, keep=checkpoint.keep, show=show,
            checkpoint=checkpoint, progress=True,
        )  # fmt: skip
        recall = dict(history.recall)
        with atomic_folder("models/snapshots") as folder:
            epochs = checkpoint.copy_snapshots(folder, settings.epochs)
            Snapshots(
                folder, {epoch: recall[epoch] for epoch in epochs}, settings.model_dump(), origin,
                training.features.shape[1], captions_sha256, vocabulary,
            ).write_index()  # fmt: skip
        with atomic_folder(CURVES) as folder:
            write_curves(folder, history)
        last = recall[settings.epochs]
        write_json(
            "metrics/train.json",
            {
                "pictures": len(training.image_ids),
                "rejected_pictures": rejected,
                "captions": len(training.texts),
                "features": describe(origin),
                "device": device.type,
                "parameters": sum(weights.numel() for weights in encoders.parameters()),
                "epochs": settings.epochs,
                "snapshots": len(epochs),
                "loss": round(history.loss[-1][1], 6),
                "dev_r10_caption_to_image": last["caption_to_image"]["r10"],
                "dev_r10_image_to_caption": last["image_to_caption"]["r10"],
            },
        )
        number = f"{len(epochs)} snapshot{'' if len(epochs) == 1 else 's'}"
        log.info("train: %d epochs, %s in models/snapshots", settings.epochs, number)
        stack.callback(checkpoint.done)
        return stack.pop_all().close  # until it is called, no other process takes the checkpoint
