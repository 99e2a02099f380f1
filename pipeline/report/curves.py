"""The curves of a training, drawn from its tables."""

from __future__ import annotations

from pipeline.report import plots
from pipeline.report.figures import is_number
from pipeline.report.inputs import Columns, Run, numbers

DIRECTIONS = {"caption_to_image": "from caption to picture", "image_to_caption": "from picture to captions"}


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
        drawing = plots.recall_curve(
            direction,
            epochs,
            recalls,
            title=f"Recall {words} at the last epoch: {last}",
            marks=marks,
        )
        caption = f"Recall {words}, on dev" + ("; dashed: the chosen snapshots" if marks else "")
        found.append((caption, drawing))
    return found


def _chosen(run: Run) -> list[float]:
    """Epochs of the snapshots in the encoder, as far as its description tells them."""
    epochs = run.description.get("epochs")
    return [float(epoch) for epoch in epochs if is_number(epoch)] if isinstance(epochs, list) else []
