"""The stage select: reads the snapshots, with their recall on dev, the dev split, encoders to stand beside, and with
``stsb_dev`` the dev part of STS Benchmark; writes the encoder made of the best snapshots, with its model card, and the
scores on dev.
"""

from __future__ import annotations

import logging
from pathlib import Path

from sightword.vse.selection.settings import STSB_DEV, SelectSettings

log = logging.getLogger(__name__)

SETTINGS = SelectSettings

FEATURES = "data/features/features.h5"
CAPTIONS = "data/captions/captions.parquet"
BESIDE = Path("data/raw/beside")


def work(settings: SelectSettings) -> None:
    """Choose the snapshots that are best on dev, and make the encoder of them."""
    from sightword import machine
    from sightword.captions.encoding import with_ids
    from sightword.captions.table import read_captions
    from sightword.compute import devices
    from sightword.evaluation.semantics.datasets import read_benchmark_dev
    from sightword.features.tables.origin import describe
    from sightword.features.tables.pairs import pair
    from sightword.features.tables.table import read_features
    from sightword.io.files import atomic_folder, sha256_file, write_json, write_text
    from sightword.settings import BESIDE as OTHERS
    from sightword.statistics.inference import rounded
    from sightword.vse.selection.beside import read_beside
    from sightword.vse.selection.choice import choose
    from sightword.vse.selection.criteria import mean_r10
    from sightword.vse.selection.ensemble import lexical_part
    from sightword.vse.selection.model_card import Amount, model_card
    from sightword.vse.training.snapshots import read_snapshots

    pairs = read_benchmark_dev(Path(settings.data)) if settings.criterion == STSB_DEV else None
    snapshots = read_snapshots("models/snapshots")
    captions = read_captions(CAPTIONS, withheld=[OTHERS] * bool(snapshots.training.get("beside_batch")))
    if snapshots.training.get("start"):
        captions = with_ids(captions, snapshots.vocabulary)
    features = read_features(FEATURES)
    snapshots.check_features(features.attributes, features.features.shape[1], where=FEATURES)
    dev = pair(features, captions, settings.split)
    known = None
    if settings.split == "dev" and snapshots.features_width:
        if snapshots.validated_on(features.attributes, sha256_file(CAPTIONS)):
            known = snapshots.recall
        else:
            log.warning("select: the dev split changed since training: recall of each snapshot is measured again")
    device = devices.use(machine.current())
    beside = read_beside(BESIDE, settings.beside, snapshots, device=device)
    trained = captions.split("train").ids if settings.lexical else []
    lexical = lexical_part(settings.lexical, trained, snapshots.vocabulary, device=device) if settings.lexical else None
    choice = choose(
        *(snapshots, dev, settings),
        device=device,
        recall=known,
        pairs=pairs,
        beside=beside,
        lexical=lexical,
    )
    with atomic_folder("models/encoder") as folder:
        choice.encoder.save(folder)
        write_text(folder / "README.md", model_card(choice, settings, Amount.of(captions, features, "train")))
    chosen = "+".join(str(epoch) for epoch in choice.epochs)
    first, whole = choice.epochs[0], choice.ensemble
    metrics = {
        "features": describe(features.attributes) if choice.encoder.features_width else None,
        "snapshots": len(snapshots.epochs),
        "members": len(choice.epochs),
        "chosen_epochs": chosen,
        "criterion": settings.criterion if whole else None,
        "best_score": choice.score.get(first),
        "beside": "+".join(settings.beside) or None,
        "lexical": settings.lexical or None,
        "ensemble_score": choice.ensemble_score,
        "best_r10": choice.recall.get(first),
        "ensemble_r10": mean_r10(whole) if whole else None,
        "ensemble_r10_caption_to_image": whole["caption_to_image"]["r10"] if whole else None,
        "ensemble_r10_image_to_caption": whole["image_to_caption"]["r10"] if whole else None,
    }
    write_json("metrics/select.json", rounded({name: value for name, value in metrics.items() if value is not None}))
    log.info(
        "select: models/encoder has %d of %d snapshots: epochs %s%s",
        *(len(choice.epochs), len(snapshots.epochs), chosen, "".join(f", beside {name}" for name in settings.beside)),
    )
