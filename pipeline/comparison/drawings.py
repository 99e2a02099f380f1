"""Drawings of two runs: differences with their intervals, and curves over each other. A is blue, B orange."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pipeline.comparison.systems import Better
from sightword.report.drawing import BLUE, GREY, INK, ORANGE, WIDTH, Drawing, Spanned, draw_spanned, drawing_style

LOOKS: dict[Better, tuple[str, str, str]] = {
    "A": (BLUE, "o", "A is better beyond chance"),
    "B": (ORANGE, "s", "B is better beyond chance"),
    None: (GREY, "D", "could be chance"),
}
"""Colour, marker and words by who is better."""


@dataclass(frozen=True)
class Gap:
    """A difference A - B with its 95 % interval."""

    label: str
    value: float
    low: float
    high: float
    better: Better


@dataclass(frozen=True)
class Line:
    """A curve of one of the two."""

    label: str
    x: Sequence[float]
    y: Sequence[float]


def gaps(name: str, rows: Sequence[Gap], *, xlabel: str, title: str) -> Drawing:
    """Differences as points with their intervals, from top to bottom.

    Args:
        name: tells this drawing's ids from the others' in the page.
        rows: one or more.
        xlabel: what is differed.
        title: what a screen reader says.
    """
    with drawing_style(name):
        figure = Figure(figsize=(WIDTH, 0.95 + 0.22 * len(rows)), layout="constrained")
        axes = figure.add_subplot()
        for better, (colour, marker, words) in LOOKS.items():
            points = [
                Spanned(place, row.value, row.low, row.high) for place, row in enumerate(rows) if row.better == better
            ]
            draw_spanned(axes, points, (colour, marker, 4.5), label=words)
        axes.axvline(0.0, color=INK, linewidth=0.8)
        axes.set_yticks(range(len(rows)), [row.label for row in rows])
        axes.tick_params(axis="y", length=0, labelsize=8)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(xlabel)
        figure.legend(loc="outside upper center", ncols=1, fontsize=8)
        return Drawing(name, title, figure)


def curves(
    name: str, lines: Sequence[tuple[str, Line]], *, xlabel: str, ylabel: str, title: str, log: bool = False
) -> Drawing:
    """Curves of A and B in one drawing.

    Args:
        name: as for :func:`gaps`.
        lines: whose (``A`` or ``B``) and the curve; several of one run differ by dashes.
        xlabel: what x counts.
        ylabel: what y is.
        title: what a screen reader says.
        log: whether the y axis is logarithmic.
    """
    looks = {"A": BLUE, "B": ORANGE}
    dashes = ("-", "--", ":")
    with drawing_style(name):
        figure = Figure(figsize=(WIDTH, 2.9), layout="constrained")
        axes = figure.add_subplot()
        drawn = dict.fromkeys(looks, 0)
        for side, line in lines:
            style = dashes[drawn[side] % len(dashes)]
            drawn[side] += 1
            marker = "o" if len(line.x) == 1 else None
            axes.plot(line.x, line.y, color=looks[side], linestyle=style, marker=marker, label=f"{side} {line.label}")
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)
        if log:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter("")
        else:
            axes.set_ylim(bottom=0)
        if all(float(x).is_integer() for _, line in lines for x in line.x):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.legend(loc="outside upper left", ncols=2, handlelength=1.8, fontsize=8)
        return Drawing(name, title, figure)
