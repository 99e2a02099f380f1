"""Drawings of two runs: differences with their intervals, and both runs' curves. A is blue, B orange."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator

from pipeline.comparison.contrast import Contrast
from pipeline.comparison.correlations import Better, Row
from pipeline.comparison.recall import Recall
from pipeline.comparison.runs import CURVES
from pipeline.comparison.table import QUERIES
from sightword.report.drawing import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    Drawing,
    Interval,
    Look,
    draw_rows,
    drawing_style,
    plain_axes,
    segments,
)
from sightword.report.inputs import numbers, read_tsv

LOOKS: dict[Better, tuple[str, Look]] = {
    "A": ("A is significantly better", (BLUE, "o", 4.5)),
    "B": ("B is significantly better", (ORANGE, "s", 4.5)),
    None: ("could be chance", (GREY, "D", 4.5)),
    "equal": ("equal", (GREY, "|", 6.0)),
}
COLOURS = {"A": BLUE, "B": ORANGE}
DASHES = ("-", "--", ":")
"""The lines of one run, in turn."""
FAR = 10
"""Losses of two runs whose largest values differ by this factor are of different kinds."""


class Line(NamedTuple):
    """A curve of one run."""

    side: str
    """``A`` or ``B``."""
    label: str
    x: Sequence[float]
    y: Sequence[float]


def gaps(name: str, rows: Sequence[Interval], what: str, title: str) -> Drawing:
    """Draw one or more differences A - B from top to bottom; the kind is the better system."""
    with drawing_style(name):
        figure, axes = draw_rows(
            list(enumerate(rows)), LOOKS, {place: row.label for place, row in enumerate(rows)},
            height=0.95 + 0.22 * len(rows), bottom=len(rows) - 0.4, top=-0.6, xlabel=f"{what}, with its 95 % interval",
        )  # fmt: skip
        axes.axvline(0.0, color=INK, linewidth=0.8)
        return Drawing(name, title, figure)


def curves(name: str, lines: Sequence[Line], *, xlabel: str, ylabel: str, title: str, log: bool = False) -> Drawing:
    """Draw curves of A and B together; several of one run differ by dashes. ``log``: the y axis is logarithmic."""
    with drawing_style(name):
        figure, axes = plain_axes(2.9, xlabel, ylabel)
        drawn = dict.fromkeys(COLOURS, 0)
        for side, label, x, y in lines:
            dashes = DASHES[drawn[side] % len(DASHES)]
            axes.plot(x, y, color=COLOURS[side], linestyle=dashes, label=f"{side} {label}")
            drawn[side] += 1
        if log:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter("")
        else:
            axes.set_ylim(bottom=0)
        if all(float(x).is_integer() for line in lines for x in line.x):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.legend(loc="outside upper left", ncols=2, handlelength=1.8, fontsize=8)
        return Drawing(name, title, figure)


def recall_gaps(rows: Sequence[Recall]) -> Drawing | None:
    """Draw the differences of recalls; None without intervals."""
    known = [
        Interval(f"{QUERIES[row.direction]}, R@{row.depth}", row.difference, *row.interval, row.better)
        for row in rows
        if row.interval is not None
    ]
    title = "Differences of recalls in percent: " + ", ".join(f"{gap.label} {gap.value:+.1f}" for gap in known)
    return gaps("recall_gaps", known, "A − B in percent", title) if known else None


def semantic_gaps(rows: Sequence[Row]) -> Drawing | None:
    """Draw the differences of correlations; None without intervals."""
    known = [
        Interval(f"{row.task} {row.subtask}", row.difference, row.bootstrap.low, row.bootstrap.high, row.better)
        for row in rows
        if row.bootstrap is not None and row.difference is not None
    ]
    title = f"Differences of Pearson's r on {len(known)} sets of sentence pairs; the numbers are in the table"
    return gaps("semantic_gaps", known, "A − B of Pearson's r", title) if known else None


def both_curves(contrast: Contrast) -> list[tuple[str, Drawing]]:
    """Return captions and drawings of the loss, and of recall@10 on dev, of both runs, as far as there are curves."""
    drawn = []
    losses = [
        line._replace(x=x.tolist(), y=y.tolist())
        for line in _lines(contrast, CURVES[0], "step", {"loss": ""})
        for x, y, *_ in [segments(np.array(line.x), np.array(line.y))]
    ]
    if losses:
        log = _far_apart([line.y for line in losses])
        caption = "Loss, logarithmic: the two are on other scales, so only their courses compare" if log else "Loss"
        title = f"Loss of both runs, at the end {_last(losses)}"
        drawing = curves("loss_both", losses, xlabel="step", ylabel="loss", title=title, log=log)
        drawn.append((caption, drawing))
    names = {"caption_to_image_r10": "to picture", "image_to_caption_r10": "to caption"}
    recalls = _lines(contrast, CURVES[1], "epoch", names)
    if recalls:
        title = f"Recall@10 on dev of both runs, at the end {_last(recalls)}"
        drawing = curves("recall_both", recalls, xlabel="epoch", ylabel="percent", title=title)
        drawn.append(("Recall@10 on dev", drawing))
    return drawn


def _lines(contrast: Contrast, path: Path, x: str, names: dict[str, str]) -> list[Line]:
    """Return the columns of both runs' tables as curves of two points or more; the labels are by the columns' names."""
    found = []
    for side in (contrast.a, contrast.b):
        file, where = side.file(path), f"{path} of {side.name}"
        columns = read_tsv(file) if file else {}
        for name, label in names.items():
            if columns and (name in columns or x == "step"):  # a table of the loss without the loss is an error
                xs, ys = (numbers(columns, column, where=where) for column in (x, name))
                found.append(Line(side.label, label, xs, ys))
    return [line for line in found if len(line.x) > 1]


def _last(lines: Sequence[Line]) -> str:
    return ", ".join(f"{line.side} {line.label} {line.y[-1]:.3g}".replace("  ", " ") for line in lines)


def _far_apart(series: Sequence[Sequence[float]]) -> bool:
    """Return whether one of some positive series would be flat at the bottom beside the others."""
    most = [max(values) for values in series]
    return max(most) > FAR * min(most) and min(min(values) for values in series) > 0
