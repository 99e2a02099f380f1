"""The curves of a training run: tables that DVC plots, and the files that DVCLive would write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sightword.files import write_json, write_tsv
from sightword.training.loop import History
from sightword.training.validation import DEPTHS, DIRECTIONS


def write_curves(folder: Path, history: History) -> None:
    """Write ``loss.tsv``, ``learning_rate.tsv`` and ``recall.tsv`` into a folder, and the folder ``dvclive`` in it.

    ``dvclive`` is as DVCLive writes it, with a step for each epoch: ``plots/metrics/NAME.tsv`` has the columns ``step``
    and the last part of NAME; ``metrics.json`` has the last value of each, nested by the parts of NAME, and ``step``.
    """
    epochs = [epoch for epoch, _ in history.recall]
    names = [(direction, f"r{k}") for direction in DIRECTIONS for k in DEPTHS]
    recalls = [[entry[direction][recall] for _, entry in history.recall] for direction, recall in names]
    write_tsv(folder / "loss.tsv", ("step", "loss"), history.loss)
    write_tsv(folder / "learning_rate.tsv", ("step", "learning_rate"), history.rate)
    header = ("epoch", *(f"{direction}_{recall}" for direction, recall in names))
    write_tsv(folder / "recall.tsv", header, zip(epochs, *recalls, strict=True))

    series = _by_epoch(history)
    series |= {f"dev/{direction}/{recall}": values for (direction, recall), values in zip(names, recalls, strict=True)}
    latest: dict[str, Any] = {}
    for name, values in series.items():
        *above, last = name.split("/")
        table = folder / "dvclive" / "plots" / "metrics" / f"{name}.tsv"
        write_tsv(table, ("step", last), zip(epochs, values, strict=True))
        inner = latest
        for part in above:
            inner = inner.setdefault(part, {})
        inner[last] = values[-1]
    write_json(folder / "dvclive" / "metrics.json", {**latest, "step": epochs[-1]})


def _by_epoch(history: History) -> dict[str, list[float]]:
    """Return the mean loss of each epoch's batches, and its last learning rate; all epochs have as many points."""
    sizes = np.diff([step for step, _ in history.loss], prepend=0)
    parts = np.array_split(np.arange(len(sizes)), len(history.recall))
    losses = np.array([loss for _, loss in history.loss])
    return {
        "train/loss": [float(np.average(losses[part], weights=sizes[part])) for part in parts],
        "train/learning_rate": [history.rate[int(part[-1])][1] for part in parts],
    }
