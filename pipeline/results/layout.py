"""The layout of the tables of results, ``results/tables.yaml``: columns with names of scores, lines with rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from pipeline.results.records import FOLDER
from sightword.errors import FileFormatError
from sightword.io import yaml_reader
from sightword.io.files import read_text
from sightword.messages import and_more
from sightword.settings import Settings, explain

FILE = f"{FOLDER}/tables.yaml"
EACH = "$each"
"""Stands for the item of a repeated line, in labels, names of scores and names of rows."""


class Column(Settings):
    """One column."""

    title: str
    cell: str = ""
    """The text of a cell, with names of scores in braces; of several with ``|`` between them the first known one.
    With ``*`` or ``?`` a name stands for the mean of all scores that it matches."""
    factor: float = 1.0
    """What the scores are multiplied by: 100 for correlations."""
    digits: int = Field(default=1, ge=0)
    """Digits behind the point."""
    interval: bool = False
    """Show half the width of the 95 % interval of the last score, instead of deviations over seeds."""
    deviation: bool = True
    """Show the deviations over seeds."""
    result: str | None = None
    """The row of ``results/`` that the column shows, where the lines of the table name none."""


class Source(Settings):
    """What a line or a cell shows: a row of ``results/`` or a published one."""

    result: str | None = None
    """The row of ``results/``, as ``topic/name``."""
    published: dict[str, str] = Field(default={})
    """The published row instead: the system, or ``system | setting``, by the file of published scores."""

    @model_validator(mode="after")
    def _has_one_source(self) -> Source:
        if self.result is not None and self.published:
            raise ValueError("expected result or published, not both")
        return self


class Line(Source):
    """One line, or with ``each`` one for each item."""

    label: str
    each: list[str | int] = Field(default=[])
    cell: str | None = None
    """The text of the line's cells, instead of that of the columns."""
    factor: float | None = None
    """What the line's scores are multiplied by, instead of the factor of the columns."""
    sources: list[Source] = Field(default=[])
    """One source for each column, for a line that shows one score of several rows."""
    why: str = ""
    """The line's words in the last column of a table with ``why``."""


class Table(Settings):
    """One table."""

    head: str = ""
    """The title of the first column."""
    columns: list[str | Column] = Field(min_length=1)
    """Columns, or names of shared ones."""
    rows: list[Line] = Field(default=[])
    topics: bool = False
    """Instead of rows a line for each topic of ``results/``, and their sum: how many encoders have a column's scores.
    A name in the cell is the beginning of names of scores, by whole parts. Each seed, and each part that ``*`` stands
    for, is an encoder; a score ``note.*`` is a count itself."""
    result: str | None = None
    """The row of ``results/`` of all lines that name none, whose marks stand at the head."""
    marks: bool = True
    """Mark the rows; false for an extract of another table, which has the marks."""
    why: str = ""
    """The title of a last column of words; without a title there is no such column."""

    @model_validator(mode="after")
    def _has_rows_with_a_source_a_column(self) -> Table:
        if self.topics == bool(self.rows):
            raise ValueError("expected rows, or topics: true")
        for line in self.rows:
            if line.sources and len(line.sources) != len(self.columns):
                raise ValueError(f"{line.label[:80]}: {len(line.sources)} sources for {len(self.columns)} columns")
        return self


class Layout(Settings):
    """The whole file: shared columns, and the tables by name."""

    columns: dict[str, Column] = Field(default={})
    tables: dict[str, Table]
    shared: list[Any] = Field(default=[])
    """Lists that tables name by YAML's aliases."""


def load(project: Path) -> Layout:
    """Read the layout of a project's tables.

    Raises:
        FileFormatError: the file is missing, is not YAML, or has other keys or values; each has a line.
    """
    path = project / FILE
    try:
        return Layout.model_validate(yaml_reader.parse(read_text(path), path))
    except ValidationError as error:
        lines = dict.fromkeys(explain(Layout, item) for item in error.errors())
        what = "\n  ".join(["does not describe tables:", and_more(lines, 20, between="\n  ")])
        raise FileFormatError(what, where=path) from None


def shown(table: Table, layout: Layout) -> set[str]:
    """Return the rows of ``results/`` that a table names; of a repeated line, one for each item."""
    columns = [layout.columns.get(one) if isinstance(one, str) else one for one in table.columns]
    own = [one.result for line in table.rows for one in (line, *line.sources)]
    names = [table.result, *(one.result for one in columns if one), *own]
    items = [str(item) for line in table.rows for item in line.each] or [""]
    return {name.replace(EACH, item) for name in names if name is not None for item in items}
