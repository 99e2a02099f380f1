"""The one reader of tables of delimited text, and of the numbers in a table.

The rules are the same for every table. Rows end in LF or CR LF. A line with only blanks is no row. Cells are separated
by tabs if the first row has a tab, and by commas otherwise. With commas a cell may stand in double quotes, as in CSV,
and then hold commas and line ends; with tabs a quotation mark is a character like others, unless all names of the
first row stand in quotes. Blanks around a cell do not count.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from sightword.errors import SightwordError
from sightword.io.opening import lines
from sightword.messages import and_more, plural, quote

_SOME = 1000
"""Rows by which the shape of cells is judged."""
_WRAPS = ('""', "''", "\u201c\u201d", "[]", "{}", "()")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True)
class Table:
    """The columns and rules of a table; :meth:`rows` reads one."""

    columns: tuple[str | tuple[str, ...], ...]
    """The columns that are read, by name, or by the names that one column may have. Without a header, all columns."""
    error: type[SightwordError]
    """The class of the errors."""
    header: bool = True
    """Whether the first row has the names; other columns may then stand beside those that are read."""
    optional: tuple[str, ...] = ()
    """Columns that may be absent, as if all their cells were empty."""
    empty: tuple[str, ...] = ()
    """Columns whose cells may be empty."""
    more: bool = False
    """Whether a row without a header may have more cells."""
    quotes: bool | None = None
    """Whether cells may stand in double quotes; None: with commas, and with tabs if the header does."""
    separator: str | None = None
    """The separator; None: a tab or a comma, by the first row."""
    todo: str | None = None
    """The remedy for a table of another form."""

    def rows(self, path: Path) -> Iterator[tuple[str, list[str]]]:
        """Yield the place of each row, for messages, and its cells in the order of :attr:`columns`.

        SightwordError: of the class :attr:`error`: the file cannot be read
        (:func:`sightword.io.opening.lines`), has no row, or is not valid CSV; a column is missing or stands
        twice; a row has too few or too many cells; a cell is empty.
        """
        found = cells(path, self.error, separator=self.separator, quotes=self.quotes, todo=self.todo)
        names = [one if isinstance(one, str) else one[0] for one in self.columns]
        places, width = list(range(len(names))), len(names)
        if self.header:
            number, header = next(found, (1, []))
            places, width = self._places(header, f"{path}, line {number}"), len(header)
        filled = [name not in self.empty and place >= 0 for name, place in zip(names, places, strict=True)]
        again = sorted(_folded(header[place]) for place in places if place >= 0) if self.header else []
        read = False
        for number, row in found:
            read, where = True, f"{path}, line {number}"
            if len(row) != width and not (self.more and len(row) > width):
                expected = f"{width}, as in the header" if self.header else f"{width}: {', '.join(names)}"
                raise self.error(f"has {plural(len(row), 'cell')}", where=where, expected=expected, todo=self.todo)
            values = ["" if place < 0 else row[place].strip() for place in places]
            if len(again) > 1 and _folded(values[0]) in again and sorted(map(_folded, filter(None, values))) == again:
                todo = "Delete the line: the file may be several tables in a row."
                raise self.error("repeats the header", where=where, todo=todo)
            if "" in values:
                for name, value, needed in zip(names, values, filled, strict=True):
                    if needed and not value:
                        raise self.error(f"{name} is empty", where=where, todo="Fill the cell in, or delete the row.")
            yield where, values
        if not read:
            raise self.error("has no rows", where=path, todo=self.todo)

    def _places(self, header: Sequence[str], where: str) -> list[int]:
        """Return the place of each column, -1 for one that is absent and may be."""
        places = []
        for one in self.columns:
            accepted = (one,) if isinstance(one, str) else one
            found = [place for place, name in enumerate(header) if name.strip() in accepted]
            if len(found) > 1:
                what = f"has {accepted[0]} in {len(found)} columns"
                what += "" if len(accepted) == 1 else f": {' and '.join(header[place] for place in found)}"
                raise self.error(what, where=where, expected="one of each", todo="Delete or rename the other columns.")
            if not found and not set(accepted).intersection(self.optional):
                what = f"has no column {' or '.join(accepted)} (it has: {and_more(header, 20) or 'none'})"
                raise self.error(what, where=where, todo=semicolons(header) or self.todo)
            places.append(found[0] if found else -1)
        return places


def semicolons(header: Sequence[str]) -> str | None:
    """Return the remedy for a table that semicolons or bars separate; None for another header."""
    marks = {";": "Semicolons", "|": "Bars"}
    name = next((name for mark, name in marks.items() if len(header) == 1 and mark in header[0]), None)
    return name and f"{name} separate the cells: save the table with commas or tabs."


def cells(
    path: Path,
    error: type[SightwordError],
    *,
    separator: str | None = None,
    quotes: bool | None = None,
    todo: str | None = None,
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line, from 1, and the cells of each row; arguments as of :class:`Table`."""
    source = lines(path, error, todo=todo)
    first, header = next(((at, line) for at, line in source if _filled(line)), (1, ""))
    if separator is None:
        separator = "\t" if "\t" in header else ","
        if separator == "\t" and quotes is None:
            quotes = all(len(name) > 1 and name[0] == name[-1] == '"' for name in header.split("\t"))
    every = chain([(first, header)], source)
    if not (separator == "," if quotes is None else quotes):
        yield from ((at, line.split(separator)) for at, line in every if _filled(line))
        return
    begins = first
    reader = csv.reader((f"{line}\n" for _, line in every), delimiter=separator, skipinitialspace=True, strict=True)
    try:
        for row in reader:
            if len(row) > 1 or (row and _filled(row[0])):
                yield begins, row
            begins = first + reader.line_num
    except csv.Error as reason:
        what, remedy = f"is not valid CSV ({reason})", "Look for a quotation mark without its partner"
        remedy += ", or shorten the cell." if "larger" in str(reason) else "."
        raise error(what, where=f"{path}, line {begins}", todo=remedy) from None


