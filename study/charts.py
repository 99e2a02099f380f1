"""Draws the charts of results from tables of the pages: `python -m study.charts` in the repository's folder.

``pages/doses.svg`` is of `tools/results_chart.py` of the commit 99cc276f.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.patches import Patch

from sightword.report.drawing import BLUE, GREY, ORANGE, Drawing, drawing_style, plain_axes

TITLE = "R@10 on Flickr8k's test split, in percent; the table has the numbers"
OTHERS = ("published", "CLIP")
"""How the names of systems begin that were not measured here; their bars have no filling."""
BANK, SPLIT = "query bank", "another split"
"""Words in the names of systems whose bars are pale or dashed, since no other rows were measured in this way."""
LEAST = 5.0
"""Percent: controls that saw no picture are by chance below, and not in the chart of languages."""
WIDTH = 4.8
"""Inches: the letters are still read on a phone, which is 390 pixels wide."""
MARKS = "†‡§⁰¹²³⁴⁵⁶⁷⁸⁹"
"""What stands behind a name in the table, and not in the chart."""


class Chart(NamedTuple):
    """A file, and the page and the tables that it is drawn from."""

    file: Path
    page: Path
    tables: tuple[str, ...]


CHARTS = [
    Chart(Path("docs/images/results.svg"), Path("docs/results.md"), ("main",)),
    Chart(Path("docs/images/languages.svg"), Path("study/pages/languages.md"), ("languages-five", "languages-one")),
]


class Bar(NamedTuple):
    """A system of the table with its R@10 in percent, from a caption to pictures and from a picture to captions."""

    system: str
    caption_to_image: float
    image_to_caption: float


def bars(page: str, tables: Sequence[str] = ("main",)) -> list[Bar]:
    """Return the rows of a page's tables that have R@10 in both directions above :data:`LEAST`, in their order."""
    found = []
    for name in tables:
        table = page.split(f"<!-- table: {name} -->")[1].split("<!-- end -->")[0]
        for line in [line for line in table.splitlines() if line.startswith("| ")][1:]:
            label, *cells = (cell.strip() for cell in line.strip("|").split(" | "))
            there, back = (re.match(r"\d+\.\d", cell) for cell in cells[:2])
            if there and back and (name == "main" or float(back[0]) > LEAST):
                system = re.sub(r"\[(.+?)\]\(.+?\)", r"\1", label).replace("`", "").strip(f" {MARKS}")
                found.append(Bar(system, float(there[0]), float(back[0])))
    return found


def draw(rows: list[Bar]) -> Drawing:
    """Draw two bars a system on an axis from 0 to 100, below the system's name, each with its number."""
    with drawing_style("results"):
        figure, axes = plain_axes(0.6 * len(rows) + 1.2, "R@10, percent", "")
        figure.set_figwidth(WIDTH)
        for place, row in enumerate(rows):
            filled = not row.system.startswith(OTHERS)
            look = {"alpha": 0.5 if BANK in row.system else 1.0, "linestyle": "--" if SPLIT in row.system else "-"}
            axes.text(0, place - 0.32, row.system, va="center", fontsize=9)
            for shift, value, colour in ((0, row[1], BLUE), (0.3, row[2], ORANGE)):
                face = colour if filled else "none"
                axes.barh(place + shift, value, height=0.26, facecolor=face, edgecolor=colour, **look)
                axes.text(value + 1, place + shift, f"{value:.1f}", va="center", fontsize=8.5)
        axes.set_yticks([])
        axes.set_xlim(0, 100)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        looks = [Patch(facecolor=BLUE, label="caption to image"), Patch(facecolor=ORANGE, label="image to caption")]
        if any(row.system.startswith(OTHERS) for row in rows):
            looks += [
                Patch(facecolor=GREY, alpha=0.5, label="with a query bank"),
                Patch(facecolor="none", edgecolor=GREY, label="measured elsewhere"),
                Patch(facecolor="none", edgecolor=GREY, linestyle="--", label="on another split"),
            ]
        figure.legend(handles=looks, loc="outside upper center", ncols=2, fontsize=9, handlelength=1.6)
    return Drawing("results", TITLE, figure)


if __name__ == "__main__":
    for chart in CHARTS:
        chart.file.write_text(draw(bars(chart.page.read_text("utf-8"), chart.tables)).svg(), "utf-8")
