"""Draws Figure 3 of Merkx & Frank (2019): Pearson's r of every subtask for this encoder and published systems."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

from matplotlib import style
from matplotlib.figure import Figure

from sightword.evaluation.semantics.published import Score

WIDTH = 6.4
"""The width of the figure in inches."""
MARKERS = (("#0072b2", "o", 5.5), ("#d55e00", "s", 4.0), ("#009e73", "^", 4.5), ("#7f7f7f", "D", 3.5))
"""Colour (from Okabe and Ito's palette for colour-blind readers), marker and size of each system."""

STYLE = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "sightword semantics",
    "text.parse_math": False,
}


def draw(rows: Sequence[tuple[str, Mapping[str, Score]]]) -> str:
    """Return the text of an SVG with a row for each subtask and in it a point with its interval for each system.

    ``rows`` are names from top to bottom, each with the scores of at most four systems; equal rows give equal bytes.
    """
    systems = list(dict.fromkeys(system for _, estimates in rows for system in estimates))
    with style.context(["default", STYLE]):
        step = 0.34 if len(systems) > 1 else 0.22
        figure = Figure(figsize=(WIDTH, 0.9 + step * max(len(rows), 2)), layout="constrained")
        axes = figure.add_subplot()
        for number, (system, (colour, marker, size)) in enumerate(zip(systems, MARKERS, strict=False)):
            offset = 0.2 * (number - (len(systems) - 1) / 2)
            for place, (_, estimates) in enumerate(rows):
                if system not in estimates:
                    continue
                found = estimates[system]
                axes.plot([found.low, found.high], [place + offset] * 2, color=colour, linewidth=1.2)
                axes.plot(found.r, place + offset, color=colour, marker=marker, markersize=size, linestyle="none")
            axes.plot([], [], color=colour, marker=marker, markersize=size, linewidth=1.2, label=system)
        axes.set_yticks(range(len(rows)), [name for name, _ in rows])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(right=1.0)
        if axes.get_xlim()[0] > 0:
            axes.set_xlim(left=0.0)
        for place in range(1, len(rows)):
            axes.axhline(place - 0.5, color="#000000", alpha=0.08, linewidth=0.6)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("Pearson's r with people's scores, and its 95 % interval")
        if len(systems) > 1:
            figure.legend(loc="outside upper center", ncols=2)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return "".join(f"{line.rstrip()}\n" for line in buffer.getvalue().splitlines())
