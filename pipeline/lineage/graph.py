"""A chain of stages laid out as a graph: columns from raw data to the result, lines that cross little."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

SWEEPS = 8
Place = tuple[int, float]
"""A column from 0, and a row, which may be a half."""


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
