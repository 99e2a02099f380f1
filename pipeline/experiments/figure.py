"""Figure 2 of Merkx & Frank (2019): what scores depend on, over a grid of trainings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from sightword.report.drawing import BLUE, GREEN, GREY, ORANGE, WIDTH, Drawing, drawing_style

LOOKS = tuple(
    (colour, marker, dashes)
    for dashes, (colour, marker) in itertools.product(
        ("-", "--", ":"), ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (GREY, "D"))
    )
)
"""Colour, marker and dashes of each line, in this order."""


@dataclass(frozen=True)
class Series:
    """What one kind of training reaches.

    Attributes:
        label: the kind.
        x: the values of what is varied, ascending.
        mean: the mean score over seeds at each of them.
        deviation: its sample standard deviation; None of a single seed.
    """

    label: str
    x: Sequence[float]
    mean: Sequence[float]
    deviation: Sequence[float | None]


def grid(panels: Mapping[str, Sequence[Series]], *, xlabel: str) -> Drawing:
    """A panel for each score, a line for each kind of training; bars are one standard deviation over seeds, and a
    single seed has none.

    Args:
        panels: the lines by the score's name; at most as many in a panel as :data:`LOOKS`.
        xlabel: what is varied along the x axis.
    """
    labels = list(dict.fromkeys(one.label for lines in panels.values() for one in lines))
    looks = dict(zip(labels, LOOKS, strict=False))
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    with drawing_style("grid"):
        size = (WIDTH * (1 if columns == 1 else 1.6), 0.5 + 0.2 * -(-len(labels) // 2) + 2.1 * rows)
        figure = Figure(figsize=size, layout="constrained")
        every: Any = figure.subplots(rows, columns, squeeze=False)
        for number, axes in enumerate(every.flat):
            if number >= len(panels):
                axes.set_visible(False)
                continue
            name = list(panels)[number]
            for one in panels[name]:
                colour, marker, dashes = looks[one.label]
                bars = [math.nan if value is None else value for value in one.deviation]
                axes.errorbar(
                    one.x, one.mean, yerr=bars, color=colour, marker=marker,
                    markersize=4.5, linestyle=dashes, capsize=2, label=one.label if number == 0 else None,
                )  # fmt: skip
            axes.set_title(name, fontsize=9)
            axes.set_xticks(sorted({x for lines in panels.values() for one in lines for x in one.x}))
            axes.tick_params(labelsize=8)
        figure.supxlabel(xlabel, fontsize=9)
        if labels != [""]:
            figure.legend(loc="outside upper center", ncols=2, fontsize=8)
        told = "; ".join(
            f"{name}: " + ", ".join(f"{one.label} {max(one.mean):.3g} at best".strip() for one in lines)
            for name, lines in panels.items()
        )
        return Drawing("grid", f"Scores over {xlabel}: {told}", figure)
