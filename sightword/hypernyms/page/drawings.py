"""Drawings of the page: accuracy by depth or distance."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sightword.report.drawing import BLUE, WIDTH, Drawing, drawing_style
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
