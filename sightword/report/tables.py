"""The tables of pages: rows of a run, of controls and of published systems; values with intervals and stars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from markupsafe import Markup

Kind = Literal["", "ours", "chance", "published", "aggregate"]
"""The system of a row, by which the style tells rows apart: ``ours`` is the run that the page is about."""


class Cell(NamedTuple):
    """A value with its interval, stars and style."""

    text: str
    small: Sequence[str] = ()
    """Lines below the value, such as its interval."""
    stars: str = ""
    """Of :func:`sightword.report.number_formats.stars`."""
    style: str = ""
    """Classes of the style."""
    hint: str = ""
    """Words that a pointer over the value shows, such as the meaning of a column."""


class Row(NamedTuple):
    """A row; if it has fewer cells than the table has columns, the last cell spans the others."""

    name: str
    cells: Sequence[Cell | str]
    kind: Kind = ""
    detail: str = ""
    """A few words behind the name, such as the source of a published row."""


class Table(NamedTuple):
    """A table of a page."""

    caption: str
    columns: Sequence[Cell | str]
    """The heads of all columns, with that of the names; a table of facts has none."""
    rows: Sequence[Row] = ()
    """The rows of a table without groups."""
    groups: Sequence[tuple[str, Sequence[Row]]] = ()
    """Further rows, each group under its head; a group with an empty head has none."""
    style: str = ""
    """Classes: ``sortable``; ``across`` for groups that a sorted table mixes; ``narrow``, ``wide``, ``worst``."""

    @property
    def blocks(self) -> list[tuple[str, Sequence[Row]]]:
        """Return all groups that have rows, those without a head first."""
        return [(head, rows) for head, rows in (("", self.rows), *self.groups) if rows]


def marked(data: str) -> Markup:
    """Return the head of published rows: their data set, with a mark."""
    return Markup('{} <em class="mark">published</em>').format(data)


def quotes(*texts: str) -> Markup:
    """Return captions or sentences as the name of a row, each on its line."""
    return Markup().join(Markup('<q dir="auto">{}</q>').format(text) for text in texts)


def breakable(name: str) -> Markup:
    """Return a name that may break after a dot."""
    return Markup(".<wbr>").join(name.split("."))
