"""Draws charts of results: docs/images/results.svg and languages.svg from tables of the pages, doses.svg from the rows.

`python -m tools.results_chart` in the repository's folder writes the files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from pipeline.results.records import Row, rows
from pipeline.results.tables import pooled
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
MARKS = "†‡⁰¹²³⁴⁵⁶⁷⁸⁹"
"""What stands behind a name in the table, and not in the chart."""


class Chart(NamedTuple):
    """A file below docs/images, and the page and the tables that it is drawn from."""

    file: Path
    page: Path
    tables: tuple[str, ...]


CHARTS = [
    Chart(Path("docs/images/results.svg"), Path("docs/results.md"), ("main",)),
    Chart(Path("docs/images/languages.svg"), Path("docs/languages.md"), ("languages-five", "languages-one")),
]


DOSES = Path("docs/images/doses.svg")
LINES = {
    "right pictures": ("", BLUE, "-", "o"),
    "right pictures alone": ("-pictures-only", BLUE, ":", "s"),
    "no pictures": ("-captions-only", ORANGE, "-", "^"),
    "wrong pictures": ("-wrong-pictures", ORANGE, ":", "v"),
    "tf-idf, no training": ("-tf-idf", GREY, "--", "x"),
}
"""The lines of the doses: what a row's name ends with, and the look."""
SCORES = {
    "STS Benchmark, 100 r": (("semantics.STSBenchmark.cosine.pearson",), 100.0),
    "SICK, 100 r": (("semantics.SICKRelatedness.cosine.pearson",), 100.0),
    "mean R@10 on dev": (
        ("retrieval.dev.full.caption_to_image.r10", "retrieval.dev.full.image_to_caption.r10"),
        1.0,
    ),
}
"""The panels of the doses, a row each: the scores whose mean is drawn, and their factor."""


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
    """Draw scores over captions a picture: rows of panels for :data:`SCORES`, columns for numbers of pictures.

    Retrieval has the lines with right pictures alone: without them recall is chance.

    Args:
        every: all rows of results; those of the topic doses count.
    """
    doses = sorted({(int(pictures), int(captions)) for pictures, captions in map(_dose, every) if pictures})
    columns, ticks = sorted({dose[0] for dose in doses}), sorted({dose[1] for dose in doses})
    with drawing_style("doses"):
        figure = Figure(figsize=(WIDTH, 6.4), layout="constrained")
        panels = figure.subplots(len(SCORES), len(columns), squeeze=False, sharex=True, sharey="row")
        for place, pictures in enumerate(columns):
            panels[0][place].set_title(f"{pictures:,}\npictures", fontsize=9)
            for axes, (title, (keys, factor)) in zip(panels[:, place], SCORES.items(), strict=True):
                for label, (ending, colour, dashes, marker) in LINES.items():
                    if "R@" in title and colour != BLUE:
                        continue
                    named = {x: every.get(f"doses/{pictures}-{x}{ending}") for x in ticks}
                    every_score = {x: [pooled(row, key) for key in keys] for x, row in named.items() if row}
                    points = [(x, found) for x, found in every_score.items() if all(found)]
                    means = [factor * sum(one.value for one in found if one) / len(keys) for _, found in points]
                    axes.plot(
                        [x for x, _ in points], means, color=colour, linestyle=dashes, marker=marker, markersize=4,
                        label=label,
                    )  # fmt: skip
                axes.set_xticks(ticks)
                axes.tick_params(labelsize=8)
        for axes, title in zip(panels[:, 0], SCORES, strict=True):
            axes.set_ylabel(title)
            axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
        figure.supxlabel("captions a picture", fontsize=9)
        figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=9)
    return Drawing("doses", "STS Benchmark, SICK and R@10 over captions a picture; the tables have the numbers", figure)


def _dose(key: str) -> tuple[str, str]:
    """Return the pictures and the captions a picture in the key of a row; empty for a row of no dose."""
    found = re.match(r"doses/(\d+)-(\d+)", key)
    return (found[1], found[2]) if found else ("", "")


if __name__ == "__main__":
    for chart in CHARTS:
        chart.file.write_text(draw(bars(chart.page.read_text("utf-8"), chart.tables)).svg(), "utf-8")
    DOSES.write_text(draw_doses(rows(Path())).svg(), "utf-8")
