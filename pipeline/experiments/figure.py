"""The drawing of a grid of experiments, as Figure 2 of Merkx & Frank (2019)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from sightword.report.drawing import BLUE, GREEN, GREY, ORANGE, WIDTH, Drawing, drawing_style

LOOKS = tuple(itertools.product(("-", "--", ":"), ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (GREY, "D"))))
"""Dashes, and colour with marker, of each line, in this order."""


@dataclass(frozen=True)
class Series:
    """The scores of one setting."""

    label: str
    """The setting."""
    x: Sequence[float]
    """The values of the varied parameter, ascending."""
    mean: Sequence[float]
    """The mean score over seeds for each value."""
    deviation: Sequence[float | None]
    """The sample standard deviation; None for a single seed."""


def grid(panels: Mapping[str, Sequence[Series]], *, xlabel: str) -> Drawing:
    """Return a panel for each score, with a line for each setting; bars are one standard deviation over seeds.

    Args:
        panels: the lines by the score's name; at most as many settings as :data:`LOOKS`.
        xlabel: the varied parameter, along the x axis.
    """
    labels = list(dict.fromkeys(one.label for lines in panels.values() for one in lines))
    looks = dict(zip(labels, LOOKS, strict=False))
    ticks = sorted({x for lines in panels.values() for one in lines for x in one.x})
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    with drawing_style("grid"):
        size = (WIDTH * (1 if columns == 1 else 1.6), 0.5 + 0.2 * -(-len(labels) // 2) + 2.1 * rows)
        figure = Figure(figsize=size, layout="constrained")
        every: Any = figure.subplots(rows, columns, squeeze=False)
        for axes in every.flat[len(panels) :]:
            axes.set_visible(False)
        for axes, (name, lines) in zip(every.flat, panels.items(), strict=False):
            for one in lines:
                dashes, (colour, marker) = looks[one.label]
                bars = [math.nan if value is None else value for value in one.deviation]
                axes.errorbar(
                    one.x, one.mean, yerr=bars, color=colour, marker=marker, markersize=4.5, linestyle=dashes,
                    capsize=2, label=one.label if axes is every.flat[0] else None,
                )  # fmt: skip
            axes.set_title(name, fontsize=9)
            axes.set_xticks(ticks)
            axes.tick_params(labelsize=8)
        figure.supxlabel(xlabel, fontsize=9)
        if labels != [""]:
            figure.legend(loc="outside upper center", ncols=2, fontsize=8)
        best = "; ".join(
            f"{name}: " + ", ".join(f"{one.label} {max(one.mean):.3g} at best".strip() for one in lines)
            for name, lines in panels.items()
        )
        return Drawing("grid", f"Scores over {xlabel}: {best}", figure)
