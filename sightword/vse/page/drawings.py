"""The drawings of the page: training curves, correlations with those of published systems, and sentence pairs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from sightword.evaluation.published import Score
from sightword.report.drawing import (
    BLUE,
    GREEN,
    GREY,
    INK,
    LINES,
    ORANGE,
    WIDTH,
    Drawing,
    drawing_style,
    plain_axes,
    segments,
)
from sightword.report.inputs import Columns, RunNumbers, numbers
from sightword.report.number_formats import correlation, percent
from sightword.vse.page.tables import Panel

DIRECTIONS = {"caption_to_image": "from caption to picture", "image_to_caption": "from picture to captions"}
EPOCHS = {
    "caption_to_image_r10": "R@10 to picture",
    "image_to_caption_r10": "R@10 to caption",
    "semantics": "semantics",
}
"""The labels of the scores that are drawn together; each other column of the table is a task."""
SYSTEMS = ((BLUE, "o", 5.0), (ORANGE, "s", 3.6), (GREEN, "^", 4.0), (GREY, "D", 3.0))


def curves(run: RunNumbers) -> list[tuple[str, Drawing]]:
    """Return captions and drawings of the run's curves with two points or more."""
    drawn = []
    columns, where = run.curves.get("loss", {"step": [], "loss": []}), "plots/train/loss.tsv"
    steps, values = numbers(columns, "step", where=where), numbers(columns, "loss", where=where)
    if len(steps) > 1:
        title = f"Loss over {len(steps):,} steps, from {values[0]:.3g} to {values[-1]:.3g}"
        drawn.append(("Loss", curve(steps, values, title)))
    if "recall" in run.curves:
        for direction, words in DIRECTIONS.items():
            labels = {f"{direction}_r{k}": f"R@{k}" for k in (1, 5, 10)}
            known = {name: label for name, label in labels.items() if name in run.curves["recall"]}
            title = f"Recall {words}, on dev"
            drawn += _epochs(
                *("plots/train/recall.tsv", f"recall_{direction}", run.curves["recall"], known),
                *(title, "recall on dev (%)"),
            )
    tasks = [name for name in run.epochs if name not in ("epoch", *EPOCHS)]
    parts = [("epochs", "Recall@10 on dev and the mean of 100 r over the tasks", "percent, 100 r", EPOCHS)]
    for start in range(0, len(tasks), LINES):
        names = {name: name for name in tasks[start : start + LINES]}
        parts.append((f"tasks{start}", "100 times Pearson's r of each task", "100 r", names))
    for name, what, ylabel, labels in parts if run.epochs else ():
        title = f"{what}, for each kept epoch's encoder alone (as Figure 4 of Merkx & Frank 2019)"
        drawn += _epochs(*("plots/epochs/epochs.tsv", name, run.epochs, labels, title, ylabel))
    return drawn


def _epochs(
    where: str, name: str, columns: Columns, labels: Mapping[str, str], title: str, ylabel: str
) -> list[tuple[str, Drawing]]:
    """Draw the columns with labels over the epochs; nothing for one epoch, or for columns without a number."""
    epochs = numbers(columns, "epoch", where=where)
    series = {label: numbers(columns, key, where=where, blanks=True) for key, label in labels.items()}
    known = {label: values for label, values in series.items() if not all(map(math.isnan, values))}
    if len(epochs) < 2 or not known:
        return []
    last = ", ".join(f"{label} {percent(values[-1])}" for label, values in known.items())
    spoken = f"{title.partition(',')[0]} at the last epoch: {last}"
    return [(title, epoch_curves(name, epochs, known, ylabel=ylabel, title=spoken))]


def curve(x: Sequence[float], y: Sequence[float], title: str) -> Drawing:
    """Draw the loss over ascending steps; long lines by the mean and the range of segments."""
    with drawing_style("loss"):
        figure, axes = plain_axes(2.7, "step", "loss")
        middle_x, middle, low, high = segments(np.asarray(x, dtype=float), np.asarray(y, dtype=float))
        if len(middle) < len(y):
            axes.fill_between(middle_x, low, high, color=BLUE, alpha=0.25, linewidth=0)
        axes.plot(middle_x, middle, color=BLUE)
        _frame(axes, high)
        return Drawing("loss", title, figure, ("training loss", y))


