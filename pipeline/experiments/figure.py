"""The drawing of a grid of experiments, as Figure 2 of Merkx & Frank (2019)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from sightword.report.drawing import BLUE, GREEN, GREY, ORANGE, WIDTH, Drawing, drawing_style

LOOKS = tuple(itertools.product(("-", "--", ":"), ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (GREY, "D"))))
"""Dashes, and colour with marker, of each line, in this order."""


Points = Sequence[tuple[float, float, float | None]]
"""The scores of one setting: ascending values of the varied parameter, each with the mean score over seeds and the
sample standard deviation, which is None for a single seed."""


def grid(panels: Mapping[str, Mapping[str, Points]], *, xlabel: str) -> Drawing:
    """Return a panel for each score, with a line for each setting; bars are one standard deviation over seeds.

    Args:
        panels: the points by score and setting; at most as many settings as :data:`LOOKS`.
        xlabel: the varied parameter, along the x axis.
    """
    labels = list(dict.fromkeys(label for lines in panels.values() for label in lines))
    looks = dict(zip(labels, LOOKS, strict=False))
    ticks = sorted({x for lines in panels.values() for points in lines.values() for x, _, _ in points})
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    with drawing_style("grid"):
        size = (WIDTH * (1 if columns == 1 else 1.6), 0.5 + 0.2 * -(-len(labels) // 2) + 2.1 * rows)
        figure = Figure(figsize=size, layout="constrained")
        every: Any = figure.subplots(rows, columns, squeeze=False)
        for axes in every.flat[len(panels) :]:
            axes.set_visible(False)
        for axes, (name, lines) in zip(every.flat, panels.items(), strict=False):
            for label, points in lines.items():
                dashes, (colour, marker) = looks[label]
                x, means, deviations = zip(*points, strict=True)
                bars = [math.nan if value is None else value for value in deviations]
                axes.errorbar(
                    x, means, yerr=bars, color=colour, marker=marker, markersize=4.5, linestyle=dashes,
                    capsize=2, label=label if axes is every.flat[0] else None,
                )  # fmt: skip
            axes.set_title(name, fontsize=9)
            axes.set_xticks(ticks)
            axes.tick_params(labelsize=8)
        figure.supxlabel(xlabel, fontsize=9)
        if labels != [""]:
            figure.legend(loc="outside upper center", ncols=2, fontsize=8)
        texts = []
        for name, lines in panels.items():
            best = {label: max(mean for _, mean, _ in points) for label, points in lines.items()}
            texts.append(f"{name}: " + ", ".join(f"{label} {mean:.3g} at best".strip() for label, mean in best.items()))
        return Drawing("grid", f"Scores over {xlabel}: {'; '.join(texts)}", figure)
