"""Drawings of the page: curves, the energies of true and false pairs, accuracy by depth, and concepts in the plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, ScalarFormatter
from numpy.typing import NDArray

from sightword.report.drawing import BLUE, GREEN, GREY, ORANGE, WIDTH, Drawing, drawing_style
from sightword.report.number_formats import FEW

Array = NDArray[Any]
BINS = 40


def line(name: str, rows: Sequence[Sequence[float]], labels: tuple[str, str], title: str) -> Drawing:
    """Draw (x, y) rows as one line."""
    with drawing_style(name):
        figure = Figure(figsize=(WIDTH, 2.7), layout="constrained")
        axes = figure.add_subplot()
        axes.plot(
            [row[0] for row in rows], [row[1] for row in rows], color=BLUE, marker="o" if len(rows) == 1 else None
        )
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1])
        return Drawing(name, title, figure)


def histogram(energies: Array, labels: Array) -> list[tuple[float, float, int, int]]:
    """Return (from, to, true pairs, false pairs) of equal steps to the 99th percentile; the last one has the rest."""
    top = float(np.quantile(energies, 0.99))
    edges = np.linspace(float(energies.min()), max(top, float(energies.min()) + 1e-6), BINS + 1)
    within = np.clip(energies, edges[0], edges[-1])
    counts = [np.histogram(within[part], edges)[0] for part in (labels, ~labels)]
    return [(float(edges[i]), float(edges[i + 1]), int(counts[0][i]), int(counts[1][i])) for i in range(BINS)]


def energies(
    rows: Sequence[tuple[float, float, int, int]], threshold: float, names: tuple[str, str] = ("true", "false")
) -> Drawing:
    """Draw the rows of :func:`histogram` with the threshold; the counts are on a logarithmic axis.

    ``names`` are those of the pairs that should lie below and above the threshold.
    """
    with drawing_style("energies"):
        figure = Figure(figsize=(WIDTH, 2.7), layout="constrained")
        axes = figure.add_subplot()
        edges = [row[0] for row in rows] + [rows[-1][1]]
        for column, colour, label in ((2, GREEN, names[0]), (3, ORANGE, names[1])):
            axes.stairs([row[column] for row in rows], edges, color=colour, label=label, linewidth=1.6)
        axes.axvline(threshold, color=GREY, linestyle="--", label="threshold")
        axes.set_yscale("symlog", linthresh=1)
        axes.yaxis.set_major_formatter(ScalarFormatter())
        axes.set_ylim(0, None)
        axes.set_xlabel("energy")
        axes.set_ylabel("pairs")
        axes.legend()
        return Drawing("energies", f"Energies of {names[0]} and of {names[1]} pairs, with the threshold.", figure)


def accuracies(name: str, rows: Sequence[tuple[int, float, int]], xlabel: str, title: str) -> Drawing:
    """Draw (value, accuracy, pairs) rows with enough pairs as points."""
    with drawing_style(name):
        figure = Figure(figsize=(WIDTH, 2.7), layout="constrained")
        axes = figure.add_subplot()
        shown = [row for row in rows if row[2] >= FEW]
        axes.plot([row[0] for row in shown], [row[1] for row in shown], "o-", color=BLUE)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel(xlabel)
        axes.set_ylabel("accuracy (%)")
        return Drawing(name, title, figure)


def plane(points: Mapping[str, tuple[float, float]], edges: Sequence[tuple[str, str]]) -> Drawing:
    """Draw concepts as points and their direct edges, as Figure 2 of Vendrov et al. (2016)."""
    with drawing_style("plane"):
        figure = Figure(figsize=(2 * WIDTH, 6.4), layout="constrained")
        axes = figure.add_subplot()
        for low, high in edges:
            arrow = {"arrowstyle": "->", "color": GREY, "linewidth": 0.8, "shrinkA": 3, "shrinkB": 3}
            axes.annotate("", points[high], points[low], arrowprops=arrow)
        places = np.array(list(points.values()))
        axes.plot(places[:, 0], places[:, 1], "o", color=BLUE, markersize=4)
        taken: list[tuple[float, float]] = []
        span = np.ptp(places, axis=0) + 1e-9
        for name in sorted(points, key=lambda one: points[one][::-1]):
            x, y = points[name]
            spot = y
            while any(abs(x - other) < 0.14 * span[0] and abs(spot - up) < 0.028 * span[1] for other, up in taken):
                spot += 0.01 * span[1]
            taken.append((x, spot))
            label = name.split(".n.")[0].replace("_", " ")
            axes.annotate(label, (x, spot), (4, 3), textcoords="offset points", fontsize=8)
        axes.margins(0.12, 0.08)
        title = f"{len(points)} concepts in the plane; an arrow leads from a concept to its direct hypernym."
        return Drawing("plane", title, figure)
