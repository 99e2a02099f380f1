"""Draws semantic scores: comparison with published systems, scatter plots, disagreement by range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sightword.report.drawing import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    WIDTH,
    Drawing,
    Spanned,
    draw_spanned,
    drawing_style,
)
from sightword.report.number_formats import counted
from sightword.report.sentence_pairs import Bin, Panel
from sightword.semantics.published import Score

MARKERS = ((BLUE, "o", 5.0), (ORANGE, "s", 3.6), (GREEN, "^", 4.0), (GREY, "D", 3.0))
"""Colour, marker and size of each system."""
FEW = 30
"""A mean over fewer pairs is pale."""
NOTHING = 1 / 3
"""The mean rank difference of two unrelated rankings."""


def systems(rows: Sequence[tuple[str, Mapping[str, Score]]]) -> Drawing:
    """Draw Figure 3 of Merkx & Frank (2019): Pearson's r of each subtask with its interval, for several systems.

    Args:
        rows: subtasks from top to bottom, each with the scores of at most four systems.
    """
    names = list(dict.fromkeys(system for _, scores in rows for system in scores))
    with drawing_style("systems"):
        figure = Figure(figsize=(WIDTH, 0.9 + 0.3 * len(rows)), layout="constrained")
        axes = figure.add_subplot()
        for number, (system, look) in enumerate(zip(names, MARKERS, strict=False)):
            offset = 0.2 * (number - (len(names) - 1) / 2)
            drawn = [(place + offset, scores[system]) for place, (_, scores) in enumerate(rows) if system in scores]
            draw_spanned(axes, [Spanned(row, one.r, one.low, one.high) for row, one in drawn], look, label=system)
        axes.set_yticks(range(len(rows)), [name for name, _ in rows])
        axes.tick_params(axis="y", length=0, labelsize=7.5)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(min(0.0, *(one.low for _, scores in rows for one in scores.values())), 1.0)
        for place in range(1, len(rows)):
            axes.axhline(place - 0.5, color=INK, alpha=0.1, linewidth=0.6)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("Pearson's r, with its 95 % interval")
        figure.legend(loc="outside upper center", ncols=2, fontsize=8)
        return Drawing(
            "systems", f"Pearson's r of {len(rows)} subtasks for {', '.join(names)}, with 95 % intervals", figure
        )


def scatter(panels: Sequence[Panel]) -> Drawing:
    """Draw cosine against gold score in a panel for each data set; orange if a sentence was seen in training."""
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    with drawing_style("scatter"):
        figure = Figure(figsize=(WIDTH, 0.4 + 1.75 * rows), layout="constrained")
        grid: Any = figure.subplots(rows, columns, squeeze=False, sharey=True)
        for number, axes in enumerate(grid.flat):
            if number >= len(panels):
                axes.set_visible(False)
                continue
            panel = panels[number]
            for chosen, colour in ((~panel.seen, BLUE), (panel.seen, ORANGE)):
                _dots(axes, panel.gold[chosen], panel.score[chosen], colour)
            axes.set_title(panel.task + ("" if panel.pearson is None else f", r = {panel.pearson:.3f}"), fontsize=8.5)
            axes.tick_params(labelsize=8)
            axes.margins(0.04)
        figure.supxlabel("human score", fontsize=9)
        figure.supylabel("cosine", fontsize=9)
        summary = ", ".join(
            f"{panel.task} {'none' if panel.pearson is None else format(panel.pearson, '.3f')}" for panel in panels
        )
        return Drawing("scatter", f"Cosine against people's score; Pearson's r over all pairs: {summary}", figure)


def breakdown(bins: Sequence[Bin]) -> Drawing:
    """Draw the rank differences by length and by overlap."""
    groups = {by: [one for one in bins if one.by == by] for by in dict.fromkeys(one.by for one in bins)}
    labels = {"length": "words, mean of the two sentences", "overlap": "share of common words"}
    with drawing_style("breakdown"):
        sizes = [len(group) for group in groups.values()]
        figure = Figure(figsize=(WIDTH, 0.9 + 0.3 * sum(sizes) + 0.3 * len(sizes)), layout="constrained")
        grid: Any = figure.subplots(len(sizes), 1, squeeze=False, sharex=True, height_ratios=sizes)
        for axes, (by, group) in zip(grid.flat, groups.items(), strict=True):
            places = np.arange(len(group))
            for place, one in enumerate(group):
                axes.barh(place, one.difference, height=0.62, color=BLUE, alpha=1.0 if one.pairs >= FEW else 0.35)
            axes.axvline(NOTHING, color=INK, alpha=0.6, linewidth=0.9, linestyle=(0, (3, 3)))
            axes.set_yticks(places, [f"{one.range}  ({one.pairs:,})" for one in group])
            axes.tick_params(axis="y", length=0, labelsize=8)
            axes.invert_yaxis()
            axes.grid(axis="y", visible=False)
            axes.set_title(f"by {labels.get(by, by)} (pairs)", loc="left", fontsize=9)
        grid.flat[-1].set_xlim(0, max(0.36, *(1.03 * one.difference for one in bins)))
        grid.flat[-1].set_xlabel("mean difference of ranks, as a share of the pairs")
        summary = "; ".join(
            f"{one.by} {one.range}: {one.difference:.3f} ({counted(one.pairs, 'pair')})" for one in bins
        )
        return Drawing("breakdown", f"Mean rank difference by {' and by '.join(groups)}: {summary}", figure)


def _dots(axes: Any, x: NDArray[np.float64], y: NDArray[np.float64], colour: str) -> None:
    """Draw dots as one path of very short lines with round ends, which takes a tenth of the bytes of markers."""
    gaps = np.full(len(x), np.nan)
    across = np.column_stack([x, x + 1e-6, gaps]).ravel()
    up = np.column_stack([y, y, gaps]).ravel()
    (line,) = axes.plot(across, up, color=colour, linewidth=2.2, alpha=0.6, solid_capstyle="round")
    line.get_path().should_simplify = False
    line.set_snap(False)  # snapping to pixels would remove the lines
