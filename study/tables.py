"""The tables of the pages of results: rows of ``results/`` and published rows, laid out by ``results/tables.yaml``.

A cell is a text with names of scores in braces: ``{retrieval.test.full.caption_to_image.r10}``. A row over several
seeds is shown as the mean and the sample standard deviation. Marks behind a row's name: † for inputs that not everybody
has, ‡ for a row of earlier code, § for a row without hashes, raised numbers for other notes; the lines below the table
explain them.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from pipeline.results.layout import EACH, FILE, Column, Layout, Source
from pipeline.results.marks import Legend
from pipeline.results.published_rows import PublishedScores, published_scores
from pipeline.results.records import Row, Run, Score
from sightword.errors import ParamsError
from sightword.messages import and_more, guess, quote

NOTHING = "–"
_SPACE = "\u00a0"
"""A space at which no line breaks."""
_PLACE = re.compile(r"\{([^{}]+)\}")


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

    if column.interval:
        ends = last and score.low is not None and score.high is not None
        return (
            f"{text(score.value)} (±{_SPACE}{text(((score.high or 0) - (score.low or 0)) / 2)})"
            if ends
            else text(score.value)
        )
    return (
        text(score.value)
        if score.sd is None or not column.deviation
        else f"{text(score.value)}{_SPACE}±{_SPACE}{text(score.sd)}"
    )
