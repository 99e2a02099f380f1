"""Reads tables of pictures and captions in text files: commas, tabs, or Flickr30k's bars."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from sightword.corpus.columns import Role, find
from sightword.corpus.flickr8k import numbered_captions
from sightword.corpus.rows import UNKNOWN, Row
from sightword.errors import CorpusError
from sightword.io.opening import lines
from sightword.io.tables import Table, cells
from sightword.messages import plural, quote

_TODO = "A table has a column of pictures and one or more of captions; docs/data.md has examples."
_NUMBERED = re.compile(r"[^\t]+#\d+\t")
_WITHOUT_BAR = re.compile(r"(\d+)\s{2,}(\S.*)")
"""Line 20,002 of Flickr30k's ``results.csv`` as published: number and caption without the bar between them."""


def rows(file: Path, given: Mapping[Role, str]) -> Iterator[Row]:
    """Yield the rows of a text file; blanks around a cell do not count.

    The first line has the names of the columns; a file of lines ``name.jpg#0<TAB>caption`` has none.

    Raises:
        CorpusError: the file cannot be read, a column is missing, or a row is incomplete.
    """
    _, first = next(((at, line) for at, line in lines(file, CorpusError, todo=_TODO) if line.strip()), (1, ""))
    if _NUMBERED.match(first):
        yield from (Row(one.where, one.image_id, [one.text], None) for one in numbered_captions(file))
        return
    bars = "|" in first and "\t" not in first and "," not in first
    separator = "|" if bars else "\t" if "\t" in first else ","
    at, header = next(cells(file, CorpusError, separator=separator, quotes=separator == ",", todo=_TODO), (1, []))
    columns = find([name.strip() for name in header], given, f"{file}, line {at}")
    names = [columns.image, *columns.captions, *filter(None, (columns.split, columns.language))]
    if bars:
        found = _barred(file, [[name.strip() for name in header].index(name) for name in names], len(header))
    else:
        found = Table(tuple(names), CorpusError, empty=tuple(names[1:]), separator=separator, todo=_TODO).rows(file)
    for where, (name, *others) in found:
        language = (others.pop() or UNKNOWN) if columns.language else ""
        split = others.pop() if columns.split else None
        yield Row(where, name, others, split, language)


def _barred(file: Path, places: list[int], width: int) -> Iterator[tuple[str, list[str]]]:
    source = cells(file, CorpusError, separator="|", quotes=False)
    next(source)
    for number, row in source:
        if len(row) == width - 1 and (found := _WITHOUT_BAR.fullmatch(row[-1].strip())):
            row[-1:] = found.groups()
        if len(row) != width or not row[places[0]].strip():
            what = f"has {plural(len(row), 'cell')}: {quote('|'.join(row))}"
            raise CorpusError(what, where=f"{file}, line {number}", expected=f"{width}, as in the header")
        yield f"{file}, line {number}", [row[place].strip() for place in places]
