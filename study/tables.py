"""The tables of the pages of results: rows and published rows, laid out by ``pages/tables.yaml``.

A table stands on a page between ``<!-- table: NAME -->`` and ``<!-- end -->``. A cell is a text with names of scores in
braces: ``{retrieval.test.full.caption_to_image.r10}``. A row over several seeds is shown as the mean and the sample
standard deviation. Marks behind a row's name: † for inputs that not everybody has, ‡ for a row of earlier code, § for a
row without hashes, raised numbers for other notes; a page explains a mark below the first table that
has it. Signs that all rows have stand at the head.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from sightword.errors import FileFormatError, ParamsError
from sightword.evaluation.published import PublishedRow, published
from sightword.io import yaml_reader
from sightword.io.files import read_text
from sightword.messages import and_more, guess, quote
from sightword.settings import Settings, explain
from study.origins import EARLIER
from study.rows import Row, Run, Score

FILE = "study/pages/tables.yaml"
_SENTENCES = {"pearson": "semantics.STSBenchmark.cosine.pearson", "spearman_mean": "summary.seven"}
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
    interval: bool = False
    """Show half the width of the 95 % interval of the last score, instead of deviations over seeds."""
    deviation: bool = True
    result: str | None = None
    """The row of ``study/results`` that the column shows, where the lines of the table name none."""


class Source(Settings):
    """What a line or a cell shows: a row of ``study/results`` or a published one."""

    result: str | None = None
    published: dict[str, str] = Field(default={})
    """The published row instead: the system, or ``system | setting``, by the file of published scores."""


class Line(Source):
    """One line, or with ``each`` one for each item."""

    label: str
    each: list[str | int] = Field(default=[])
    cell: str | None = None
    factor: float | None = None
    sources: list[Source] = Field(default=[])
    """One source for each column, for a line that shows one score of several rows."""
    why: str = ""


class Table(Settings):
    """One table."""

    head: str = ""
    columns: list[str | Column] = Field(min_length=1)
    rows: list[Line] = Field(default=[])
    topics: bool = False
    """Instead of rows a line for each topic, and their sum: how many encoders have a column's scores.
    A name in the cell is the beginning of names of scores, by whole parts. Each seed, and each part that ``*`` stands
    for, is an encoder; a score ``note.*`` is a count itself."""
    result: str | None = None
    """The row of ``study/results`` of all lines that name none, whose marks stand at the head."""
    marks: bool = True
    """Mark the rows; false for an extract of another table, which has the marks."""
    why: str = ""
    """The title of a last column of words; without a title there is no such column."""


class Layout(Settings):
    """The whole file: shared columns, and the tables by name."""

    columns: dict[str, Column] = Field(default={})
    tables: dict[str, Table]
    shared: list[Any] = Field(default=[])
    """Lists that tables name by YAML's aliases."""


def load(project: Path) -> Layout:
    """Read the layout of a project's tables; FileFormatError where it is wrong."""
    path = project / FILE
    try:
        return Layout.model_validate(yaml_reader.parse(read_text(path), path))
    except ValidationError as error:
        lines = dict.fromkeys(explain(Layout, item) for item in error.errors())
        what = "\n  ".join(["does not describe tables:", and_more(lines, 20, between="\n  ")])
        raise FileFormatError(what, where=path) from None


def shown(table: Table, layout: Layout) -> set[str]:
    """Return the rows of ``study/results`` that a table names; of a repeated line, one for each item."""
    columns = [layout.columns.get(one) if isinstance(one, str) else one for one in table.columns]
    own = [one.result for line in table.rows for one in (line, *line.sources)]
    names = [table.result, *(one.result for one in columns if one), *own]
    items = [str(item) for line in table.rows for item in line.each] or [""]
    return {name.replace(EACH, item) for name in names if name is not None for item in items}


