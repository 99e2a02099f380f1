"""The curves of a training run: tables that DVC plots, the files that DVCLive would write, events for TensorBoard."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sightword.errors import SetupError
from sightword.io.files import write_json, write_tsv
from sightword.training.validation import DEPTHS, DIRECTIONS
from sightword.vse.training.task import History


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


def events_folder() -> Path | None:
    """Return the folder for events that ``SIGHTWORD_TENSORBOARD`` names; None where the variable names none.

    Raises:
        SetupError: the package tensorboard is not installed.
    """
    named = os.environ.get("SIGHTWORD_TENSORBOARD")
    if named and importlib.util.find_spec("tensorboard") is None:
        what = f"SIGHTWORD_TENSORBOARD={named}: the package tensorboard is not installed"
        raise SetupError(what, todo="Install the extra: pip install 'sightword[tensorboard]'.")
    return Path(named).absolute() if named else None


@contextlib.contextmanager
def open_events(folder: Path, settings: Mapping[str, object]) -> Iterator[Callable[[History], None]]:
    """Yield a function that writes the curves so far as events for TensorBoard, each point once; steps are batches.

    The settings are a text of the run. The points replace those of an earlier, killed process in the same folder.
    """
    from torch.utils.tensorboard import SummaryWriter

    written: Counter[str] = Counter()
    with SummaryWriter(str(folder), purge_step=1) as writer:
        writer.add_text("train", "\n".join(f"    {name}: {value}" for name, value in settings.items()))

        def write(history: History) -> None:
            size = history.loss[-1][0] // len(history.recall)
            series = {"train/loss": history.loss, "train/learning_rate": history.rate} | {
                f"dev/{direction}/r{k}": [(epoch * size, entry[direction][f"r{k}"]) for epoch, entry in history.recall]
                for direction in DIRECTIONS
                for k in DEPTHS
            }
            for name, points in series.items():
                for step, value in points[written[name] :]:
                    writer.add_scalar(name, value, step)
                written[name] = len(points)
            writer.flush()

        yield write
