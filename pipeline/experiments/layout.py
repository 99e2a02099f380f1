"""The table of experiments: with all digits for programs, or with the columns that a reader needs."""

from __future__ import annotations

import re
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pipeline.experiments.results import BACKBONE, Group, deviation
from sightword.messages import and_more

WIDTH = 120
"""Letters of a line that a table fits into."""
RUNS, NAMES = "runs", "experiments"
"""The columns beside parameters and metrics."""
HEADLINE = ("dev_r10", "image_r10", "caption_r10", "sts", "sick")
"""The metrics that a table has at any width, as far as they exist."""
_GAP = 2
"""Spaces between two columns."""
_BESIDES = ("report", "epochs")
"""Sections of parameters that change no metric of a summary."""
_FILE = re.compile(r"/|\.[a-z]\w{1,4}$|^[0-9a-f]{64}$")
"""A path, the name of a file, or a sha256."""


def table(found: Sequence[Group], *, exact: bool = False) -> list[list[str]]:
    """Return the header and one row for each group: varied parameters, number of runs, metrics, names.

    A metric is ``mean ± deviation``, rounded, with the number of runs that have the metric where not all do; if
    ``exact``, mean and deviation are columns of their own, with all digits.
    """
    columns = [column for name in found[0].metrics for column in ([name, f"{name}_sd"] if exact else [name])]
    lines = [[*found[0].varied, RUNS, *columns, NAMES]]
    for group in found:
        line = [*("-" if value is None else str(value) for value in group.varied.values()), str(len(group.names))]
        for name, values in group.metrics.items():
            if exact:
                spread = deviation(values)
                line += [repr(statistics.fmean(values)) if values else "", "" if spread is None else repr(spread)]
            else:
                large = any(abs(value) >= 10 for other in found for value in other.metrics[name])
                line.append(_rounded(values, len(group.names), 1 if large else 3) if values else "-")
        lines.append([*line, " ".join(group.names)])
    return lines


def readable(
    found: Sequence[Group], width: int | None = None, *, asked: bool = False
) -> tuple[list[list[str]], list[str]]:
    """Return the table of :func:`table` with the columns that a reader needs, parameters under short names.

    Left out are columns with equal cells, and parameters that are paths, lists, of a stage that decides nothing, or
    equal where they exist, as long as the other parameters tell the rows apart.

    Args:
        found: the groups.
        width: of a screen. A wider table loses names of experiments, metrics that are not in :data:`HEADLINE`, and
            parameters without which the rows are still told apart; None: any width.
        asked: the user has named the metrics, so all of them are shown.

    Returns:
        The table, and the names of the columns that ``width`` has no room for.
    """
    cells = {column[0]: list(column) for column in zip(*table(found), strict=True)}
    params, metrics = _telling(found), list(found[0].metrics)
    if len(found) > 1 and not asked:
        metrics = [name for name in metrics if len(set(cells[name][1:])) > 1] or metrics
    runs = [] if set(cells[RUNS][1:]) == {"1"} else [RUNS]

    def lines() -> list[list[str]]:
        shown = [*params, *runs, *metrics, NAMES]
        last = [name.rpartition(".")[2] if name in params else name for name in shown]
        headers = [one if last.count(one) == 1 else name for name, one in zip(shown, last, strict=True)]
        columns = [[header, *cells[name][1:]] for header, name in zip(headers, shown, strict=True)]
        return [list(line) for line in zip(*columns, strict=True)]

    if width is None or _width(lines()) <= width:
        return lines(), []
    cells[NAMES][1:] = [and_more((name.partition("=")[0] for name in group.names), 1) for group in found]
    every = [*params, *metrics]
    for name in [] if asked else [name for name in metrics[::-1] if name not in HEADLINE]:
        if _width(lines()) > width:
            metrics.remove(name)
    for name in params[::-1]:
        if _width(lines()) > width and _distinct(found, rest := [one for one in params if one != name]) == len(found):
            params[:] = rest
    return lines(), [name for name in every if name not in (*params, *metrics)]


def _telling(found: Sequence[Group]) -> list[str]:
    """Return the varied parameters without those that a reader can spare."""
    every = list(found[0].varied)
    aside = [name for name in every if _is_aside(name, [group.varied for group in found])]
    shown = [name for name in every if name not in aside]
    for name in aside:
        if _distinct(found, [*shown, name]) > _distinct(found, shown):
            shown.append(name)
    return [name for name in every if name in shown]


def _is_aside(name: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    values = [row[name] for row in rows if row[name] is not None]
    return (
        len(set(map(repr, values))) < 2
        or name.partition(".")[0] in _BESIDES
        or (name == "features.source" and BACKBONE in rows[0])
        or any(isinstance(value, list) or (isinstance(value, str) and _FILE.search(value)) for value in values)
    )


def _distinct(found: Sequence[Group], names: Collection[str]) -> int:
    """Return how many rows some parameters tell apart."""
    return len({repr([group.varied[name] for name in names]) for group in found})


def _width(lines: Sequence[Sequence[str]]) -> int:
    return sum(max(map(len, column)) + _GAP for column in zip(*lines, strict=True)) - _GAP


def _rounded(values: Sequence[float], runs: int, digits: int) -> str:
    parts = [f"{one:.{digits}f}" for one in (statistics.fmean(values), deviation(values)) if one is not None]
    return " ± ".join(parts) + (f" ({len(values)})" if len(values) < runs else "")
