"""A training's curves as tables that DVC plots, and as the files that DVCLive would have written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sightword.files import write_json, write_tsv
from sightword.training.loop import History
from sightword.training.validation import DEPTHS, DIRECTIONS, Recall

RECALLS = [f"r{k}" for k in DEPTHS]


def write_curves(folder: Path, history: History) -> None:
    """Write ``loss.tsv``, ``learning_rate.tsv`` and ``recall.tsv`` into a folder, and the folder ``dvclive`` in it."""
    write_tsv(folder / "loss.tsv", ("step", "loss"), history.loss)
    write_tsv(folder / "learning_rate.tsv", ("step", "learning_rate"), history.rate)
    names = [f"{direction}_{recall}" for direction in DIRECTIONS for recall in RECALLS]
    write_tsv(folder / "recall.tsv", ("epoch", *names), ((epoch, *_recalls(entry)) for epoch, entry in history.recall))
    write_dvclive(folder / "dvclive", history)


def write_dvclive(folder: Path, history: History) -> None:
    """Write a folder as DVCLive does, with one step an epoch.

    ``plots/metrics/NAME.tsv`` has the columns ``step`` and the last part of NAME, ``metrics.json`` the last value of
    each, nested by the parts of NAME, and the last ``step``.
    """
    epochs = [epoch for epoch, _ in history.recall]
    series = _by_epoch(history)
    for place, (direction, recall) in enumerate((d, r) for d in DIRECTIONS for r in RECALLS):
        series[f"dev/{direction}/{recall}"] = [_recalls(entry)[place] for _, entry in history.recall]
    latest: dict[str, Any] = {}
    for name, values in series.items():
        *above, last = name.split("/")
        write_tsv(folder / "plots" / "metrics" / f"{name}.tsv", ("step", last), zip(epochs, values, strict=True))
        inner = latest
        for part in above:
            inner = inner.setdefault(part, {})
        inner[last] = values[-1]
    write_json(folder / "metrics.json", {**latest, "step": epochs[-1]})


def _recalls(entry: Recall) -> list[float]:
    return [entry[direction][recall] for direction in DIRECTIONS for recall in RECALLS]


def _by_epoch(history: History) -> dict[str, list[float]]:
    """The mean loss of each epoch's batches, and its last learning rate; each epoch has as many points in a curve."""
    sizes = np.diff([step for step, _ in history.loss], prepend=0)
    parts = np.array_split(np.arange(len(sizes)), len(history.recall))
    losses = np.array([loss for _, loss in history.loss])
    return {
        "train/loss": [float(np.average(losses[part], weights=sizes[part])) for part in parts],
        "train/learning_rate": [history.rate[int(part[-1])][1] for part in parts],
    }
