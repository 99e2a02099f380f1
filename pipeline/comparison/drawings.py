"""Drawings of two runs: differences with their intervals, and both runs' curves. A is blue, B orange."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.ticker import MaxNLocator

from pipeline.comparison.systems import Better
from sightword.report.drawing import BLUE, GREY, INK, ORANGE, Drawing, Interval, Look, draw_rows, drawing_style
from sightword.report.plots import plain_axes

LOOKS: dict[Better, tuple[str, Look]] = {
    "A": ("A is significantly better", (BLUE, "o", 4.5)),
    "B": ("B is significantly better", (ORANGE, "s", 4.5)),
    None: ("could be chance", (GREY, "D", 4.5)),
    "equal": ("equal", (GREY, "|", 6.0)),
}
COLOURS = {"A": BLUE, "B": ORANGE}
DASHES = ("-", "--", ":")
"""The lines of one run, in turn."""


class Line(NamedTuple):
    """A curve of one run."""

    side: str
    """``A`` or ``B``."""
    label: str
    x: Sequence[float]
    y: Sequence[float]


def gaps(name: str, rows: Sequence[Interval], *, xlabel: str, title: str) -> Drawing:
    """Draw one or more differences A - B from top to bottom; the kind is the better system."""
    with drawing_style(name):
        figure, axes = draw_rows(
            list(enumerate(rows)), LOOKS, {place: row.label for place, row in enumerate(rows)},
            height=0.95 + 0.22 * len(rows), bottom=len(rows) - 0.4, top=-0.6, xlabel=xlabel,
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
