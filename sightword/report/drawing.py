"""Turns drawings into bytes: SVG inside the page, and SVG files for papers.

In the page, text, axes and grid take the page's text colour, and the page may lighten the data colours, so that a
drawing reads well on a light and on a dark page. The data colours are those of Okabe and Ito (Color Universal Design,
2008), for colour-blind readers. The same numbers give the same bytes: no dates, no random ids.
"""

from __future__ import annotations

import html
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib import style
from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#7f7f7f"
POINTS = 300
"""The largest number of points in a curve; longer curves are drawn by the mean and range of this many segments."""
LINES = 9
"""The most distinguishable lines in a drawing over epochs, by colour, marker and dashes."""
INK = "#010203"
"""A placeholder for the page's text colour until the drawing is finished."""
WIDTH = 4.6
"""The width in inches, about that of a phone, so that letters stay readable there."""

STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "grid.alpha": 0.15,
    "grid.color": INK,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "svg.fonttype": "none",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}


@contextmanager
def drawing_style(name: str) -> Iterator[None]:
    """Apply Matplotlib's defaults with :data:`STYLE`, and ids that depend on a drawing's name, for any user."""
    with style.context(["default", {**STYLE, "svg.hashsalt": f"sightword {name}"}]):
        yield


@dataclass(frozen=True)
class Drawing:
    """A finished drawing, drawn within :func:`drawing_style`."""

    name: str
    """The prefix of its ids in the page, and the name of its files."""
    title: str
    """The text for screen readers."""
    figure: Figure
    curve: tuple[str, Sequence[float]] | None = None
    """The name and values of a curve of training, for a line in a tile."""

    def spark(self) -> Markup:
        """Return the curve without axes, from 0 or the least value up, as one ``svg`` element."""
        what, values = self.curve or ("", ())
        x, y, *_ = segments(np.arange(len(values), dtype=float), np.asarray(values, dtype=float))
        low, right = min(0.0, *y), max(len(values) - 1, 1)
        high = max(*y, low + 1e-9)
        places = zip(100 * x / right, 23 - 22 * (y - low) / (high - low), strict=True)
        points = " ".join(f"{across:.1f},{down:.1f}" for across, down in places)
        return Markup(
            '<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label="{}">'
            '<polyline points="{}"/></svg>'
        ).format(what, points)

    def in_page(self) -> str:
        """Return the markup of one ``svg`` element that fits any page and any width."""
        text = self._clear
        text = text[text.index("<svg") :].strip()
        text = re.sub(r"\s*<(metadata|style)\b.*?</\1>", "", text, flags=re.DOTALL)
        for size in ("width", "height"):
            text = re.sub(rf'(<svg[^>]*?) {size}="[^"]*"', r"\1", text, count=1)
        text = re.sub(r'\bid="', f'id="{self.name}-', text)
        text = re.sub(r'(href="#|url\(#)', rf"\1{self.name}-", text)
        text = text.replace(INK, "currentColor")
        for name, colour in {"blue": BLUE, "orange": ORANGE, "green": GREEN, "grey": GREY}.items():
            text = text.replace(colour, f"var(--plot-{name}, {colour})")
        text = re.sub(r"'DejaVu Sans'", "inherit", text)
        return text.replace("<svg", f'<svg role="img" aria-label="{html.escape(self.title)}"', 1)

    def svg(self) -> str:
        """Return the text of an SVG file, on white."""
        text = self._clear.replace("fill: none", "fill: #ffffff", 1).replace(INK, "#000000")
        return "".join(f"{line.rstrip()}\n" for line in text.splitlines())

    @cached_property
    def _clear(self) -> str:
        """The text of an SVG file without a background."""
        buffer = io.StringIO()
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        with drawing_style(self.name):
            self.figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
        return re.sub(r'\bd="([^"]*)"', lambda match: f'd="{_short(match[1])}"', buffer.getvalue())


def _short(path: str) -> str:
    """Round a path to hundredths of a point; a line of length 0 becomes a dot."""
    path = re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), path)
    path = re.sub(r"\s*\n\s*", " ", path.strip())
    return re.sub(r"M (\S+) (\S+) L \1 \2(?= M|$)", r"M\1 \2h.1", path)


def plain_axes(height: float, xlabel: str, ylabel: str) -> tuple[Figure, Any]:
    """Return a figure of some height with labelled axes."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    return figure, axes


def segments(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return mean position, mean, least and largest value of at most ``POINTS`` segments of a curve."""
    if len(y) <= POINTS:
        return x, y, y, y
    cuts = np.linspace(0, len(y), POINTS + 1).astype(int)
    parts = [slice(*ends) for ends in itertools.pairwise(cuts)]
    mean_x, mean = (np.array([values[part].mean() for part in parts]) for values in (x, y))
    return mean_x, mean, np.array([y[part].min() for part in parts]), np.array([y[part].max() for part in parts])
