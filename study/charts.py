"""Draws charts of results: docs/images/results.svg and languages.svg from tables of the pages, pages/doses.svg from
the rows.

`python -m study.charts` in the repository's folder writes the files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from sightword.report.drawing import BLUE, GREEN, GREY, INK, ORANGE, Drawing, drawing_style, plain_axes
from study.rows import Row, read_rows
from study.tables import pooled

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
    Chart(Path("docs/images/languages.svg"), Path("docs/languages.md"), ("languages-five", "languages-one")),
]


DOSES = Path("study/pages/doses.svg")
DOSE = re.compile(r"doses/(\d+)-(\d+)")
"""The key of a row with right pictures: the pictures, and the captions a picture."""
GAINS = {"STSBenchmark": "STS Benchmark", "SICKRelatedness": "SICK", "sts": "STS12 to STS16"}
"""The panels of the gains: the task in the names of the scores, and its title."""
MEANS = [
    ("wrong.", "above wrong pictures, mean", ORANGE, "v"),
    ("second.", "a second caption instead, mean", GREEN, "D"),
    ("none.gru-", "GRU, mean, one seed", GREY, "^"),
]
"""Gains that are means over numbers of pictures: what begins the names of the scores, and the look."""
RECALL = [f"retrieval.dev.full.{way}.r10" for way in ("caption_to_image", "image_to_caption")]


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


def draw_doses(every: Mapping[str, Row]) -> Drawing:
    """Draw what right pictures gain over captions a picture with intervals, a line for each number of pictures.

    The panels are :data:`GAINS`, and the mean of R@10 on dev in both directions.

    Args:
        every: all rows of results; those of the topic doses count.
    """
    doses = sorted((int(found[1]), int(found[2])) for found in map(DOSE.fullmatch, every) if found)
    shades = {pictures: colormaps["Blues"](0.35 + 0.15 * place) for place, pictures in enumerate(dict(doses))}
    with drawing_style("doses"):
        figure = Figure(figsize=(WIDTH, 6.0), layout="constrained")
        panels = figure.subplots(2, 2, sharex=True).flat
        for axes, (task, title) in zip(panels, GAINS.items(), strict=False):
            axes.axhline(0, color=INK, linewidth=0.6)
            lines = [
                (f"none.{pictures}-", f"{pictures:,} right pictures", colour, "o")
                for pictures, colour in shades.items()
            ]
            for place, (name, label, colour, marker) in enumerate([*lines, *MEANS]):
                every_gain = {x: pooled(every["doses/gains"], f"note.gain.{name}{x}.{task}") for x in range(1, 6)}
                gains = {x + 0.06 * (place - 3): one for x, one in every_gain.items() if one}
                ends = [(one.value - (one.low or 0), (one.high or 0) - one.value) for one in gains.values()]
                axes.errorbar(
                    [*gains], [100 * one.value for one in gains.values()], 100 * np.array(ends).T, label=label,
                    color=colour, marker=marker, markersize=3, linewidth=1, elinewidth=0.6,
                )  # fmt: skip
            axes.set_title(title, fontsize=9)
        figure.supylabel("points of 100 r gained", fontsize=9)
        last = figure.axes[-1]
        for pictures, colour in shades.items():
            rows = {x: every[f"doses/{pictures}-{x}"] for found, x in doses if found == pictures}
            means = [sum(score.value for key in RECALL if (score := pooled(row, key))) / 2 for row in rows.values()]
            last.plot([*rows], means, color=colour, marker="o", markersize=3)
        last.set_title("R@10 on dev, percent", fontsize=9)
        last.set_xticks(range(1, 6))
        for axes in figure.axes:
            axes.tick_params(labelsize=8)
        figure.supxlabel("captions a picture", fontsize=9)
        figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=8)
    return Drawing("doses", "What right pictures gain over captions a picture; the tables have the numbers", figure)


if __name__ == "__main__":
    for chart in CHARTS:
        chart.file.write_text(draw(bars(chart.page.read_text("utf-8"), chart.tables)).svg(), "utf-8")
    DOSES.write_text(draw_doses(read_rows(Path())).svg(), "utf-8")
