"""The curves of the training run: tables that DVC plots, and the files that DVCLive would write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sightword.io.files import write_json, write_tsv
from sightword.training.checkpoint import Progress
from sightword.training.engine import write_table
from sightword.vse.training.validation import DEPTHS, DIRECTIONS

NAMES = [f"{direction}/r{k}" for direction in DIRECTIONS for k in DEPTHS]
RECALL = ("epoch", *(name.replace("/", "_") for name in NAMES))
"""The columns of ``recall.tsv``."""


def write_empty(folder: Path) -> None:
    """Write the tables of :func:`write_curves` without a row, for a run without batches."""
    for name in ("loss", "learning_rate"):
        write_table(folder / f"{name}.tsv", "step", {name: []})
    write_tsv(folder / "recall.tsv", RECALL, [])


def write_curves(folder: Path, progress: Progress) -> None:
    """Write ``loss.tsv``, ``learning_rate.tsv`` and ``recall.tsv`` into a folder, and the folder ``dvclive`` in it.

    Recall has a row for epoch 0 too, the untrained encoders; the others begin with the first batch.

    ``dvclive`` is as DVCLive writes it, with a step for each epoch: ``plots/metrics/NAME.tsv`` has the columns ``step``
    and the last part of NAME; ``metrics.json`` has the last value of each, nested by the parts of NAME, and ``step``.
    """
    curves = progress.curves
    recalls = {name: [value for _, value in curves["recall"][name]] for name in NAMES}
    last = len(recalls[NAMES[0]]) - 1
    for name in ("loss", "learning_rate"):
        write_table(folder / f"{name}.tsv", "step", curves.get(name, {name: []}))
    write_tsv(folder / "recall.tsv", RECALL, zip(range(last + 1), *recalls.values(), strict=True))

    latest: dict[str, Any] = {}
    for name, values in (
        _by_epoch(progress, last) | {f"dev/{name}": values for name, values in recalls.items()}
    ).items():
        *above, inmost = name.split("/")
        table = folder / "dvclive" / "plots" / "metrics" / f"{name}.tsv"
        write_tsv(table, ("step", inmost), zip(range(last + 1 - len(values), last + 1), values, strict=True))
        inner = latest
        for part in above:
            inner = inner.setdefault(part, {})
        inner[inmost] = values[-1]
    write_json(folder / "dvclive" / "metrics.json", {**latest, "step": last})


def _by_epoch(progress: Progress, epochs: int) -> dict[str, list[float]]:
    """Return the mean loss of each epoch's batches, and its last learning rate; all epochs have as many points."""
    if not epochs:
        return {}
    points, rates = progress.curves["loss"]["loss"], progress.curves["learning_rate"]["learning_rate"]
    sizes = np.diff([step for step, _ in points], prepend=0)
    parts = np.array_split(np.arange(len(sizes)), epochs)
    losses = np.array([loss for _, loss in points])
    return {
        "train/loss": [float(np.average(losses[part], weights=sizes[part])) for part in parts],
        "train/learning_rate": [rates[int(part[-1])][1] for part in parts],
    }