UNHASHED = "§ Without hashes of inputs and outputs."
SIGNS = {
    "†": "† Needs files that neither git nor `sightword fetch` has; the row in `study/results` names them.",
    "‡": "‡ By earlier code: today's gives other numbers, or refuses the settings; the row's note says why.",
    "§": UNHASHED,
}
"""What a sign says, in the same words for all rows, so that a page says it once."""
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class Legend:
    """Gives marks to rows, and explains the marks that it gave."""

    def __init__(self, *, on: bool = True) -> None:
        self._on = on
        self._signs: set[str] = set()
        self._notes: dict[str, None] = {}

    def marks(self, *sources: Row | PublishedScores | None) -> str:
        """Return the marks behind the name of one row, or of several in one line."""
        marks = dict.fromkeys(mark for source in sources for mark in self._marks_of(source))
        return f" {''.join(marks)}" if marks else ""

    def _marks_of(self, source: Row | PublishedScores | None) -> list[str]:
        if not self._on or source is None:
            return []
        note = source.note or ""
        found: list[str] = []
        if isinstance(source, Row):
            earlier = note.startswith(EARLIER)
            note = note.partition("; ")[2] if earlier else note
            holds = (source.private, earlier, not source.hashed)
            found = [sign for sign, one in zip(SIGNS, holds, strict=True) if one]
            self._signs.update(found)
        if note:
            unmade = isinstance(source, Row) and source.recipe is None
            note = _sentence(f"Not produced by a recipe: {note}" if unmade else note)
            self._notes[note] = None
            found.append(str([*self._notes].index(note) + 1).translate(_RAISED))
        return found

    def lines(self) -> list[str]:
        """Return a paragraph for each mark."""
        found = [text for sign, text in SIGNS.items() if sign in self._signs]
        found += [f"{str(number).translate(_RAISED)} {note}" for number, note in enumerate(self._notes, 1)]
        return [f"\n{one}" for one in found]


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else f"{text}."


@dataclass(frozen=True)
class PublishedScores:
    """The scores of one published system, and what to know before the comparison; None for nothing."""

    scores: Mapping[str, Score]
    note: str | None


def published_scores(names: Mapping[str, str], *, where: str) -> PublishedScores:
    """Return the scores of a system (or ``system | setting``) by file; ParamsError for an unknown one."""
    scores: dict[str, Score] = {}
    notes: dict[str, None] = {}
    for file, name in names.items():
        system, _, setting = (part.strip() for part in name.partition("|"))
        rows = published(file)
        found = [row for row in rows if row.system == system and setting in ("", row.setting)]
        if not found:
            near = guess(name, [f"{row.system} | {row.setting}" for row in rows])
            raise ParamsError(f"no such published row: {quote(name)}{near}", where=where)
        scores |= _named(file, found)
        notes |= dict.fromkeys(row.note for row in found if row.note)
    return PublishedScores(scores, "; ".join(notes) or None)


def _named(file: str, rows: list[PublishedRow]) -> dict[str, Score]:
    """Return the scores of a system by the names that the metrics of a run have; correlations as fractions."""
    several = len({row.setting for row in rows}) > 1
    found: dict[str, Score] = {}
    for row in rows:
        if file == "semantics":
            r, up, down = (row.scores.get(name, 0.0) / 100 for name in ("r", "up", "down"))
            key = f"semantics.{row.setting.replace(' ', '.')}.pearson"
            found[key] = Score(value=r, low=r - down, high=r + up) if up else Score(value=r)
            continue
        for name, value in row.scores.items():
            system = "order" if row.system == "order-embeddings" else row.system
            keys = {
                "retrieval": f"retrieval.test.full.{name.replace(' ', '.')}",
                "sentences": _SENTENCES.get(name, name),
                "hypernyms": f"{row.setting if several else 'published'}.{name}",
                "entailment": f"entailment/evaluate.test.{system}.{name}",
                "structure": f"published.{name}",
            }
            found[keys[file]] = Score(value=value / (100 if file in ("sentences", "structure") else 1))
    subtasks = [one.value for key, one in found.items() if key.startswith("semantics.STS1")]
    return found | ({"summary.sts": Score(value=statistics.fmean(subtasks))} if len(subtasks) == 24 else {})


NOTHING = "–"
_SPACE = "\u00a0"
"""A space at which no line breaks."""
_PLACE = re.compile(r"\{([^{}]+)\}")


