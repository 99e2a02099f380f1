"""The tables of the pages of results: rows of ``results/`` and published rows, laid out by ``results/tables.yaml``.

A cell is a text with names of scores in braces: ``{retrieval.test.full.caption_to_image.r10}``. A row over several
seeds is shown as the mean and the sample standard deviation. Marks behind a row's name: † for inputs that not everybody
has, ‡ for a row of earlier code, raised numbers for other notes; the lines below the table explain them.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from pipeline.results.published_rows import PublishedScores, published_scores
from pipeline.results.records import FOLDER, Row, Score
from sightword.errors import FileFormatError, ParamsError
from sightword.io import yaml_reader
from sightword.io.files import read_text
from sightword.messages import and_more, guess, quote
from sightword.settings import Settings

FILE = f"{FOLDER}/tables.yaml"
EARLIER = "Earlier code:"
"""The beginning of the note of a row that today's code does not make by the row's recipe: the reason, then after
a semicolon what else the reader needs."""
EACH = "$each"
"""Stands for the item of a repeated line, in labels, names of scores and names of rows."""
NOTHING = "–"
_PLACE = re.compile(r"\{([^{}]+)\}")
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class Column(Settings):
    """One column."""

    title: str
    cell: str
    """The text of a cell, with names of scores in braces; of several with ``|`` between them the first known one."""
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


class Line(Settings):
    """One line, or with ``each`` one for each item."""

    label: str
    result: str | None = None
    """The row of ``results/``, as ``topic/name``."""
    published: dict[str, str] = Field(default={})
    """The published row instead: the system, or ``system | setting``, by the file of published scores."""
    each: list[str | int] = Field(default=[])

    @model_validator(mode="after")
    def _has_one_source(self) -> Line:
        if self.result is not None and self.published:
            raise ValueError("expected result or published, not both")
        return self


class Table(Settings):
    """One table."""

    head: str = ""
    """The title of the first column."""
    columns: list[str | Column] = Field(min_length=1)
    """Columns, or names of shared ones."""
    rows: list[Line] = Field(min_length=1)
    result: str | None = None
    """The row of ``results/`` of all lines that name none, whose marks stand at the head."""
    marks: bool = True
    """Mark the rows; false for an extract of another table, which has the marks."""


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
        lines = (f"{'.'.join(map(str, item['loc']))}: {str(item['msg'])[:80]}" for item in error.errors())
        what = "\n  ".join(["does not describe tables:", and_more(lines, 20, between="\n  ")])
        raise FileFormatError(what, where=path) from None


def shown(table: Table, layout: Layout) -> set[str]:
    """Return the rows of ``results/`` that a table names; of a repeated line, one for each item."""
    columns = [layout.columns.get(one) if isinstance(one, str) else one for one in table.columns]
    names = [table.result, *(one.result for one in columns if one), *(line.result for line in table.rows)]
    items = [str(item) for line in table.rows for item in line.each] or [""]
    return {name.replace(EACH, item) for name in names if name is not None for item in items}


def markdown(name: str, layout: Layout, rows: Mapping[str, Row]) -> str:
    """Return a table in Markdown, with the lines that explain its marks.

    Args:
        name: the table's name in the layout.
        layout: all tables.
        rows: all rows of results, by ``topic/name``.

    Raises:
        ParamsError: the layout has no such table; the table names a row or a column that does not exist, or has a line
            or a column without a score.
    """
    where = f"{FILE}: {name}"
    if name not in layout.tables:
        known = ", ".join(layout.tables)
        raise ParamsError(f"no such table{guess(name, layout.tables)}", where=where, expected=f"one of {known}")
    table = layout.tables[name]
    legend = Legend(on=table.marks)
    columns = [_column(one, layout, where) for one in table.columns]
    places = [(line, str(item)) for line in table.rows for item in line.each or [""]]
    head = table.head + legend.marks(_row(table.result, "", rows, where))
    titles = [one.title + legend.marks(_row(one.result, "", rows, where)) for one in columns]
    body = []
    for line, item in places:
        own = published_scores(line.published, where=where) if line.published else _row(line.result, item, rows, where)
        below = own or _row(table.result, item, rows, where)
        sources = [below or _row(one.result, item, rows, where) for one in columns]
        repeated = [source for one, source in zip(columns, sources, strict=True) if EACH in (one.result or "")]
        label = line.label.replace(EACH, item) + legend.marks(own, *repeated)
        body.append([label, *(_cell(one, source, item) for one, source in zip(columns, sources, strict=True))])
    _refuse_empty([[head, *titles], *body], where)
    lines = [f"| {' | '.join(cells)} |" for cells in [[head, *titles], *body]]
    rule = "|" + "---|" * (len(columns) + 1)
    return "\n".join([lines[0], rule, *lines[1:], *legend.lines()])


def _column(one: str | Column, layout: Layout, where: str) -> Column:
    if isinstance(one, Column):
        return one
    if one not in layout.columns:
        expected = f"one of {', '.join(layout.columns)}"
        raise ParamsError(f"no such column{guess(one, layout.columns)}: {quote(one)}", where=where, expected=expected)
    return layout.columns[one]


def _row(key: str | None, item: str, rows: Mapping[str, Row], where: str) -> Row | None:
    """Return a row by its key; None without a key, and where a repeated line has no such row."""
    if key is None or (EACH in key and not item):
        return None
    name = key.replace(EACH, item)
    if name not in rows and EACH not in key:
        raise ParamsError(f"no such row of results{guess(name, rows)}: {quote(name)}", where=where)
    return rows.get(name)


def _refuse_empty(lines: Sequence[Sequence[str]], where: str) -> None:
    """Refuse a line or a column without any score, which a misspelt name of a score leaves."""
    for what, many in (("line", lines[1:]), ("column", [*zip(*lines, strict=True)][1:])):
        for cells in many:
            if all(cell == NOTHING for cell in cells[1:]):
                raise ParamsError(f"the {what} {quote(cells[0])} has no score", where=where)


def pooled(row: Row, key: str) -> Score | None:
    """Return the mean of a score over a row's runs, with the sample standard deviation over all seeds.

    The deviation is absent for one seed, and where that of a run over several seeds is unknown. The interval's ends are
    the means of those of the runs. None if no run has the score.
    """
    found = [(len(run.seeds), run.scores[key]) for run in row.runs if key in run.scores]
    if len(found) < 2:
        return found[0][1] if found else None
    count = sum(seeds for seeds, _ in found)
    mean = statistics.fmean([one.value for _, one in found], [seeds for seeds, _ in found])
    known = all(seeds == 1 or one.sd is not None for seeds, one in found)
    squares = [(seeds - 1) * (one.sd or 0.0) ** 2 + seeds * (one.value - mean) ** 2 for seeds, one in found]
    ends = [(one.low, one.high) for _, one in found if one.low is not None and one.high is not None]
    low, high = map(statistics.fmean, zip(*ends, strict=True)) if len(ends) == len(found) else (None, None)
    return Score(value=mean, low=low, high=high, sd=math.sqrt(sum(squares) / (count - 1)) if known else None)


def _cell(column: Column, source: Row | PublishedScores | None, item: str) -> str:
    def score_of(names: str) -> Score | None:
        keys = names.replace(EACH, item).split("|")
        found = (pooled(source, key) if isinstance(source, Row) else source.scores.get(key) for key in keys if source)
        return next((one for one in found if one is not None), None)

    scores = [score_of(names) for names in _PLACE.findall(column.cell)]
    if not any(scores):
        return NOTHING
    texts = iter([_number(one, column, last=number == len(scores)) for number, one in enumerate(scores, 1)])
    return _PLACE.sub(lambda _: next(texts), column.cell)


def _number(score: Score | None, column: Column, *, last: bool) -> str:
    if score is None:
        return NOTHING

    def text(value: float) -> str:
        return f"{value * column.factor:,.{column.digits}f}"

    if column.interval:
        ends = last and score.low is not None and score.high is not None
        return (
            f"{text(score.value)} (± {text(((score.high or 0) - (score.low or 0)) / 2)})" if ends else text(score.value)
        )
    return text(score.value) if score.sd is None or not column.deviation else f"{text(score.value)} ± {text(score.sd)}"


class Legend:
    """Gives marks to rows, and explains the marks that it gave."""

    def __init__(self, *, on: bool = True) -> None:
        self._on = on
        self._private: dict[str, dict[str, None]] = {}
        self._earlier: dict[str, None] = {}
        self._notes: dict[str, None] = {}

    def marks(self, *sources: Row | PublishedScores | None) -> str:
        """Return the marks behind the name of one row, or of several in one line."""
        marks = dict.fromkeys(mark for source in sources for mark in self._marks_of(source))
        return f" {''.join(marks)}" if marks else ""

    def _marks_of(self, source: Row | PublishedScores | None) -> list[str]:
        found: list[str] = []
        if not self._on or source is None:
            return found
        if isinstance(source, Row) and source.private:
            for path, why in source.private.items():
                self._private.setdefault(why, {})[f"`{path}`"] = None
            found.append("†")
        note = source.note or ""
        if note.startswith(EARLIER):
            why, _, note = note.removeprefix(EARLIER).strip().partition("; ")
            self._earlier[why] = None
            found.append("‡")
        if note:
            unmade = "No recipe makes the row. " if isinstance(source, Row) and source.recipe is None else ""
            note = unmade + _sentence(note)
            self._notes[note] = None
            found.append(str([*self._notes].index(note) + 1).translate(_RAISED))
        return found

    def lines(self) -> list[str]:
        """Return a paragraph for each mark."""
        private = [_sentence(f"{', '.join(paths)}: {why}") for why, paths in self._private.items()]
        earlier = [_sentence(why) for why in self._earlier]
        found = [f"† Neither git nor `sightword fetch` has these inputs. {' '.join(private)}"] if private else []
        found += [f"‡ Today's code gives other numbers by the same recipe. {' '.join(earlier)}"] if earlier else []
        found += [f"{str(number).translate(_RAISED)} {note}" for number, note in enumerate(self._notes, 1)]
        return [f"\n{one}" for one in found]


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else f"{text}."
