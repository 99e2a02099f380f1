"""Draws the curves of a training run from its tables."""

from __future__ import annotations

import math

from sightword.report.drawing import LINES, Drawing
from sightword.report.inputs import Columns, RunNumbers, numbers
from sightword.report.number_formats import is_number, percent
from sightword.vse.page import plots
from sightword.vse.page.plots import Marks

DIRECTIONS = {"caption_to_image": "from caption to picture", "image_to_caption": "from picture to captions"}
EPOCHS = {
    "caption_to_image_r10": "R@10 to picture",
    "image_to_caption_r10": "R@10 to caption",
    "semantics": "semantics",
}
"""The labels of the scores that are drawn together; each other column of the table is a task."""


def draw(run: RunNumbers) -> list[tuple[str, Drawing]]:
    """Return captions and drawings of the run's curves with two points or more."""
    found = []
    marks = snapshots(run)
    for name, label in (("loss", "Loss"), ("learning_rate", "Learning rate")):
        columns = run.curves.get(name, {"step": [], name: []})
        where = f"plots/train/{name}.tsv"
        steps, values = numbers(columns, "step", where=where), numbers(columns, name, where=where)
        if len(steps) > 1:
            title = f"{label} over {len(steps):,} steps, from {values[0]:.3g} to {values[-1]:.3g}"
            epochs = run.train.get("epochs")
            # All epochs have the same number of steps, and the table ends with the last step.
            in_steps = marks.scaled(steps[-1] / epochs) if is_number(epochs) and epochs > 0 else Marks()
            drawing = plots.curve(name, steps, values, xlabel="step", ylabel=label.lower(), title=title, marks=in_steps)
            found.append((label, drawing))
    if run.training.get("schedule") == "range":
        found += _range(run)
    if "recall" in run.curves:
        found += _recall(run.curves["recall"], marks)
    if run.epochs:
        found += _epochs(run.epochs, Marks(chosen=marks.chosen))
    return found


def snapshots(run: RunNumbers) -> Marks:
    """Return the epochs of kept snapshots, as far as the parameters determine them, and of those in the encoder."""
    listed = run.description.get("epochs")
    chosen = [float(epoch) for epoch in listed if is_number(epoch)] if isinstance(listed, list) else []
    epochs, cycle = run.train.get("epochs"), run.training.get("cycle")
    kept: list[float] = []
    first = cycle
    if run.training.get("snapshots") == "epoch":
        first, cycle = 0, 1
    if isinstance(epochs, int) and isinstance(first, int) and isinstance(cycle, int) and cycle > 0:
        kept = [float(epoch) for epoch in range(first, epochs + 1, cycle)]
    # The recorded count decides, since averaged weights or a schedule in steps may keep other epochs.
    return Marks(kept if len(kept) == run.train.get("snapshots") else (), chosen)


def _range(run: RunNumbers) -> list[tuple[str, Drawing]]:
    """Draw the loss over the learning rate of a range test; both have points at the same steps."""
    rates, losses = (
        numbers(run.curves.get(name, {name: []}), name, where=f"plots/train/{name}.tsv")
        for name in ("learning_rate", "loss")
    )
    if len(rates) < 2 or len(rates) != len(losses):
        return []
    least = min(range(len(losses)), key=losses.__getitem__)
    title = f"Loss over the learning rate of a range test: least, {losses[least]:.3g}, at the rate {rates[least]:.3g}"
    drawing = plots.curve(
        "range_test", rates, losses, xlabel="learning rate", ylabel="loss", title=title, logarithmic=True
    )
    return [("Loss over the learning rate", drawing)]


def _recall(columns: Columns, marks: Marks) -> list[tuple[str, Drawing]]:
    where = "plots/train/recall.tsv"
    epochs = numbers(columns, "epoch", where=where)
    found = []
    for direction, words in DIRECTIONS.items():
        names = {f"R@{k}": f"{direction}_r{k}" for k in (1, 5, 10)}
        recalls = {label: numbers(columns, name, where=where) for label, name in names.items() if name in columns}
        if len(epochs) > 1 and recalls:
            last = ", ".join(f"{label} {series[-1]:.1f}" for label, series in recalls.items())
            title, name = f"Recall {words} at the last epoch: {last}", f"recall_{direction}"
            drawing = plots.epoch_curves(name, epochs, recalls, ylabel="recall on dev (%)", title=title, marks=marks)
            found.append((f"Recall {words}, on dev", drawing))
    return found


def _epochs(columns: Columns, marks: Marks) -> list[tuple[str, Drawing]]:
    """Draw the scores of each kept epoch's encoder: recall with sentence similarity, then each task."""
    where = "plots/epochs/epochs.tsv"
    epochs = numbers(columns, "epoch", where=where)
    tasks = [name for name in columns if name not in ("epoch", *EPOCHS)]
    parts = [("epochs", "Recall@10 on dev and the mean of 100 r over the tasks", "percent, 100 r", EPOCHS)]
    for start in range(0, len(tasks), LINES):
        names = {name: name for name in tasks[start : start + LINES]}
        parts.append((f"tasks{start}", "100 times Pearson's r of each task", "100 r", names))
    found = []
    for name, what, ylabel, labels in parts:
        series = {label: numbers(columns, key, where=where, blanks=True) for key, label in labels.items()}
        known = {label: values for label, values in series.items() if not all(map(math.isnan, values))}
        if len(epochs) > 1 and known:
            last = ", ".join(f"{label} {percent(values[-1])}" for label, values in known.items())
            title = f"{what} at the last kept epoch: {last}"
            drawing = plots.epoch_curves(name, epochs, known, ylabel=ylabel, title=title, marks=marks)
            found.append((f"{what}, for each kept epoch's encoder alone (as Figure 4 of Merkx & Frank 2019)", drawing))
    return found