def markdown(name: str, layout: Layout, rows: Mapping[str, Row]) -> str:
    """Return a table in Markdown, with the lines that explain its marks.

    Raises:
        ParamsError: the layout has no such table; the table names a row or a column that does not exist, or has a line
            or a column without a score.
    """
    where = f"{FILE}: {name}"
    if name not in layout.tables:
        known = and_more(layout.tables, 8)
        raise ParamsError(f"no such table{guess(name, layout.tables)}", where=where, expected=f"one of {known}")
    table = layout.tables[name]
    legend = Legend(on=table.marks)
    columns = [_column(one, layout, where) for one in table.columns]
    places = [(line, str(item)) for line in table.rows for item in line.each or [""]]
    head = table.head + legend.marks(_row(table.result, "", rows, where))
    titles = [one.title + legend.marks(_row(one.result, "", rows, where)) for one in columns]
    body = []
    for line, item in places:
        own = _source(line, item, rows, where)
        below = own or _row(table.result, item, rows, where)
        sources = [below or _row(one.result, item, rows, where) for one in columns]
        repeated = [source for one, source in zip(columns, sources, strict=True) if EACH in (one.result or "")]
        if line.sources:
            sources = repeated = [_source(one, item, rows, where) for one in line.sources]
        label = line.label.replace(EACH, item) + legend.marks(own, *repeated)
        own_text = {name: value for name in ("cell", "factor") if (value := getattr(line, name)) is not None}
        cells = [one.model_copy(update=own_text) for one in columns]
        body.append([label, *(_cell(one, source, item) for one, source in zip(cells, sources, strict=True))])
    if table.topics:
        body = _counted([_PLACE.findall(one.cell) for one in columns], rows)
    ends = {cells[0].rpartition(" ")[2] for cells in body}
    if len(body) > 1 and len(ends) == 1 and not (signs := ends.pop()).strip("".join(SIGNS)):
        head += f" {signs}"
        body = [[cells[0].removesuffix(f" {signs}"), *cells[1:]] for cells in body]
    _refuse_empty([[head, *titles], *body], where)
    if table.why:
        titles.append(table.why)
        body = [[*cells, line.why] for cells, (line, _) in zip(body, places, strict=True)]
    lines = [f"| {' | '.join(cells)} |" for cells in [[head, *titles], *body]]
    rule = "|" + "---|" * (len(titles) + 1)
    return "\n".join([lines[0], rule, *lines[1:], *legend.lines()])


def _counted(columns: Sequence[Sequence[str]], rows: Mapping[str, Row]) -> list[list[str]]:
    """Return a line for each topic with a counted score, and one of the sums, from the names in the columns' cells."""
    found: dict[str, list[int]] = {}
    for row in rows.values():
        own = [sum(_encoders(run, names) for run in row.runs for names in places) for places in columns]
        found[row.topic] = [*map(sum, zip(found.get(row.topic, [0] * len(own)), own, strict=True))]
    lines = [(f"`{topic}`", counts) for topic, counts in found.items() if any(counts)]
    sums = [sum(counts) for counts in zip(*found.values(), strict=True)]
    return [
        [label, *(f"{count:,}" if count else NOTHING for count in counts)]
        for label, counts in [*lines, ("together", sums)]
    ]


def _encoders(run: Run, names: str) -> int:
    """Return how many encoders of a run have a score, by the first of several names that begins any."""
    for key in names.split("|"):
        if key.startswith("note."):
            count = round(run.scores[key].value) if key in run.scores else 0
        else:
            parts = key.count(".") + 1
            begun = {".".join(name.split(".")[:parts]) for name in run.scores}
            count = sum(fnmatchcase(name, key) for name in begun) * len(run.seeds)
        if count:
            return count
    return 0


def _source(one: Source, item: str, rows: Mapping[str, Row], where: str) -> Row | PublishedScores | None:
    """Return the row that a line or a cell shows; None where a line names none."""
    return published_scores(one.published, where=where) if one.published else _row(one.result, item, rows, where)


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
    the means of those of the runs. A key with ``*`` or ``?`` stands for the mean of all scores of a run that it
    matches, without interval. None if no run has the score.
    """
    found = [(len(run.seeds), one) for run in row.runs if (one := _score(run, key)) is not None]
    if len(found) < 2:
        return found[0][1] if found else None
    count = sum(seeds for seeds, _ in found)
    mean = statistics.fmean([one.value for _, one in found], [seeds for seeds, _ in found])
    known = all(seeds == 1 or one.sd is not None for seeds, one in found)
    squares = [(seeds - 1) * (one.sd or 0.0) ** 2 + seeds * (one.value - mean) ** 2 for seeds, one in found]
    ends = [(one.low, one.high) for _, one in found if one.low is not None and one.high is not None]
    low, high = map(statistics.fmean, zip(*ends, strict=True)) if len(ends) == len(found) else (None, None)
    return Score(value=mean, low=low, high=high, sd=math.sqrt(sum(squares) / (count - 1)) if known else None)


def _score(run: Run, key: str) -> Score | None:
    if not set(key) & {"*", "?"}:
        return run.scores.get(key)
    found = [one.value for name, one in run.scores.items() if fnmatchcase(name, key)]
    return Score(value=statistics.fmean(found)) if found else None


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

    shown = text(score.value)
    if column.interval and last and score.low is not None and score.high is not None:
        return f"{shown} (±{_SPACE}{text((score.high - score.low) / 2)})"
    if column.interval or score.sd is None or not column.deviation:
        return shown
    return f"{shown}{_SPACE}±{_SPACE}{text(score.sd)}"
