"""Drawings of the page: accuracy by depth or distance, and concepts in the plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sightword.report.drawing import BLUE, GREY, ORANGE, WIDTH, Drawing, drawing_style
from sightword.report.number_formats import FEW

EQUAL = 0.2
"""Neighbouring coordinates that are nearer to each other are equal in the drawing; the margin of training is 1."""


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
    """Draw concepts and their direct edges, as Figure 2 of Vendrov et al. (2016).

    Each concept has a row and a column of its own. The places on an axis are the ranks of the coordinate, since only
    the order of coordinates has a meaning. Of coordinates without a gap of :data:`EQUAL` between them, a hypernym's
    comes first.
    """
    with drawing_style("plane"):
        figure = Figure(figsize=(2 * WIDTH, 1.2 + 0.19 * len(points)), layout="constrained")
        axes = figure.add_subplot()
        ranks = [_ranks({name: place[axis] for name, place in points.items()}, edges) for axis in (0, 1)]
        places = {name: (ranks[0][name], ranks[1][name]) for name in points}
        for low, high in edges:
            kept = all(axis[low] > axis[high] for axis in ranks)
            colour, dashes = (GREY, "-") if kept else (ORANGE, "--")
            arrow = {"arrowstyle": "->", "color": colour, "linestyle": dashes, "linewidth": 0.7, "shrinkB": 4}
            axes.annotate("", places[high], places[low], arrowprops=arrow)
        for name, place in places.items():
            axes.plot(*place, "o", color=BLUE, markersize=4)
            label = name.split(".n.")[0].replace("_", " ")
            axes.annotate(label, place, (4, -9), textcoords="offset points", fontsize=8)
        axes.margins(0.1, 0.04)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_xlabel("rank of the first number")
        axes.set_ylabel("rank of the second number")
        title = f"{len(points)} concepts in the plane; an arrow leads from a concept to its direct hypernym."
        return Drawing("plane", title, figure)


def _ranks(values: Mapping[str, float], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Return the place of each concept in the order of a coordinate."""
    above: dict[str, set[str]] = {name: set() for name in values}
    for low, high in edges:
        above[low].add(high)
    depths: dict[str, int] = {}

    def depth(name: str) -> int:
        if name not in depths:
            depths[name] = max((1 + depth(high) for high in above[name]), default=0)
        return depths[name]

    levels: list[list[str]] = []
    for name in sorted(values, key=values.__getitem__):
        if not levels or values[name] - values[levels[-1][-1]] >= EQUAL:
            levels.append([])
        levels[-1].append(name)
    ordered = [name for level in levels for name in sorted(level, key=depth)]
    return {name: place for place, name in enumerate(ordered)}
