"""Reads tables of pictures and captions as people have them: CSV, TSV, Parquet, and what ``datasets`` writes."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from sightword.corpus import delimited
from sightword.corpus.columns import Role
from sightword.corpus.drawing import Drawn
from sightword.corpus.listing import Listing
from sightword.corpus.records import SPLIT_OF, Caption, Image
from sightword.corpus.rows import Records
from sightword.corpus.settings import within
from sightword.errors import CorpusError
from sightword.messages import and_more, quote

TEXT = re.compile(r".*\.(?:csv|tsv)(?:\.gz)?|captions\.txt|results.*\.token", re.IGNORECASE)
"""The names of text files that are tables."""
BINARY = re.compile(r".*\.(?:parquet|arrow)", re.IGNORECASE)
"""The names of Parquet and Arrow files."""
_WORD = re.compile(r"[A-Za-z]+")


class Listed(Drawn):
    """Tables with a row for each picture or for each caption.

    A row with an empty split leaves its picture out. A repeated row is a duplicate. Other columns are ignored.
    """

    format: Literal["table"] = "table"
    """CSV, TSV, Parquet or Arrow files with columns of pictures and captions."""

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
        if not found or (len(found) > 1 and len({BINARY.fullmatch(name) is None for name in found}) > 1):
            names = and_more(found, 5) or "none"
            what = f"must have tables of one kind (.csv, .tsv, .parquet, .arrow) but has {names}"
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

    def read(self, listing: Listing | None, /) -> tuple[Sequence[Image], Sequence[Caption]]:
        """Read the tables.

        Raises:
            CorpusError: a column is missing, a row is incomplete, a split is unknown, or nothing names a split.
            FileFormatError: a file is missing or damaged.
        """
        from sightword.corpus import parquet

        if isinstance(listing, parquet.Held):
            return listing.records.images, listing.records.captions
        names = self.files()
        records = Records()
        for number, name in enumerate(names):
            file = self.folder / name
            if BINARY.fullmatch(name):
                rows = parquet.rows(file, parquet.layout(file, self.columns))
            else:
                rows = delimited.rows(file, self.columns)
            split = None
            for row in rows:
                if row.split is None and split is None:
                    split = self._splits(names, named=False)[number]
                records.add(row, split or "")
        return records.images, records.captions

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


def split_of(name: str) -> str | None:
    """Return the split that a path names, such as ``data/train-00000-of-00005.parquet`` or ``val/0.parquet``."""
    for part in reversed(Path(name).parts):
        words = [word.lower() for word in _WORD.findall(part)]
        if found := {SPLIT_OF[word] for word in words if word in SPLIT_OF}:
            return found.pop() if len(found) == 1 else None
    return None
