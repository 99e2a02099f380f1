"""Draws training curves and correlations."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from sightword.report.drawing import BLUE, GREEN, INK, ORANGE, WIDTH, Drawing, Spanned, draw_spanned, drawing_style

POINTS = 300
"""The largest number of points in a curve; longer curves are drawn by the mean and range of this many segments."""


@dataclass(frozen=True)
class Marks:
    """The snapshots' positions on the x axis.

    Attributes:
        kept: all snapshots, drawn as ticks inside the lower edge.
        chosen: the snapshots in the encoder, drawn as dashed lines.
    """

    kept: Sequence[float] = ()
    chosen: Sequence[float] = ()

    def scaled(self, factor: float) -> Marks:
        """Return the marks scaled to another x axis."""
        return Marks([place * factor for place in self.kept], [place * factor for place in self.chosen])


@dataclass(frozen=True)
class Interval:
    """One row of the drawing of correlations.

    Attributes:
        label: the row's name.
        group: the data set.
        value: the correlation.
        low: lower end of its 95 % interval.
        high: upper end.
        seen: whether much of its text was seen in training.
    """

    label: str
    group: str
    value: float
    low: float
    high: float
    seen: bool = False


def curve(
    name: str,
    x: Sequence[float],
    y: Sequence[float],
    *,
    xlabel: str,
    ylabel: str,
    title: str,
    marks: Marks = Marks(),
) -> Drawing:
    """Draw one line over steps or epochs; long lines by the mean and the range of segments.

    Args:
        name: the prefix of the drawing's ids in the page.
        x: ascending positions.
        y: the value at each position.
        xlabel: the label of the x axis.
        ylabel: the label of the y axis.
        title: the text for screen readers.
        marks: the snapshots' steps.
    """
    with drawing_style(name):
        figure = Figure(figsize=(WIDTH, 2.7), layout="constrained")
        axes = figure.add_subplot()
        middle_x, middle, low, high = segments(np.asarray(x, dtype=float), np.asarray(y, dtype=float))
        if len(middle) < len(y):
            axes.fill_between(middle_x, low, high, color=BLUE, alpha=0.25, linewidth=0)
        axes.plot(middle_x, middle, color=BLUE, marker="o" if len(middle) == 1 else None)
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)
        _frame(axes, x, high)
        _mark(axes, marks)
        return Drawing(name, title, figure)


LINES = 9
"""The most distinguishable lines in a drawing over epochs, by colour, marker and dashes."""


def epoch_curves(
    name: str,
    epochs: Sequence[float],
    series: Mapping[str, Sequence[float]],
    *,
    ylabel: str,
    title: str,
    marks: Marks = Marks(),
) -> Drawing:
    """Draw one line for each of at most :data:`LINES` series over the epochs.

    Args:
        name: as for :func:`curve`.
        epochs: the epochs.
        series: the value at each epoch, by label; NaN is left out.
        ylabel: the label of the y axis.
        title: the text for screen readers.
        marks: the snapshots' epochs.
    """
    with drawing_style(name):
        rows = -(-len(series) // 3)
        figure = Figure(figsize=(WIDTH, 2.5 + 0.2 * rows), layout="constrained")
        axes = figure.add_subplot()
        looks = itertools.product(("-", "--", ":"), zip((BLUE, ORANGE, GREEN), ("o", "s", "^"), strict=True))
        for (label, values), (dashes, (colour, marker)) in zip(series.items(), looks, strict=False):
            axes.plot(epochs, values, color=colour, marker=marker, markersize=4, linestyle=dashes, label=label)
        axes.set_xlabel("epoch")
        axes.set_ylabel(ylabel)
        _frame(axes, epochs, np.concatenate([*series.values()]))
        _mark(axes, marks)
        if len(set(epochs)) > 1:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.legend(loc="outside upper left", ncols=min(3, len(series)), handlelength=1.8)
        return Drawing(name, title, figure)


def intervals(name: str, rows: Sequence[Interval], *, title: str) -> Drawing:
    """Draw correlations as points with their 95 % intervals, grouped by data set.

    Args:
        name: as for :func:`curve`.
        rows: the rows from top to bottom.
        title: the text for screen readers.
    """
    with drawing_style(name):
        places, position, group = [], 0.0, None
        for row in rows:
            position += 1.6 if group not in (None, row.group) else 1.0
            group = row.group
            places.append(position)
        figure = Figure(figsize=(WIDTH, 0.75 + 0.21 * (position + 1)), layout="constrained")
        axes = figure.add_subplot()
        for seen, colour, marker, label in (
            (False, BLUE, "o", "little or nothing seen in training"),
            (True, ORANGE, "s", "a tenth or more seen in training"),
        ):
            points = [
                Spanned(place, row.value, row.low, row.high)
                for row, place in zip(rows, places, strict=True)
                if row.seen == seen
            ]
            draw_spanned(axes, points, (colour, marker, 4.5), label=label)
        axes.set_yticks(places, [f"{row.group} {row.label}".strip() for row in rows])
        axes.tick_params(axis="y", length=0, labelsize=8)
        axes.set_ylim(position + 0.8, 0.2)
        axes.set_xlim(min(0.0, *(row.low for row in rows)), 1.0)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("Pearson r, with its 95 % interval")
        if any(row.seen for row in rows):
            figure.legend(loc="outside upper center", ncols=1, fontsize=8)
        return Drawing(name, title, figure)


def _frame(axes: Any, x: Sequence[float], y: NDArray[np.float64]) -> None:
    """Set the axes' limits: from 0 or below, with space above the highest marker and around a single point."""
    known = y[np.isfinite(y)]
    if len(known) and known.min() >= 0:
        axes.set_ylim(0, 1.07 * known.max() or 1.0)
    if len(set(x)) == 1:
        axes.set_xlim(x[0] - 1, x[0] + 1)
        axes.set_xticks([x[0]], [f"{x[0]:g}"])


def _mark(axes: Any, marks: Marks) -> None:
    for place in marks.chosen:
        axes.axvline(place, color=INK, alpha=0.45, linewidth=0.9, linestyle=(0, (3, 3)))
    if marks.kept:
        low_edge = axes.get_xaxis_transform()
        axes.plot(marks.kept, [0.025] * len(marks.kept), "|", color=INK, markersize=6, transform=low_edge)


def segments(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return mean position, mean, least and largest value of at most ``POINTS`` segments of a curve."""
    if len(y) <= POINTS:
        return x, y, y, y
    cuts = np.linspace(0, len(y), POINTS + 1).astype(int)
    pairs = list(itertools.pairwise(cuts))
    return (
        np.array([x[a:b].mean() for a, b in pairs]),
        np.array([y[a:b].mean() for a, b in pairs]),
        np.array([y[a:b].min() for a, b in pairs]),
        np.array([y[a:b].max() for a, b in pairs]),
    )
