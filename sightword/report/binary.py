"""Reports of binary decisions: curves of the training run, energies of true and false pairs, and all files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.ticker import ScalarFormatter

from sightword.evaluation.binary import Measured
from sightword.io.files import atomic_folder, write_json, write_table, write_text, write_tsv
from sightword.report.drawing import BLUE, GREEN, GREY, ORANGE, Drawing, drawing_style, plain_axes
from sightword.report.inputs import numbers, read_tsv


def curve(path: Path, column: str, title: str) -> Drawing:
    """Draw a column of a table with tabs over its column ``batch``; FileFormatError for no column of numbers.

    The axis begins at 0; that of an accuracy in percent, which is 50 by chance, at 50 where no value is below.
    """
    columns = read_tsv(path)
    batches, values = (numbers(columns, name, where=path) for name in ("batch", column))
    with drawing_style(path.stem):
        figure, axes = plain_axes(2.7, "batches", column)
        axes.plot(batches, values, color=BLUE, marker="o" if len(batches) == 1 else None)
        if column == "accuracy":
            axes.set_ylim(50 if min(values) >= 50 else 0, 100)
        elif min(values) >= 0:
            axes.set_ylim(0, None)
        return Drawing(path.stem, title, figure, (title.rstrip("."), values))


def energies(
    rows: Sequence[tuple[float, float, int, int]], threshold: float, names: tuple[str, str] = ("true", "false")
) -> Drawing:
    """Draw a histogram (:mod:`sightword.evaluation.binary`) with the threshold, counts on a logarithmic axis.

    ``names`` are the names of the pairs that should lie below and above the threshold.
    """
    with drawing_style("energies"):
        figure, axes = plain_axes(2.7, "energy", "pairs")
        edges = [row[0] for row in rows] + [rows[-1][1]]
        for column, colour, label in ((2, GREEN, names[0]), (3, ORANGE, names[1])):
            axes.stairs([row[column] for row in rows], edges, color=colour, label=label, linewidth=1.6)
        axes.axvline(threshold, color=GREY, linestyle="--", label="threshold")
        axes.set_yscale("symlog", linthresh=1)
        axes.yaxis.set_major_formatter(ScalarFormatter())
        axes.set_ylim(0, None)
        axes.legend()
        return Drawing("energies", f"Energies of {names[0]} and of {names[1]} pairs, with the threshold.", figure)


def write_report(
    measured: Measured, names: tuple[str, str], drawings: Sequence[Drawing], page: str, places: Sequence[str]
) -> None:
    """Write scores, plots, page and metrics into their four folders; ``names`` are those of :func:`energies`."""
    scores, plots, report, metrics = map(Path, places)
    with atomic_folder(scores) as folder:
        write_table(folder / "mistakes.parquet", measured.mistakes)
        write_table(folder / "scores.parquet", measured.scores)
    with atomic_folder(plots) as folder:
        write_tsv(folder / "energies.tsv", ("from", "to", *names), measured.histogram)
    with atomic_folder(report) as folder:
        write_text(folder / "index.html", page)
        for one in drawings:
            write_text(folder / "plots" / f"{one.name}.svg", one.svg())
    write_json(metrics / "evaluate.json", measured.metrics)
    write_json(metrics / "summary.json", measured.summary)
