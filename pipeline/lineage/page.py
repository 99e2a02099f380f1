"""An audit as one HTML page with its graph; it needs no network, no other file, and no script for reading."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from pipeline.lineage.records import Line, machine_line, name_of, record_line, scoring_lines, sheet
from sightword.io.files import canonical_json, write_text
from sightword.report import html_page as html
from sightword.report.number_formats import counted
from sightword.report.tables import Cell, Row, Table

COLUMN, ROW = 158, 76
"""Pixels from one node to the next."""
WIDTH, HEIGHT = 124, 50
"""Pixels of a node."""
GAP, DROP = 14, 30
"""Pixels between the nodes of a graph that goes down."""
EDGE = 12
"""Pixels around the graph."""
SWEEPS = 8
"""Passes over the columns that order their nodes."""
TABLES = {"params": "Parameters", "code": "Code", "data": "Raw data", "reads": "Reads", "writes": "Writes"}
"""The lines of a stage that are shown as tables, by title."""
PERCENT = re.compile(r"(^|[._])(r1|r5|r10|accuracy)(_ci95|_1k|_querybank)?$")
"""The names of scores in percent."""
HASH = 32
"""The least number of digits of a hash."""
_MACROS = "pipeline.lineage/page.html"
_FOOTER = (
    'A hash shows its first 12 digits; a click shows the rest. Everything as text: <code class="command">{}</code>'
)
_PROOF = (
    "<code>sightword audit --verify {}</code> runs the stage again in a copy and compares all bytes: the only proof. "
    "All else on this page finds mistakes, and no forger."
)
Place = tuple[float, float]
"""A column from 0 and a row, which may be a half; or pixels from the left and from the top."""


def write_page(path: Path, audit: Mapping[str, Any]) -> None:
    """Write the page of an audit, whose values are those of :func:`pipeline.lineage.records.of_audit`.

    Raises:
        SetupError: the page cannot be written.
    """
    value = "not known" if audit["value"] is None else canonical_json(audit["value"])
    if isinstance(audit["value"], int | float) and PERCENT.search(audit["key"] or ""):
        value += " %"
    revision = name_of(audit["revision"]) if audit["revision"] else ""
    what, stages = audit["what"], audit["stages"]
    graphs = {kind: _graph(stages, down=kind == "down") for kind in ("across", "down")} if stages else {}
    command = f"sightword audit {what}{f' --rev {revision}' if revision else ''} --full"
    scored = scoring_lines(audit["scorings"])
    first: Mapping[str, Any] | None = next((stage["run"] for stage in stages if stage["run"]), None)
    page = html.render(
        f"How {what} was made",
        [
            html.Section("proof", "Proof", [html.text(_PROOF, stages[0]["name"])]) if stages else None,
            html.Section("scored", "Scored", [html.lines([": ".join(one) for one in scored])]) if scored else None,
            html.Section("not-known", "Not known", [html.lines(audit["not_known"])]) if audit["not_known"] else None,
            _machine(first) if first else None,
            *(_stage(stage, first) for stage in stages),
        ],
        head=f"How {audit['path'] or what} was made",
        top=html.part("top", audit, value, revision, template=_MACROS),
        lead=html.part("graph", graphs, template=_MACROS) if graphs else None,
        footer=html.text(_FOOTER, command),
    )
    write_text(path, page)


def _machine(run: Mapping[str, Any]) -> html.Section:
    """Return the section of the machine and versions that the stages share."""
    words = html.text("{}. A stage that ran otherwise says so.", machine_line(run))
    return html.Section("machine", "Machine and versions", [words, _packages(run["packages"])], menu="Machine")


def _packages(packages: Mapping[str, str], which: str = "") -> Markup:
    listing = ", ".join(f"{name} {version}" for name, version in packages.items())
    head = counted(len(packages), f"package{which}", f"packages{which}")
    return html.fold(head, html.text("{}", listing), style="part")


def _stage(stage: Mapping[str, Any], first: Mapping[str, Any] | None) -> html.Section:
    """Return the section of a stage: its facts, and its parameters, code and files as tables.

    Args:
        stage: one of an audit's stages.
        first: the run whose machine and versions the page tells at the top; None without one.
    """
    known, run, record = sheet(stage, machine_line(first) if first else ""), stage["run"], stage["record"]
    blocks = [(title, list(rows)) for title, rows in itertools.groupby(known, lambda line: line.title)]
    facts = [
        (title, rows) for title, rows in blocks if title not in TABLES and (title != "record" or record["doubted"])
    ]
    parts: html.Parts = [html.part("facts", facts, template=_MACROS)]
    for title, rows in blocks:
        if title in TABLES:
            changed = sum(line.state not in ("", "ok") for line in rows)
            summary = html.markup("{} ({})", TABLES[title], len(rows))
            if changed:
                summary += html.markup(', <span class="changed-since">{} not as they were</span>', changed)
            listed = Table("", (), [_row(line) for line in rows], style="files")
            parts.append(html.fold(summary, html.table(listed), opened=changed > 0, style="part"))
    if run and first and run["packages"] != first["packages"]:
        every = {name: run["packages"].get(name, "none") for name in {**first["packages"], **run["packages"]}}
        other = {name: one for name, one in every.items() if first["packages"].get(name, "none") != one}
        parts.append(_packages(other, " of another version"))
    if not record["doubted"]:
        parts.append(html.fold("Record of the run", html.text("{}", record_line(record)), style="part"))
    head = html.markup("{} {}", stage["name"], _state(stage["status"]))
    return html.Section(stage["name"], head, parts, menu=stage["name"])


def _row(line: Line) -> Row:
    name, *cells = line.cells
    shown: list[Cell | str] = list(cells)
    if cells and line.title != "params" and len(cells[0]) >= HASH:
        shown[0] = html.part("digits", cells[0])
    if cells and line.source:
        shown[-1] = html.markup('<a href="#{}">{}</a>', line.source, cells[-1])
    return Row(name, [*shown, _state(line.state) if line.state else ""])


def _state(words: str) -> Markup:
    return html.markup('<span class="state {}">{}</span>', words.replace(" ", "-"), words)


def _graph(stages: Sequence[Mapping[str, Any]], *, down: bool) -> dict[str, Any]:
    """Return the boxes and lines of the graph in pixels, from left to right, or ``down`` a narrow screen."""
    states = {stage["name"]: stage["status"] for stage in stages}
    laid = lay_out({stage["name"]: [dep["stage"] for dep in stage["deps"] if "stage" in dep] for stage in stages[::-1]})
    wide, high = (laid.rows, laid.columns) if down else (laid.columns, laid.rows)
    step, row = (WIDTH + GAP, HEIGHT + DROP) if down else (COLUMN, ROW)

    def corner(place: Place) -> Place:
        across, along = place[::-1] if down else place
        return EDGE + across * step, EDGE + along * row

    return {
        "width": (wide - 1) * step + WIDTH + 2 * EDGE,
        "height": (high - 1) * row + HEIGHT + 2 * EDGE,
        "boxes": [
            {"name": name, "state": states[name], "x": x, "y": y}
            for name, place in laid.places.items()
            for x, y in [corner(place)]
        ],
        "lines": [_curve([corner(place) for place in line], down=down) for line in laid.lines],
        "box": {"width": WIDTH, "height": HEIGHT},
    }


def _curve(corners: Sequence[Place], *, down: bool) -> str:
    """Return a path from the far side of the first box to the near side of the last one, straight past the others."""
    if down:
        points = [(x + WIDTH / 2, y) for x, y in corners]
        path = f"M {points[0][0]:g} {points[0][1]:g}"
        for (x, above), (to, below) in itertools.pairwise(points):
            half = (above + HEIGHT + below) / 2
            path += f" V {above + HEIGHT:g} C {x:g} {half:g}, {to:g} {half:g}, {to:g} {below:g}"
        return path
    points = [(x, y + HEIGHT / 2) for x, y in corners]
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
    where: dict[str, Place] = {
        name: (number, row + (height - len(layer)) / 2)
        for number, layer in enumerate(layers)
        for row, name in enumerate(layer)
    }
    lines = [[where[name] for name in path] for path in paths]
    return Layout({name: where[name] for name in below}, lines, len(layers), height)
