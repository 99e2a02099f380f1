"""An audit as one HTML page with its graph; it needs no network, no scripts and no other file."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from pipeline.lineage.graph import lay_out
from pipeline.lineage.records import sheet
from sightword.files import canonical_json, write_text

COLUMN, ROW = 158, 76
"""Pixels from one node to the next."""
WIDTH, HEIGHT = 124, 50
"""Pixels of a node."""
EDGE = 12
"""Pixels around the graph."""
TABLES = {"params": "Parameters", "code": "Code", "data": "Raw data", "reads": "Reads", "writes": "Writes"}
"""The lines of a stage that are shown as tables, by title."""


def write_page(path: Path, audit: Mapping[str, Any]) -> None:
    """Write the page of an audit, whose values are those of :func:`pipeline.lineage.records.of_audit`.

    Raises:
        SetupError: the page cannot be written.
    """
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["json"] = canonical_json
    environment.filters["blocks"] = lambda stage: [
        (title, list(lines)) for title, lines in itertools.groupby(sheet(stage), lambda line: line.title)
    ]
    template = environment.from_string(resources.files("pipeline.lineage").joinpath("page.html").read_text("utf-8"))
    graph = _graph(audit["stages"]) if audit["stages"] else None
    write_text(path, template.render(audit=audit, graph=graph, tables=TABLES))


def _graph(stages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the boxes and lines of the graph in pixels."""
    states = {stage["name"]: stage["state"] for stage in stages}
    laid = lay_out({stage["name"]: [dep["stage"] for dep in stage["deps"] if "stage" in dep] for stage in stages[::-1]})
    return {
        "width": (laid.columns - 1) * COLUMN + WIDTH + 2 * EDGE,
        "height": (laid.rows - 1) * ROW + HEIGHT + 2 * EDGE,
        "boxes": [
            {"name": name, "state": states[name], "x": EDGE + column * COLUMN, "y": EDGE + row * ROW}
            for name, (column, row) in laid.places.items()
        ],
        "lines": [_curve([(EDGE + x * COLUMN, EDGE + y * ROW + HEIGHT / 2) for x, y in line]) for line in laid.lines],
        "box": {"width": WIDTH, "height": HEIGHT},
    }


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Return a path from the right side of the first box to the left side of the last one, level at each point."""
    path = f"M {points[0][0]:g} {points[0][1]:g}"
    for (left, above), (right, below) in itertools.pairwise(points):
        half = (left + WIDTH + right) / 2
        path += f" H {left + WIDTH:g} C {half:g} {above:g}, {half:g} {below:g}, {right:g} {below:g}"
    return path
