"""An audit as one HTML page with its graph; it needs no network, no scripts and no other file."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

from pipeline.lineage.records import sheet
from sightword.files import canonical_json, write_text

COLUMN, ROW = 158, 76
"""Pixels from one node to the next."""
WIDTH, HEIGHT = 124, 50
"""Pixels of a node."""
EDGE = 12
"""Pixels around the graph."""
SWEEPS = 8
"""Passes over the columns that order their nodes."""
TABLES = {"params": "Parameters", "code": "Code", "data": "Raw data", "reads": "Reads", "writes": "Writes"}
"""The lines of a stage that are shown as tables, by title."""
Place = tuple[int, float]
"""A column from 0, and a row, which may be a half."""


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


class Layout(NamedTuple):
    """The places of a graph's nodes and lines."""

    places: dict[str, Place]
    lines: list[list[Place]]
    """The points of each line, one in each column from the node that is read to the node that reads."""
    columns: int
    rows: int


def lay_out(sources: Mapping[str, Sequence[str]]) -> Layout:
    """Lay out a graph without circles; leave out a line that follows from others (a reads b, b reads c: a needs c).

    Nodes are put in the middle of their neighbours, column by column, to and fro (Sugiyama et al. 1981).

    Args:
        sources: the names that each node reads, nodes after those that they read; other names are ignored.
    """
    below: dict[str, set[str]] = {}
    layers: list[list[str]] = []
    column: dict[str, int] = {}
    paths: list[list[str]] = []
    for name, every in sources.items():
        read = [one for one in dict.fromkeys(every) if one in below]
        below[name] = set(read).union(*(below[one] for one in read))
        column[name] = max((column[one] + 1 for one in read), default=0)
        layers += [[]] if column[name] == len(layers) else []
        layers[column[name]].append(name)
        for source in read:
            if not any(source in below[other] for other in read):
                between = {number: f"{source}\0{name}\0{number}" for number in range(column[source] + 1, column[name])}
                paths.append([source, *between.values(), name])
                for number, place in between.items():
                    layers[number].append(place)  # a place is kept for the line in each column between
    neighbours: dict[str, list[str]] = {name: [] for layer in layers for name in layer}
    for left, right in itertools.chain.from_iterable(map(itertools.pairwise, paths)):
        neighbours[left].append(right)
        neighbours[right].append(left)
    rows = {name: row for layer in layers for row, name in enumerate(layer)}
    for layer in [*layers, *layers[::-1]] * SWEEPS:
        middle = {name: sum(rows[one] for one in neighbours[name] or [name]) / max(1, len(neighbours[name]))
                  for name in layer}  # fmt: skip
        layer.sort(key=middle.__getitem__)
        rows |= {name: row for row, name in enumerate(layer)}
    height = max(map(len, layers), default=0)
    where = {
        name: (number, row + (height - len(layer)) / 2)
        for number, layer in enumerate(layers)
        for row, name in enumerate(layer)
    }
    lines = [[where[name] for name in path] for path in paths]
    return Layout({name: where[name] for name in below}, lines, len(layers), height)
