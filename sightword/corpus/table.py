"""Reads a user's own table: CSV or Parquet with the columns ``image``, ``caption`` and ``split``."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from sightword.corpus.documents import one_file
from sightword.corpus.records import Caption, Image, check_path, split_name
from sightword.errors import CorpusError
from sightword.io.files import read_table as read_parquet
from sightword.io.files import read_text
from sightword.messages import and_more, quote

COLUMNS = ("image", "caption", "split")
_TODO = "A table needs the columns image, caption and split, one row a caption."

_Row = tuple[str, str, str | None, str]
"""Image, caption, split, and the place for messages."""


def read_table(folder: Path, file_name: str | None) -> tuple[list[Image], list[Caption]]:
    """Read a table with one row for each caption; ``image`` is the path below the folder of pictures.

    A row with an empty split leaves its picture out. A repeated row is a duplicate. Other columns are ignored.
    ``file_name`` is None for the only ``.csv`` or ``.parquet`` in the folder.

    Raises:
        CorpusError: a column is missing, a row is incomplete, or a split is unknown.
        FileFormatError: the file is missing or of another format.
    """
    file = one_file(folder, file_name, ("*.csv", "*.parquet"), _TODO)
    suffix = file.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise CorpusError(f"is a {suffix or 'nameless'} file", where=file, expected="a table in .csv or .parquet")
    images: dict[tuple[str, str | None], Image] = {}
    captions: list[Caption] = []
    for image, caption, split, where in (_csv_rows if suffix == ".csv" else _parquet_rows)(file):
        name, our_split = check_path(image, where), split_name(split, where)
        # A picture has many rows; only contradicting rows make a second record.
        images.setdefault((name, our_split), Image(name, name, our_split, where))
        captions.append(Caption(name, caption, caption, where))
    if not captions:
        raise CorpusError("has no rows", where=file, todo=_TODO)
    return list(images.values()), captions


def _csv_rows(file: Path) -> Iterator[_Row]:
    reader = csv.reader(io.StringIO(read_text(file, todo=_TODO), newline=""), strict=True)
    try:
        header = next(reader, [])
        missing = [name for name in COLUMNS if name not in header]
        if wrong := missing or [name for name in COLUMNS if header.count(name) > 1]:
            what = f"has {'no column' if missing else 'two columns'} {', '.join(wrong)}"
            what += f" (it has: {and_more(header, 20) or 'none'})"
            raise CorpusError(what, where=f"{file}, line 1", expected="one of each name", todo=_TODO)
        image, caption, split = (header.index(name) for name in COLUMNS)
        for row in reader:
            where = f"{file}, line {reader.line_num}"
            if row and len(row) != len(header):
                what, expected = f"the row has {len(row)} fields", f"{len(header)}, as in the header"
                todo = "Put captions that hold commas in double quotes."
                raise CorpusError(what, where=where, expected=expected, todo=todo)
            if row:
                yield row[image], row[caption], row[split], where
    except csv.Error as error:
        raise CorpusError(f"is not valid CSV ({error})", where=f"{file}, line {reader.line_num}") from None


def _parquet_rows(file: Path) -> Iterator[_Row]:
    table = read_parquet(file, COLUMNS, todo=_TODO)
    columns = [table.column(name).to_pylist() for name in COLUMNS]
    for number, (image, caption, split) in enumerate(zip(*columns, strict=True), start=1):
        where = f"{file}, row {number}"
        for name, value in (("image", image), ("caption", caption), ("split", split)):
            if not isinstance(value, str) and not (value is None and name != "image"):
                raise CorpusError(f"{name} is {quote(value)}", where=where, expected="a text")
        yield image, caption or "", split, where