def check_bare(texts: Iterable[str], where: object, error: type[SightwordError]) -> None:
    """Raise an error of the class ``error`` if all of the first texts stand whole in quotation marks or brackets."""
    some = list(islice(filter(None, texts), _SOME))
    for pair in _WRAPS:
        if len(some) > 1 and all(
            len(text) > 1 and text[0] + text[-1] == pair and not {*pair} & {*text[1:-1]} for text in some
        ):
            what, expected = f"all texts stand in {pair}, such as {quote(some[0])}", "the texts alone"
            raise error(what, where=where, expected=expected, todo="Write one plain text a cell.")


def _folded(cell: str) -> str:
    return cell.strip().casefold()


def _filled(line: str) -> bool:
    return bool(line) and not line.isspace()


def number(
    text: str, where: object, name: str, error: type[SightwordError], *, low: float = -math.inf, high: float = math.inf
) -> float:
    """Return the number that a text spells in ASCII digits; an error of the class ``error`` for ``nan``, ``1_0``,
    anything else, or a number that is not from ``low`` to ``high``. ``name`` is for messages, such as ``the score``.
    """
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value) or not low <= value <= high:
        bounds = {(True, True): f" from {low:g} to {high:g}", (True, False): f" of {low:g} or more"}
        expected = f"a number{bounds.get((math.isfinite(low), math.isfinite(high)), '')}"
        raise error(f"{name} is {quote(text)}", where=where, expected=expected)
    return value


def whole(text: str, where: object, name: str, error: type[SightwordError], *, low: int = 0) -> int:
    """Return the whole number of up to 18 digits that a text spells, ``low`` or more; see :func:`number`."""
    if not re.fullmatch("[0-9]{1,18}", text) or int(text) < low:
        raise error(f"{name} is {quote(text)}", where=where, expected=f"a whole number from {low}")
    return int(text)