def epoch_curves(
    name: str,
    epochs: Sequence[float],
    series: Mapping[str, Sequence[float]],
    *,
    ylabel: str,
    title: str,
) -> Drawing:
    """Draw one line for each of at most :data:`LINES` series, values by label, over the epochs; NaN is left out."""
    with drawing_style(name):
        figure, axes = plain_axes(2.5 + 0.2 * -(-len(series) // 3), "epoch", ylabel)
        for place, (label, values) in enumerate(series.items()):
            dashes = ("-", "--", ":")[sum(divmod(place, 3)) % 3]  # neighbours differ in all three: equal lines show
            colour, marker = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"))[place % 3]
            axes.plot(epochs, values, color=colour, marker=marker, markersize=4, linestyle=dashes, label=label)
        _frame(axes, np.concatenate([*series.values()]))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.legend(loc="outside upper left", ncols=min(3, len(series)), handlelength=1.8)
        first = next(iter(series)) if name == "recall_caption_to_image" else ""
        return Drawing(
            name, title, figure, (f"{first} on dev (%), caption to picture", series[first]) if first else None
        )


def systems(rows: Sequence[tuple[str, Mapping[str, Score]]]) -> Drawing:
    """Draw Figure 3 of Merkx & Frank (2019): Pearson's r of each subtask with its interval, for up to four systems."""
    names = list(dict.fromkeys(system for _, scores in rows for system in scores))
    with drawing_style("systems"):
        figure, axes = plain_axes(0.9 + 0.3 * len(rows), "Pearson's r, with its 95 % interval", "")
        for number, (system, (colour, marker, size)) in enumerate(zip(names, SYSTEMS, strict=False)):
            shift = 0.2 * (number - (len(names) - 1) / 2)
            points = [(place + shift, scores[system]) for place, (_, scores) in enumerate(rows) if system in scores]
            spans = [(place, score.r, score.low, score.high) for place, score in points]
            places, values, lows, highs = np.array(spans).T
            errors = np.maximum([values - lows, highs - values], 0)
            looks: Any = {"color": colour, "markersize": size, "elinewidth": 1.3, "label": system}
            axes.errorbar(values, places, xerr=errors, fmt=marker, **looks)
        axes.set_yticks(range(len(rows)), [name for name, _ in rows])
        axes.tick_params(axis="y", length=0, labelsize=7.5)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        figure.legend(loc="outside upper center", ncols=2, fontsize=8)
        axes.set_xlim(min(0.0, *(score.low for _, scores in rows for score in scores.values())), 1.0)
        for place in range(1, len(rows)):
            axes.axhline(place - 0.5, color=INK, alpha=0.1, linewidth=0.6)
        title = f"Pearson's r of {len(rows)} subtasks for {', '.join(names)}, with 95 % intervals"
        return Drawing("systems", title, figure)


def scatter(panels: Sequence[Panel]) -> Drawing:
    """Draw cosine against gold score in a panel for each data set; orange if a sentence was seen in training."""
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    with drawing_style("scatter"):
        figure = Figure(figsize=(WIDTH, 0.4 + 1.75 * rows), layout="constrained")
        grid: Any = figure.subplots(rows, columns, squeeze=False, sharey=True)
        for axes, panel in itertools.zip_longest(grid.flat, panels):
            if panel is None:
                axes.set_visible(False)
                continue
            for chosen, colour in ((~panel.seen, BLUE), (panel.seen, ORANGE)):
                _dots(axes, panel.gold[chosen], panel.score[chosen], colour)
            axes.set_title(panel.task + ("" if panel.pearson is None else f", r = {panel.pearson:.3f}"), fontsize=8.5)
            axes.tick_params(labelsize=8)
            axes.margins(0.04)
        figure.supxlabel("human score", fontsize=9)
        figure.supylabel("cosine", fontsize=9)
        summary = ", ".join(f"{panel.task} {correlation(panel.pearson, 'none')}" for panel in panels)
        return Drawing("scatter", f"Cosine vs human score; Pearson's r over all pairs: {summary}", figure)


def _dots(axes: Any, x: NDArray[np.float64], y: NDArray[np.float64], colour: str) -> None:
    """Draw dots as one path of very short lines with round ends, which takes a tenth of the bytes of markers."""
    gaps = np.full(len(x), np.nan)
    across = np.column_stack([x, x + 1e-6, gaps]).ravel()
    up = np.column_stack([y, y, gaps]).ravel()
    (line,) = axes.plot(across, up, color=colour, linewidth=2.2, alpha=0.6, solid_capstyle="round")
    line.get_path().should_simplify = False
    line.set_snap(False)  # snapping to pixels would remove the lines


def _frame(axes: Any, y: NDArray[np.float64]) -> None:
    """Set the limits of the y axis: from 0 or below, with space above the highest marker."""
    known = y[np.isfinite(y)]
    if len(known) and known.min() >= 0:
        axes.set_ylim(0, 1.07 * known.max() or 1.0)
