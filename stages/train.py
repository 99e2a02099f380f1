"""The stage train: reads features and captions, trains both encoders, writes the
snapshots, the small numbers of the training and its curves.

What is half done lives in the folder that ``SIGHTWORD_SCRATCH`` names, so that a killed run goes on where it was.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING

from sightword.training.settings import TrainSettings

if TYPE_CHECKING:
    from sightword.model.encoders import Encoders

log = logging.getLogger(__name__)

SETTINGS = TrainSettings

CAPTIONS = "data/captions/captions.parquet"
VOCABULARY = "data/captions/vocabulary.json"


def work(settings: TrainSettings) -> Callable[[], object]:
    """Train the caption and image encoders, keep snapshots."""
    from sightword import devices, machine
    from sightword.captions.table import check_vocabulary, read_captions
    from sightword.captions.vocabulary import Vocabulary
    from sightword.errors import TrainingError
    from sightword.features.origin import describe
    from sightword.features.table import read_features
    from sightword.files import atomic_folder, sha256_file, write_json
    from sightword.model.saved import save_weights
    from sightword.pairs import pair, report_uncaptioned
    from sightword.training.checkpoint import open_checkpoint
    from sightword.training.curves import write_curves
    from sightword.training.loop import check_sizes, train
    from sightword.training.snapshots import file_name, write_index

    features = read_features("data/features/features.h5")
    captions = read_captions(CAPTIONS)
    vocabulary = Vocabulary.load(VOCABULARY)
    check_vocabulary(captions, vocabulary, where=CAPTIONS)
    report_uncaptioned(features, captions)
    training, dev = pair(features, captions, "train"), pair(features, captions, "dev")
    origin, rejected = features.attributes, len(features.rejected)
    del features, captions  # of COCO a gigabyte
    check_sizes(settings, training)
    here = machine.current()
    device = devices.use(here, deterministic=settings.deterministic)
    log.info(
        "train: %d pictures, %d captions, %d tokens, %d features (%s)",
        *(len(training.image_ids), len(training.texts), len(vocabulary), training.features.shape[1]),
        describe(origin),
    )
    inputs = {
        "settings": settings.model_dump(),
        "features": str(origin["checksum"]),
        "captions": sha256_file(CAPTIONS),
        "vocabulary": sha256_file(VOCABULARY),
        "device": device.type,
        "threads": here.threads,
        "stage": sha256_file(__file__),
    }
    with contextlib.ExitStack() as stack:
        checkpoint = stack.enter_context(open_checkpoint(here.scratch, inputs))

        def keep(epoch: int, encoders: Encoders) -> None:
            save_weights(checkpoint.folder / file_name(epoch), encoders)

        try:
            encoders, history = train(
                settings,
                training,
                dev,
                tokens=len(vocabulary),
                device=device,
                keep=keep,
                checkpoint=checkpoint,
                progress=True,
            )
        except TrainingError:
            log.warning("train: the snapshots kept so far, if any, are in %s", checkpoint.folder)
            raise
        epochs = [epoch for epoch in range(1, settings.epochs + 1) if (checkpoint.folder / file_name(epoch)).exists()]
        with atomic_folder("models/snapshots") as folder:
            for epoch in epochs:
                shutil.copyfile(checkpoint.folder / file_name(epoch), folder / file_name(epoch))
            write_index(
                folder,
                epochs,
                settings=settings,
                vocabulary=vocabulary,
                features=origin,
                features_width=training.features.shape[1],
            )
        with atomic_folder("plots/train") as folder:
            write_curves(folder, history)
        last = history.recall[-1][1]
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
        log.info("train: %d epochs, %d snapshots in models/snapshots", settings.epochs, len(epochs))
        stack.callback(checkpoint.done)
        return stack.pop_all().close  # until it is called, no other process takes the checkpoint
