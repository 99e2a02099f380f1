"""The stage epochs: reads the snapshots, the dev split and the STS and SICK files; writes ``plots/epochs/epochs.tsv``,
what every kept epoch reaches. To look at: nothing is chosen by it.
"""

from __future__ import annotations

import logging

from sightword.selection.epochs_settings import EpochsSettings

log = logging.getLogger(__name__)

SETTINGS = EpochsSettings

FEATURES = "data/features/features.h5"


def work(settings: EpochsSettings) -> None:
    """Measure recall on dev and sentence similarity at every kept epoch."""
    from sightword import devices, machine
    from sightword.captions.table import read_captions
    from sightword.features.table import read_features
    from sightword.files import atomic_folder, write_tsv
    from sightword.pairs import pair
    from sightword.selection.epochs import measure_epochs, rows
    from sightword.training.snapshots import read_snapshots

    snapshots = read_snapshots("models/snapshots")
    captions, features = read_captions("data/captions/captions.parquet"), read_features(FEATURES)
    snapshots.check_features(features.attributes, features.features.shape[1], where=FEATURES)
    dev = pair(features, captions, "dev")
    measured = measure_epochs(snapshots, dev, settings, device=devices.use(machine.current()), progress=True)
    header, lines = rows(measured, settings.tasks)
    with atomic_folder("plots/epochs") as folder:
        write_tsv(folder / "epochs.tsv", header, lines)
    log.info(
        "epochs: %d kept epochs, recall@10 on dev, semantics on %s",
        len(measured),
        ", ".join(settings.tasks) or "nothing",
    )
