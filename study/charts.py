"""Draws the charts that ``pages/charts.yaml`` lays out: `python -m study.charts` in the repository's folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sightword.io import yaml_reader
from sightword.report.drawing import BLUE, GREEN, GREY, INK, ORANGE, Drawing, drawing_style, plain_axes
from study.rows import Score, read_rows

LAYOUT = Path("study/pages/charts.yaml")
OTHERS = ("published", "CLIP")
"""How the names of systems begin that were not measured here; their dots have no filling."""
LEAST = 5.0
"""Percent: controls that saw no picture are by chance below, and not in the chart of languages."""
WIDTH, ROW, LETTER = 6.0, 0.215, 1.1
"""Inches of the chart and of a row, and the width of a letter of a name in percent of the axis."""
MARKS = "†‡§⁰¹²³⁴⁵⁶⁷⁸⁹"
"""What stands behind a name in the table, and not in the chart."""


class Dots(NamedTuple):
    """A system of the table with its R@10 in percent, from a caption to pictures and from a picture to captions."""

    system: str
    caption_to_image: float
    image_to_caption: float


def dots(page: str, chart: Mapping[str, Any]) -> list[Dots]:
    """Return the rows of a page's tables that have R@10 in both directions above :data:`LEAST`, in their order."""
    found = []
    for name in chart["tables"]:
        table = page.split(f"<!-- table: {name} -->")[1].split("<!-- end -->")[0]
        for line in [line for line in table.splitlines() if line.startswith("| ")][1:]:
            label, *cells = (cell.strip() for cell in line.strip("|").split(" | "))
            there, back = (re.match(r"\d+\.\d", cell) for cell in cells[chart["column"] : chart["column"] + 2])
            if there and back and (name == "main" or float(back[0]) > LEAST):
                system = re.sub(r"\[(.+?)\]\(.+?\)", r"\1", label).replace("`", "").strip(f" {MARKS}")
                found.append(Dots(system, float(there[0]), float(back[0])))
    return found


def draw(rows: list[Dots]) -> Drawing:
    """Draw two dots a system, with their numbers, on an axis from 0 to 100; the name stands where there is room."""
    with drawing_style("results"):
        figure, axes = plain_axes(ROW * len(rows) + 0.85, "R@10, percent", "")
        figure.set_figwidth(WIDTH)
        for place, row in enumerate(rows):
            low, high = sorted(row[1:])
            left = low - 7 > len(row.system) * LETTER
            axes.text(0 if left else high + 17, place, row.system, va="center", fontsize=8.5)
            axes.plot((low, high), (place, place), color=GREY, linewidth=1, zorder=1)
            for number, (value, colour) in enumerate(zip(row[1:], (BLUE, ORANGE), strict=True)):
                face = "white" if row.system.startswith(OTHERS) else colour
                axes.plot(value, place, "o", color=colour, markerfacecolor=face, markersize=5.5)
                at, side = (low - 2, "right") if left and value == low else (high + 2 + 7 * number * (not left), "left")
                axes.text(at, place, f"{value:.1f}", va="center", ha=side, fontsize=8)
        axes.set_yticks([])
        axes.set_xlim(0, 104)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        looks = {"caption to image": (BLUE, BLUE), "image to caption": (ORANGE, ORANGE)}
        looks |= {"measured elsewhere": (GREY, "white")} if any(row.system.startswith(OTHERS) for row in rows) else {}
        marks = [Line2D([], [], ls="", marker="o", color=edge, markerfacecolor=face) for edge, face in looks.values()]
        figure.legend(marks, looks, loc="outside upper center", ncols=3, fontsize=8.5, handletextpad=0.1)
    return Drawing("results", "R@10 on test, in percent; the table has the numbers", figure)


LOOKS = ((BLUE, "o-"), (ORANGE, "s--"), (GREY, "^:"), (GREEN, "D-."))
"""Colour and look of the lines of a chart of gains, in their order."""


def draw_gains(name: str, chart: Mapping[str, Any], scores: Mapping[str, Score]) -> Drawing:
    """Draw the gains of a chart of ``pages/charts.yaml`` with their intervals."""
    with drawing_style(name):
        figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
        panels = figure.subplots(1, len(chart["panels"]), sharey=chart["alike"])
        for axes, (title, places) in zip(panels, chart["panels"].items(), strict=True):
            for shift, ((label, gain), (colour, look)) in enumerate(zip(chart["lines"].items(), LOOKS, strict=False)):
                every = [scores.get(f"note.gain.{place.replace('$', gain)}.STSBenchmark") for place in places.values()]
                y, low = np.array([(one.value, one.low) if one else (np.nan, np.nan) for one in every], float).T * 100
                at = np.arange(len(places)) + (shift - (len(chart["lines"]) - 1) / 2) / 12
                axes.errorbar(at, y, y - low, fmt=look, color=colour, markersize=4.5, linewidth=1.2, label=label)
            axes.axhline(0, color=INK, linewidth=0.8)
            axes.set_title(title, fontsize=9)
            axes.set_xticks(range(len(places)), [*places])
        panels[0].set_ylabel(chart["y"])
        figure.supxlabel(chart["x"], fontsize=9)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=8.5)
    return Drawing(name, " ".join(chart["y"].split()), figure)


if __name__ == "__main__":
    rows, layout = read_rows(Path()), yaml_reader.parse(LAYOUT.read_text("utf-8"), LAYOUT)
    for name, gains in layout["gains"].items():
        if gains["row"] in rows:
            drawn = draw_gains(name, gains, rows[gains["row"]].runs[0].scores)
            LAYOUT.with_name(f"{name}.svg").write_text(drawn.svg(), "utf-8")
    for file, recall in layout["recall"].items():
        page = Path(recall["page"]).read_text("utf-8")
        Path(file).write_text(draw(dots(page, recall)).svg(), "utf-8")
