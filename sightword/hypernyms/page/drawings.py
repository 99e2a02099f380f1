"""Drawings of the page: accuracy by depth or distance, and concepts in the plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sightword.report.drawing import BLUE, GREY, WIDTH, Drawing, drawing_style
from sightword.report.number_formats import FEW


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
