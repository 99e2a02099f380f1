"""An audit as one HTML page with its graph; it needs no network, no scripts and no other file."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from pipeline.lineage.graph import Layout, lay_out
from pipeline.lineage.records import sheet
from sightword.files import canonical_json, write_text

COLUMN, ROW = 158, 76
"""Pixels from one node to the next."""
WIDTH, HEIGHT = 124, 50
"""Pixels of a node."""
EDGE = 12
"""Pixels around all."""
TABLES = {"params": "Parameters", "code": "Code", "data": "Raw data", "reads": "Reads", "writes": "Writes"}
"""The lines of a stage that are shown as tables, by title."""


def write_page(path: Path, audit: Mapping[str, Any]) -> None:
    """Write the page of an audit.

    Args:
        path: of the page.
        audit: as :func:`pipeline.lineage.records.of_audit` gives it.

    Raises:
        OSError: what the file system says.
    """
    write_text(path, render(audit))


def render(audit: Mapping[str, Any]) -> str:
    """The page's text."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["json"] = canonical_json
    environment.filters["blocks"] = lambda stage: [
        (title, list(lines)) for title, lines in itertools.groupby(sheet(stage), lambda line: line.title)
    ]
    template = environment.from_string(resources.files("pipeline.lineage").joinpath("page.html").read_text("utf-8"))
    stages = audit["stages"]
    return template.render(audit=audit, graph=_graph(stages) if stages else None, tables=TABLES)


def _graph(stages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Boxes and lines in pixels."""
    states = {stage["name"]: stage["state"] for stage in stages}
    reads = {stage["name"]: [dep["stage"] for dep in stage["deps"] if "stage" in dep] for stage in reversed(stages)}
    laid: Layout = lay_out({name: list(dict.fromkeys(read)) for name, read in reads.items()})

    def point(place: tuple[int, float]) -> tuple[float, float]:
        return EDGE + place[0] * COLUMN, EDGE + place[1] * ROW + HEIGHT / 2

    return {
        "width": (laid.columns - 1) * COLUMN + WIDTH + 2 * EDGE,
        "height": (laid.rows - 1) * ROW + HEIGHT + 2 * EDGE,
        "boxes": [
            {"name": name, "state": states[name], "x": point(place)[0], "y": point(place)[1] - HEIGHT / 2}
            for name, place in laid.places.items()
        ],
        "lines": [_curve([point(place) for place in line]) for line in laid.lines],
        "box": {"width": WIDTH, "height": HEIGHT},
    }


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """A path from the right side of the first box to the left side of the last one, level at each point."""
    (x, y), *rest = points
    path = f"M {x + WIDTH:g} {y:g}"
    before = (x + WIDTH, y)
    for number, (x, y) in enumerate(rest):
        half = (before[0] + x) / 2
        path += f" C {half:g} {before[1]:g}, {half:g} {y:g}, {x:g} {y:g}"
        if number < len(rest) - 1:
            path += f" H {x + WIDTH:g}"
            before = (x + WIDTH, y)
    return path
