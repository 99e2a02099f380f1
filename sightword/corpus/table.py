"""Reads a user's own table: CSV or Parquet with the columns ``image``, ``caption`` and ``split``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from sightword.corpus.listing import Listing, one_file
from sightword.corpus.records import Caption, Image, check_path, split_name
from sightword.corpus.settings import CorpusSettings
from sightword.errors import CorpusError
from sightword.io.files import read_table
from sightword.io.tables import Table
from sightword.messages import quote

COLUMNS = ("image", "caption", "split")
_TODO = "A table needs the columns image, caption and split, one row a caption."
_CSV = Table(COLUMNS, CorpusError, empty=("caption", "split"), separator=",", todo=_TODO)

_Row = tuple[str, list[str]]
"""The place for messages; image, caption and split."""


class Listed(CorpusSettings):
    """A table with one row for each caption; ``image`` is the path below the folder of pictures.

    A row with an empty split leaves its picture out. A repeated row is a duplicate. Other columns are ignored.
    """

    format: Literal["table"] = "table"
    """A CSV or Parquet file with the columns image, caption, split."""

    file: str | None = Field(None, min_length=1)
    """The name of the file in ``path``, where it is not the only ``*.csv`` or ``*.parquet`` there."""

    def files(self) -> list[str]:
        """Return the file; CorpusError if it is not the only one."""
        return [one_file(self.folder, self.file, ("*.csv", "*.csv.gz", "*.parquet"), _TODO)]

    def read(self, _listing: Listing | None, /) -> tuple[list[Image], list[Caption]]:
        """Read the table.

        Raises:
            CorpusError: a column is missing, a row is incomplete, or a split is unknown.
            FileFormatError: the file is missing or of another format.
        """
        file = self.folder / self.files()[0]
        suffix = Path(file.name.removesuffix(".gz")).suffix.lower()
        if suffix not in (".csv", ".parquet"):
            raise CorpusError(f"is a {suffix or 'nameless'} file", where=file, expected="a table in .csv or .parquet")
        images: dict[tuple[str, str | None], Image] = {}
        captions: list[Caption] = []
        for where, (image, caption, split) in _CSV.rows(file) if suffix == ".csv" else _parquet_rows(file):
            name, our_split = check_path(image, where), split_name(split, where)
            # A picture has many rows; only contradicting rows make a second record.
            images.setdefault((name, our_split), Image(name, name, our_split, where))
            captions.append(Caption(name, caption, caption, where))
        return list(images.values()), captions


def _parquet_rows(file: Path) -> Iterator[_Row]:
    table = read_table(file, COLUMNS, todo=_TODO)
    if not table.num_rows:
        raise CorpusError("has no rows", where=file, todo=_TODO)
    columns = [table.column(name).to_pylist() for name in COLUMNS]
    for number, row in enumerate(zip(*columns, strict=True), start=1):
        where = f"{file}, row {number}"
        for name, value in zip(COLUMNS, row, strict=True):
            if not isinstance(value, str) and not (value is None and name != "image"):
                raise CorpusError(f"{name} is {quote(value)}", where=where, expected="a text")
        yield where, [(value or "").strip() for value in row]
