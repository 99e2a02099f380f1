"""The stage epochs: reads the snapshots with their recall on dev, and the STS and SICK files; writes
``plots/epochs/epochs.tsv``, a row for every kept epoch. The table is to look at: nothing is chosen by it.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from sightword.evaluation.ledger import DIGITS, Enter, alone, scored
from sightword.vse.selection.settings import EpochsSettings

log = logging.getLogger(__name__)

SETTINGS = EpochsSettings
SCORES = True
"""Whether scorings are entered in the ledger."""


def work(settings: EpochsSettings, *, enter: Enter = alone) -> None:
    """Tabulate recall on dev and sentence similarity of every kept epoch."""
    from sightword import machine
    from sightword.compute import devices
    from sightword.evaluation.semantics.datasets import read_task, tested
    from sightword.io.files import atomic_folder, sha256_file, write_tsv
    from sightword.messages import plural
    from sightword.vse.selection.choice import measure_epochs, rows
    from sightword.vse.training.snapshots import file_name, read_snapshots

    snapshots = read_snapshots("models/snapshots")
    measured = measure_epochs(snapshots, settings, device=devices.use(machine.current()), progress=True)
    tasks = dict.fromkeys(task for one in measured for task in one.pearson)
    each = [one for task in tasks for one in scored("test", task, tested(read_task(task, Path(settings.data))), "")]
    hashes = [sha256_file(snapshots.folder / file_name(one.epoch))[:DIGITS] for one in measured]
    enter([replace(one, encoder=encoder) for one in each for encoder in hashes])
    header, lines = rows(measured, settings.tasks)
    with atomic_folder("plots/epochs") as folder:
        write_tsv(folder / "epochs.tsv", header, lines)
    named = ", ".join(tasks)
    log.info("epochs: evaluated %s%s", plural(len(measured), "snapshot"), f" on {named}" if named else "")
