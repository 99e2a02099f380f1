"""Drawings of the page: the mNNO by K, t-SNE, gain against concreteness, losses and gradients."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from sightword.grounded.judging.results import Results
from sightword.grounded.judging.subtasks import Point
from sightword.grounded.page.scenarios import LOSSES
from sightword.report.drawing import BLUE, GREEN, GREY, INK, LINES, ORANGE, WIDTH, Drawing, drawing_style, plain_axes
from sightword.report.inputs import Columns, numbers, read_tsv

COLOURS = (BLUE, ORANGE, GREEN, GREY)
MARKERS = "os^Dv"
_LOOKS = tuple(itertools.product(("-", "--", ":"), zip(COLOURS[:3], MARKERS, strict=False)))
NAMED = 12
"""Of more points, only the genres have names."""
CHANCE = "chance"
CURVE = f"mNNO by the number of neighbours K, of at most {LINES} scenarios"
XY = tuple[Sequence[float], Sequence[float]]


class Curves(NamedTuple):
    """The tables of one training run, by the name of a column."""

    loss: Columns
    dev: Columns
    norms: Columns


def read_curves(folder: Path) -> Curves:
    """Read the tables of a training run; FileFormatError if one is damaged."""
    return Curves(*(read_tsv(folder / f"{name}.tsv") for name in Curves._fields))


def lines(
    name: str, series: Mapping[str, XY], labels: tuple[str, str], title: str, *, dots: bool = True, log: str = ""
) -> Drawing:
    """Draw the first :data:`sightword.report.drawing.LINES` lines over x, and a grey one for chance.

    ``log`` has the letters of the logarithmic axes, ``x`` or ``y`` or both.
    """
    own = {label: xy for label, xy in series.items() if label != CHANCE}
    with drawing_style(name):
        figure, axes = plain_axes(2.6 + 0.2 * -(-min(len(own), LINES) // 3), *labels)
        for (label, (x, y)), (dashes, (colour, marker)) in zip(own.items(), _LOOKS, strict=False):
            shown = marker if dots or len(x) == 1 else None
            axes.plot(x, y, color=colour, marker=shown, markersize=4, linestyle=dashes, label=label)
        if CHANCE in series:
            axes.plot(*series[CHANCE], color=GREY, linestyle="-.", linewidth=1.2, label=CHANCE)
        if "x" in log:
            axes.set_xscale("log")
            places = sorted({place for x, _ in series.values() for place in x})
            axes.set_xticks(places, [f"{place:g}" for place in places])
            axes.xaxis.set_minor_formatter(NullFormatter())
        if "y" in log:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.yaxis.set_minor_formatter(NullFormatter())
        figure.legend(loc="outside upper left", ncols=3, handlelength=2.2, fontsize=8)
        return Drawing(name, title, figure)


def neighbours(scenarios: Mapping[str, Sequence[Results]]) -> Drawing | None:
    """Draw the mNNO in the judged spaces against the number of neighbours, with chance, K / (N - 1)."""
    series: dict[str, XY] = {}
    for name, runs in scenarios.items():
        parts = [run.metrics["spaces"][run.judged]["structure"][run.split] for run in runs]
        ks = [int(k) for k in parts[0]["curve"]]
        series[name] = ks, [100.0 * float(np.mean([part["curve"][str(k)] for part in parts])) for k in ks]
        series[CHANCE] = ks, [100.0 * k / (parts[0]["pictures"] - 1) for k in ks]
    if not series or not series[CHANCE][0]:
        return None
    return lines("neighbours", series, ("neighbours K", "mNNO (%)"), "mNNO by the number of neighbours.", log="x")


def plane(run: Results) -> Drawing | None:
    """Draw the points of the t-SNE in the judged space, by group; None without points."""
    table = run.tables["points"]
    rows = table[table["space"] == run.judged]
    if rows.empty:
        return None
    name, groups = f"plane_{run.scenario}", list(dict.fromkeys(rows["group"]))
    with drawing_style(name):
        figure = Figure(figsize=(WIDTH, 3.8), layout="constrained")
        axes = figure.add_subplot(xticks=[], yticks=[])
        for place, group in enumerate(groups):
            own, look = rows[rows["group"] == group], (COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)])
            axes.plot(own["x"], own["y"], look[1], color=look[0], markersize=3.6, alpha=0.8, label=group)
        figure.legend(loc="outside upper center", ncols=min(4, len(groups)), fontsize=8)
        return Drawing(name, f"Captions of {run.scenario} with the words {', '.join(groups)}, by t-SNE.", figure)


def gain(points: Sequence[Point], scenario: str, baseline: str) -> Drawing | None:
    """Draw the gain of a scenario in each subtask against the concreteness of its words; None without points."""
    if not points:
        return None
    with drawing_style("gain"):
        figure, axes = plain_axes(3.3, "mean concreteness of the words, 1 to 5", "gain in 100 ρ")
        axes.axhline(0.0, color=INK, alpha=0.5, linewidth=0.8)
        for genre, colour, marker, label in ((False, BLUE, "o", "subtask"), (True, ORANGE, "s", "STS Benchmark")):
            chosen = [one for one in points if one.genre is genre]
            x, y = [one.concreteness for one in chosen], [100.0 * one.gain for one in chosen]
            if chosen:
                axes.plot(x, y, marker, color=colour, markersize=5, label=label)
        for one in points:
            if one.genre or len(points) <= NAMED:
                spot, side = (one.concreteness, 100.0 * one.gain), -4 if one.genre else 4
                where = "right" if one.genre else "left"
                axes.annotate(one.name.split()[-1], spot, (side, 3), textcoords="offset points", fontsize=6.5, ha=where)
        axes.margins(0.14, 0.1)
        figure.legend(loc="outside upper left", ncols=2, fontsize=8)
        return Drawing("gain", f"Gain of {scenario} over {baseline} by concreteness, {len(points)} subtasks.", figure)


def training(name: str, curves: Curves, text: Path) -> list[tuple[str, Drawing]]:
    """Draw a training run: each part of its loss, the gradients' norms, and the loss of the text's encoder.

    Args:
        name: the scenario.
        curves: its tables.
        text: ``plots/grounded/skipthought``.
    """
    found = []
    for part in [column for column in curves.loss if column != "batch"]:
        series = {"training": _column(curves.loss, part), "dev": _column(curves.dev, part)}
        series = {label: xy for label, xy in series.items() if xy[0]}
        if series:
            head = f"Loss of {name}: {LOSSES.get(part, part)}"
            found.append((head, lines(f"loss_{part}", series, ("batch", "loss"), f"{head}.", dots=False)))
    sides = {"text": "text", "captions and pictures": "grounded"}
    norms = {side: _column(curves.norms, column) for side, column in sides.items()}
    norms = {side: (x, y) for side, (x, y) in norms.items() if any(value > 0 for value in y)}
    if norms:
        head = f"Norm of the gradient of {name}, by side"
        found.append((head, lines("norms", norms, ("batch", "norm"), f"{head}.", dots=False, log="y")))
    own = {"training": _column(read_tsv(text / "loss.tsv"), "loss")}
    own["held out"] = _column(read_tsv(text / "held_out.tsv"), "loss")
    if own := {label: xy for label, xy in own.items() if xy[0]}:
        head = "Loss of the encoder of text, before any picture"
        found.append((head, lines("text", own, ("batch", "loss"), f"{head}.", dots=False)))
    return found


def _column(columns: Columns, name: str) -> XY:
    """Return batches and values; empty without the column. A value that is undefined has no point."""
    if name not in columns:
        return [], []
    points = zip(numbers(columns, "batch", where=name), numbers(columns, name, where=name, blanks=True), strict=True)
    known = [(batch, value) for batch, value in points if not math.isnan(value)]
    return [batch for batch, _ in known], [value for _, value in known]
