"""The stage select: reads the snapshots, with their recall on dev, the dev split, and encoders to stand beside; writes
the encoder made of the best snapshots, with its model card, and the scores on dev.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightword.vse.selection.settings import SelectSettings

if TYPE_CHECKING:
    from sightword.captions.table import CaptionTable
    from sightword.features.tables.table import FeatureTable
    from sightword.vse.selection.choice import Choice
    from sightword.vse.training.snapshots import Snapshots

log = logging.getLogger(__name__)

SETTINGS = SelectSettings

FEATURES = "data/features/features.h5"
CAPTIONS = "data/captions/captions.parquet"
BESIDE = Path("data/raw/beside")


def work(settings: SelectSettings) -> None:
    """Choose the snapshots that are best on dev, and make the encoder of them."""
    from sightword import machine
    from sightword.compute import devices
    from sightword.features.tables.pairs import pair
    from sightword.io.files import atomic_folder, sha256_file, write_json, write_text
    from sightword.vse.selection.choice import choose, lexical_part, read_beside
    from sightword.vse.selection.model_card import Amount, model_card
    from sightword.vse.training.snapshots import read_snapshots

    snapshots = read_snapshots("models/snapshots")
    features, captions = _read(snapshots)
    dev = pair(features, captions, "dev")
    known = None
    if snapshots.features_width:
        if snapshots.validated_on(features.attributes, sha256_file(CAPTIONS)):
            known = snapshots.recall
        else:
            log.warning("select: the dev split changed since training: recall of each snapshot is measured again")
    device = devices.use(machine.current())
    others = read_beside(BESIDE, settings.beside, snapshots, device=device)
    lexical = None
    if settings.lexical:
        train = captions.split("train")
        rows = [ids for ids, name in zip(train.ids, train.image_ids, strict=True) if name not in features.rejected]
        lexical = lexical_part(settings.lexical, rows, snapshots.vocabulary, device=device)
    choice = choose(snapshots, dev, settings, device=device, recall=known, beside=others, lexical=lexical)
    with atomic_folder("models/encoder") as folder:
        choice.encoder.save(folder)
        write_text(folder / "README.md", model_card(choice, settings, Amount.of(captions, features, "train")))
    numbers = _numbers(choice, settings, features.attributes, len(snapshots.epochs))
    write_json("metrics/select.json", numbers)
    log.info(
        "select: models/encoder has %d of %d snapshots: epochs %s%s",
        *(len(choice.epochs), len(snapshots.epochs), numbers["chosen_epochs"]),
        "".join(f", beside {name}" for name in settings.beside),
    )


def _read(snapshots: Snapshots) -> tuple[FeatureTable, CaptionTable]:
    """Read the features, and the captions with the ids of the snapshots' vocabulary."""
    from sightword.captions.table import read_captions, with_ids
    from sightword.features.tables.table import read_features
    from sightword.settings import BESIDE as OTHERS

    captions = read_captions(CAPTIONS, withheld=[OTHERS] * bool(snapshots.training.get("beside_batch")))
    if snapshots.training.get("start"):
        captions = with_ids(captions, snapshots.vocabulary)
    features = read_features(FEATURES)
    snapshots.check_features(features.attributes, features.features.shape[1], where=FEATURES)
    return features, captions


def _numbers(choice: Choice, settings: SelectSettings, features: dict[str, Any], snapshots: int) -> dict[str, Any]:
    """Return the content of ``metrics/select.json``."""
    from sightword.features.tables.origin import describe
    from sightword.statistics.inference import rounded
    from sightword.vse.selection.choice import mean_r10

    first, whole = choice.epochs[0], choice.ensemble
    numbers = {
        "features": describe(features) if choice.encoder.features_width else None,
        "snapshots": snapshots,
        "members": len(choice.epochs),
        "chosen_epochs": "+".join(str(epoch) for epoch in choice.epochs),
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
    kept: dict[str, Any] = rounded({name: value for name, value in numbers.items() if value is not None})
    return kept
