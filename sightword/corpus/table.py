"""Reads tables of pictures and captions as people have them: CSV, TSV, Parquet, and what ``datasets`` writes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from sightword.corpus.columns import UNKNOWN, Records, Role, Row, find
from sightword.corpus.flickr8k import numbered_captions
from sightword.corpus.listing import Listing
from sightword.corpus.records import Caption, Image, split_of
from sightword.corpus.settings import within
from sightword.corpus.splits import Drawn
from sightword.errors import CorpusError
from sightword.io.opening import lines
from sightword.io.tables import Table, cells
from sightword.messages import and_more, quote

TEXT = re.compile(r".*\.(?:csv|tsv)(?:\.gz)?|captions\.txt|results.*\.token", re.IGNORECASE)
"""The names of text files that are tables."""
BINARY = re.compile(r".*\.parquet", re.IGNORECASE)
"""The names of Parquet files."""
ARROW = "Write them as Parquet, by `load_from_disk(FOLDER)[SPLIT].to_parquet(FILE)`."
_TODO = "A table has a column of pictures and one or more of captions; docs/data.md has examples."
_NUMBERED = re.compile(r"[^\t]+#\d+\t")


class Listed(Drawn):
    """Tables with a row for each picture or for each caption.

    A row with an empty split leaves its picture out. A repeated row is a duplicate. Other columns are ignored.
    """

    format: Literal["table"] = "table"
    """CSV, TSV or Parquet files with columns of pictures and captions."""

    file: str | None = Field(None, min_length=1)
    """The file in ``path``, or a pattern such as ``data/*.parquet``, where the tables there are not all meant."""

    columns: dict[Role, str] = Field({})
    """The names of columns that have no usual name, such as ``{image: photo, caption: alt}``; also ``split``,
    ``language`` for the code of the captions' language, and ``name`` for the names of pictures whose bytes are in the
    table."""

    @field_validator("file")
    @classmethod
    def _in_path(cls, file: str | None) -> str | None:
        if file is not None and not within(file, "."):
            raise ValueError(f"{quote(file)} leaves the folder corpus.path, in which DVC sees each change")
        return file

    def files(self) -> list[str]:
        """Return the tables; CorpusError if there is none, or several text files that are not those of splits."""
        found = self._found()
        if any(name.endswith(".arrow") for name in found) or (not found and next(self.folder.rglob("*.arrow"), None)):
            raise CorpusError("holds Arrow files", where=self.folder, expected="Parquet files", todo=ARROW)
        if not found or (len(found) > 1 and len({BINARY.fullmatch(name) is None for name in found}) > 1):
            names = and_more(found, 5) or "none"
            what = f"must have tables of one kind (.csv, .tsv, .parquet) but has {names}"
            todo = "Name the right ones in corpus.file." if found else "Put the table there, or correct corpus.path."
            raise CorpusError(what, where=self.folder, todo=todo)
        if len(found) > 1 and not BINARY.fullmatch(found[0]) and not all(map(split_of, found)):
            what = f"must have one table, or tables named by splits, but has {and_more(found, 5)}"
            raise CorpusError(what, where=self.folder, todo="Name the right one in corpus.file.")
        return found

    def _found(self) -> list[str]:
        if self.file is not None:
            exact = self.folder / self.file
            files = [exact] if exact.is_file() else [path for path in self.folder.glob(self.file) if path.is_file()]
            if not files:
                raise CorpusError(f"has no file {self.file} (corpus.file)", where=self.folder)
            return sorted(path.relative_to(self.folder).as_posix() for path in files)
        pictures = Path(self.pictures)
        found: list[str] = []
        for above, folders, names in os.walk(self.folder):
            inner = Path(above)
            # a folder of pictures alone has no tables, and hidden folders are those of programs
            folders[:] = sorted(one for one in folders if not one.startswith(".") and inner / one != pictures)
            here = [name for name in names if not name.startswith(".") and inner / name != pictures]
            text = [name for name in here if TEXT.fullmatch(name) and inner == self.folder]
            found += [
                (inner / name).relative_to(self.folder).as_posix() for name in here if BINARY.fullmatch(name)
            ] + text
        return sorted(found)

    def listing(self) -> Listing | None:
        """List the pictures: those in the tables, if the tables hold pictures, else the files."""
        from sightword.corpus import parquet

        names = self.files()
        files = [self.folder / name for name in names]
        if BINARY.fullmatch(files[0].name):
            layouts = [parquet.layout(file, self.columns) for file in files]
            for file, one in zip(files, layouts, strict=True):
                if one != layouts[0]:
                    what = f"has other columns than {files[0].name}"
                    raise CorpusError(what, where=file, todo="Name the files of one kind in corpus.file.")
            if layouts[0].data:
                splits = self._splits(names, named=layouts[0].columns.split is not None)
                drawn = bool(self.draw_dev or self.draw_test)
                return parquet.held(self.folder, [*zip(files, layouts, splits, strict=True)], hashed=drawn)
        return super().listing()

    def read(self, _listing: Listing | None, /) -> tuple[Sequence[Image], Sequence[Caption]]:
        """Read the tables.

        Raises:
            CorpusError: a column is missing, a row is incomplete, a split is unknown, or nothing names a split.
            FileFormatError: a file is missing or damaged.
        """
        from sightword.corpus import parquet

        names = self.files()
        records = Records()
        for number, name in enumerate(names):
            file = self.folder / name
            if BINARY.fullmatch(name):
                rows = parquet.rows(file, parquet.layout(file, self.columns))
            else:
                rows = text_rows(file, self.columns)
            split = None
            for row in rows:
                if row.split is None and split is None:
                    split = self._splits(names, named=False)[number]
                records.add(row, split or "")
        return [*records.images.values()], records.captions

    def _splits(self, names: list[str], *, named: bool) -> list[str]:
        """Return the split of rows that name none, for each file: that of the file's name, or train before a draw."""
        found = [split_of(name) for name in names]
        if named:
            return [""] * len(names)
        if not any(found):
            return [self.undrawn(self.folder)] * len(names)
        if unknown := [name for name, split in zip(names, found, strict=True) if not split]:
            what = f"{unknown[0]} names no split, and {names[found.index(next(filter(None, found)))]} does"
            raise CorpusError(what, where=self.folder, todo="Name the right files in corpus.file.")
        return [split or "" for split in found]


def text_rows(file: Path, given: Mapping[Role, str]) -> Iterator[Row]:
    """Yield the rows of a text file; blanks around a cell do not count.

    The first line has the names of the columns; a file of lines ``name.jpg#0<TAB>caption`` has none.

    Raises:
        CorpusError: the file cannot be read, a column is missing, or a row is incomplete.
    """
    first = next((line for _, line in lines(file, CorpusError, todo=_TODO) if line.strip()), "")
    if _NUMBERED.match(first):
        yield from (Row(one.where, one.image_id, [one.text], None) for one in numbered_captions(file))
        return
    at, header = next(cells(file, CorpusError, todo=_TODO), (1, []))
    columns = find([name.strip() for name in header], given, f"{file}, line {at}")
    names = [columns.image, *columns.captions, *filter(None, (columns.split, columns.language))]
    for where, (name, *others) in Table(tuple(names), CorpusError, empty=tuple(names[1:]), todo=_TODO).rows(file):
        language = (others.pop() or UNKNOWN) if columns.language else ""
        split = others.pop() if columns.split else None
        yield Row(where, name, others, split, language)
