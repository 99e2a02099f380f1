"""The energies of pairs on both sides of a threshold: their histogram and its drawing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter
from numpy.typing import NDArray

from sightword.report.drawing import GREEN, GREY, ORANGE, WIDTH, Drawing, drawing_style

BINS = 40


def histogram(energies: NDArray[np.floating], labels: NDArray[np.bool_]) -> list[tuple[float, float, int, int]]:
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
