"""The curves of a training, drawn from its tables."""

from __future__ import annotations

import math

from pipeline.report import plots
from pipeline.report.figures import is_number, percent
from pipeline.report.inputs import Columns, Run, numbers

DIRECTIONS = {"caption_to_image": "from caption to picture", "image_to_caption": "from picture to captions"}

DASHED = "; dashed: the chosen snapshots"


def draw(run: Run) -> list[tuple[str, str]]:
    """Captions and drawings of the curves that the run has; one without points is left out."""
    found = []
    for name, label in (("loss", "Loss"), ("learning_rate", "Learning rate")):
        columns = run.curves.get(name)
        if columns is None:
            continue
        where = f"plots/train/{name}.tsv"
        steps, values = numbers(columns, "step", where=where), numbers(columns, name, where=where)
        if steps:
            title = f"{label} over {len(steps):,} steps, from {values[0]:.3g} to {values[-1]:.3g}"
            found.append((label, plots.curve(name, steps, values, xlabel="step", ylabel=label.lower(), title=title)))
    if "recall" in run.curves:
        found += _recall(run.curves["recall"], _chosen(run))
    if run.epochs:
        found += _epochs(run.epochs, _chosen(run))
    return found


def _recall(columns: Columns, marks: list[float]) -> list[tuple[str, str]]:
    where = "plots/train/recall.tsv"
    epochs = numbers(columns, "epoch", where=where)
    found = []
    for direction, words in DIRECTIONS.items():
        names = {f"R@{k}": f"{direction}_r{k}" for k in (1, 5, 10)}
        recalls = {label: numbers(columns, name, where=where) for label, name in names.items() if name in columns}
        if not epochs or not recalls:
            continue
        last = ", ".join(f"{label} {series[-1]:.1f}" for label, series in recalls.items())
        drawing = plots.epoch_curves(
            direction,
            epochs,
            recalls,
            ylabel="recall on dev (%)",
            title=f"Recall {words} at the last epoch: {last}",
            marks=marks,
        )
        caption = f"Recall {words}, on dev" + (DASHED if marks else "")
        found.append((caption, drawing))
    return found


def _epochs(columns: Columns, marks: list[float]) -> list[tuple[str, str]]:
    """What each kept epoch's encoder reaches by itself: recall beside sentence similarity, then each task."""
    where = "plots/epochs/epochs.tsv"
    epochs = numbers(columns, "epoch", where=where)
    fixed = {
        "caption_to_image_r10": "R@10 to picture",
        "image_to_caption_r10": "R@10 to caption",
        "semantics": "semantics",
    }
    together = {label: numbers(columns, name, where=where, blanks=True) for name, label in fixed.items()}
    tasks = [name for name in columns if name not in ("epoch", *fixed)]
    drawings = [("epochs", "Recall@10 on dev and the mean of 100 r over the tasks", "percent, 100 r", together)]
    for start in range(0, len(tasks), plots.LINES):
        part = {name: numbers(columns, name, where=where, blanks=True) for name in tasks[start : start + plots.LINES]}
        drawings.append((f"tasks{start}", "100 times Pearson's r of each task", "100 r", part))
    found = []
    for name, what, ylabel, series in drawings:
        known = {label: values for label, values in series.items() if not all(map(math.isnan, values))}
        if known:
            last = ", ".join(
                f"{label} {percent(None if math.isnan(values[-1]) else values[-1])}" for label, values in known.items()
            )
            title = f"{what} at the last kept epoch: {last}"
            drawing = plots.epoch_curves(name, epochs, known, ylabel=ylabel, title=title, marks=marks)
            found.append((f"{what}, for each kept epoch's encoder alone" + (DASHED if marks else ""), drawing))
    return found


def _chosen(run: Run) -> list[float]:
    """Epochs of the snapshots in the encoder, as far as its description tells them."""
    epochs = run.description.get("epochs")
    return [float(epoch) for epoch in epochs if is_number(epoch)] if isinstance(epochs, list) else []
