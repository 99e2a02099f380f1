"""The stage epochs: reads the snapshots with their recall on dev, and the STS and SICK files; writes
``plots/epochs/epochs.tsv``, a row for every kept epoch. The table is to look at: nothing is chosen by it.
"""

from __future__ import annotations

import logging

from sightword.vse.selection.epochs_settings import EpochsSettings

log = logging.getLogger(__name__)

SETTINGS = EpochsSettings


def work(settings: EpochsSettings) -> None:
    """Tabulate recall on dev and sentence similarity of every kept epoch."""
    from sightword import machine
    from sightword.compute import devices
    from sightword.io.files import atomic_folder, write_tsv
    from sightword.messages import plural
    from sightword.vse.selection.epochs import measure_epochs, rows
    from sightword.vse.training.snapshots import read_snapshots

    snapshots = read_snapshots("models/snapshots")
    measured = measure_epochs(snapshots, settings, device=devices.use(machine.current()), progress=True)
    header, lines = rows(measured, settings.tasks)
    with atomic_folder("plots/epochs") as folder:
        write_tsv(folder / "epochs.tsv", header, lines)
    tasks = ", ".join(settings.tasks)
    log.info("epochs: evaluated %s%s", plural(len(measured), "snapshot"), f" on {tasks}" if tasks else "")
