"""Reads tables of pictures and captions as people have them: CSV, TSV, Parquet, and the data sets of Hugging Face.

In Parquet a picture is the name of a file, or its bytes are in the table: as a struct of bytes and path, or as bare
bytes. Rows are read in pieces, so that memory does not grow with the bytes, which are hashed.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator
from tqdm import tqdm

from sightword.corpus.columns import AGAIN, BINARY, TODO, Layout, Role, columns_of, is_bytes, layout, opened
from sightword.corpus.flickr8k import numbered_captions
from sightword.corpus.listing import Listing, walk
from sightword.corpus.records import Caption, Image, check_path, split_name, split_of
from sightword.corpus.settings import Drawn, within
from sightword.errors import CorpusError
from sightword.io.files import check_text, loads
from sightword.io.opening import is_inside
from sightword.io.tables import Table
from sightword.machine import is_address
from sightword.messages import and_more, quote
from sightword.places.place import Part, Place, read_listing

UNKNOWN = "und"  # the code of a language that a table leaves open, as in BCP 47
DIGITS = 16  # the length of a name that is made of a picture's bytes: the first digits of their sha256
TEXT = re.compile(r".*\.(?:csv|tsv)(?:\.gz)?|captions\.txt|results.*\.token", re.IGNORECASE)
"""The names of text files that are tables."""
ARROW = "Write them as Parquet, by `load_from_disk(FOLDER)[SPLIT].to_parquet(FILE)`."
_AT_A_TIME = {False: 1000, True: 64}  # rows: without and with the bytes of their pictures
_LIST = re.compile(r"""[\[({]\s*(?:["'[{]|\]$)""")  # how one begins, JSON's or Python's


class Row(NamedTuple):
    """A row of a table: a place for messages, and what it has; without a column of languages ``language`` is empty."""

    where: str
    name: str
    captions: list[str]
    split: str | None  # None: not named
    language: str = ""


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
        if not found and self.pictures.endswith(".csv") and Path(self.pictures).is_file():
            return [Path(self.pictures).relative_to(self.folder).as_posix()]
        kinds = {BINARY.fullmatch(name) is None for name in found}
        if not found or len(kinds) > 1:
            what = f"must have tables of one kind (.csv, .tsv, .parquet) but has {and_more(found, 5) or 'none'}"
            todo = "Name the right ones in corpus.file." if found else "Put the table there, or correct corpus.path."
            raise CorpusError(what, where=self.folder, todo=todo)
        if len(found) > 1 and kinds == {True} and not all(map(split_of, found)):
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

        def own(path: str) -> bool:
            # a folder of pictures alone has no tables, and hidden folders are those of programs
            return not Path(path).name.startswith(".") and self.folder / path != pictures

        names = (path for path, _ in walk(self.folder, own, linked=False) if own(path))
        # tables of text in the folder itself alone
        return sorted(name for name in names if BINARY.fullmatch(name) or ("/" not in name and TEXT.fullmatch(name)))

    def tables(self) -> dict[str, Path | Place]:
        """Return the tables by name, of ``path`` or of a bucket; CorpusError as of :meth:`files`."""
        names = self.files()
        if self.folder / names[0] != Path(self.pictures):
            return {name: self.folder / name for name in names}
        found = {name: place for name, place in sorted(read_listing(self.pictures).items()) if BINARY.fullmatch(name)}
        if not found:
            raise CorpusError("lists no .parquet, and no table is in its folder", where=self.pictures, todo=TODO)
        return {**found}

    def listing(self) -> Listing | None:
        """List the pictures: those in the tables, if the tables hold pictures, else the files."""
        names, files = zip(*self.tables().items(), strict=True)
        if BINARY.fullmatch(names[0]):
            layouts = [layout(file, self.columns) for file in files]
            for file, one in zip(files, layouts, strict=True):
                if one != layouts[0]:
                    what = f"has other columns than {names[0]}"
                    raise CorpusError(what, where=file, todo="Name the files of one kind in corpus.file.")
            if layouts[0].data:
                splits = self._splits(names, named=layouts[0].columns.split is not None)
                return _listing(self.folder, layouts[0], [*zip(files, splits, strict=True)])
        return super().listing()

    def read(self, _listing: Listing | None, /) -> tuple[Sequence[Image], Sequence[Caption]]:
        """Read the tables.

        Raises:
            CorpusError: a column is missing, a row is incomplete, a split is unknown, or nothing names a split.
            FileFormatError: a file is missing or damaged.
        """
        names, records = [*(tables := self.tables())], _Records(self.folder)
        for number, name in enumerate(names):
            rows = (_parquet_rows if BINARY.fullmatch(name) else _text_rows)(tables[name], self.columns)
            split = None
            for row in rows:
                if row.split is None and split is None:
                    split = self._splits(names, named=False)[number]
                records.add(row, split or "")
        return [*records.images.values()], records.captions

    def _splits(self, names: Sequence[str], *, named: bool) -> list[str]:
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


class _Records:
    """The pictures and captions of the rows so far; a picture has one row or several."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.images: dict[tuple[str, str | None], Image] = {}
        self.captions: list[Caption] = []

    def add(self, row: Row, split: str, place: Place | None = None, digest: bytes = b"") -> None:
        """Add a row with the split of rows that name none, and the place and hash of bytes in the table.

        Equal captions within a row are records of their own; an equal caption in another row is a repeated record. A
        web address is the name of a picture without a file. CorpusError if the name is no plain path, the split is
        unknown, or the picture has other bytes than in an earlier row.
        """
        if not row.language.isprintable():
            what = f"the language is {quote(row.language)}"
            raise CorpusError(what, where=row.where, expected="a code such as en")
        split_of_row = split if row.split is None else split_name(row.split, row.where)
        name = row.name or row.where.removeprefix(f"{self.folder}/")
        key = name, split_of_row
        image = self.images.get(key)
        if image is None:
            path, fault = None, ""
            try:
                path = None if is_address(row.name) else check_path(row.name, row.where)
            except CorpusError as error:
                fault = error.what if row.name else "the row names no picture"
            image = Image(name, path, split_of_row, row.where, place, digest, fault)
        elif digest and image.digest not in (b"", digest):
            what = f"the picture {quote(row.name)} has other bytes than in an earlier row"
            todo = "Name a column in which each picture has a name of its own, such as corpus.columns: {name: id}."
            raise CorpusError(what, where=row.where, todo=todo)
        elif place and image.place is None:
            image = replace(image, place=place, digest=digest)
        self.images[key] = image
        before: Counter[str] = Counter()
        for text in (text for cell in row.captions for text in _texts(cell, row.where)):
            key_of_caption = f"{text}#{before[text]}" if before[text] else text
            before[text] += 1
            self.captions.append(Caption(name, key_of_caption, text, row.where, row.language.lower()))


def _texts(cell: str, where: str) -> list[str]:
    """Return the captions of a cell: itself, or the texts of a list in JSON."""
    inner = cell[1:-1]
    if len(cell) > 3 and cell[0] == cell[-1] == '"' and '""' in inner and '"' not in inner.replace('""', ""):
        cell = inner.replace('""', '"')
    if cell[:1] + cell[-1:] not in ("[]", "()", "{}") or not _LIST.match(cell):
        return [cell]
    try:
        if isinstance(texts := loads(cell), list) and all(isinstance(text, str) for text in texts):
            return [text.strip() for text in texts]
    except ValueError:
        try:
            if isinstance(ast.literal_eval(cell), str):
                return [cell]
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return [cell]  # words in brackets
    todo = "Write a row for each caption, for instance by `DataFrame.explode` of pandas."
    raise CorpusError(f"the caption is a list: {quote(cell)}", where=where, expected="a text", todo=todo)


def _text_rows(file: Path | Place, given: Mapping[Role, str]) -> Iterator[Row]:
    """Yield the rows of a text file. Blanks around a cell do not count."""
    file = Path(str(file))
    columns = columns_of(file, given)
    if columns is None:
        yield from (Row(one.where, one.image_id, [one.text], None) for one in numbered_captions(file))
        return
    names = [columns.image, *columns.captions, *filter(None, (columns.split, columns.language))]
    for where, (name, *others) in Table(tuple(names), CorpusError, empty=tuple(names), todo=TODO).rows(file):
        language = (others.pop() or UNKNOWN) if columns.language else ""
        split = others.pop() if columns.split else None
        yield Row(where, name, others, split, language)


def _parquet_rows(file: Path | Place, given: Mapping[Role, str]) -> Iterator[Row]:
    """Yield the rows of a Parquet file whose pictures are names of files."""
    found = layout(file, given)
    for start, batch in _batches(file, found):
        yield from _rows(file, found, start, batch, _values(batch, found.path))


def _listing(folder: Path, found: Layout, files: Sequence[tuple[Path | Place, str]]) -> Listing:
    """Return the content of files with pictures in them; ``files`` has the split of rows that name none.

    A picture is called by the column of names, else by the path beside its bytes, else by the first digits of their
    sha256. Rows of one name are captions of one picture.
    """
    records, data = _Records(folder), str(found.data)
    with tqdm(desc="corpus", unit="row", disable=None, mininterval=1) as bar:
        for file, split in files:
            for start, batch in _batches(file, found):
                version = file.part.version if isinstance(file, Place) and file.part else None
                digests = [_digest(one) for one in _column(batch, data)]
                given = zip(_values(batch, found.columns.name), _values(batch, found.path), digests, strict=True)
                names = [
                    _plain("" if name is None else str(name)) or _plain(path or "") or digest.hex()[:DIGITS]
                    for name, path, digest in given
                ]
                rows = _rows(file, found, start, batch, names)
                for number, (row, digest) in enumerate(zip(rows, digests, strict=True), start):
                    place = Place(str(file), Part(row=number, column=data, version=version)) if digest else None
                    records.add(row, split, place, digest)
                bar.update(batch.num_rows)
    if not any(image.place for image in records.images.values()):
        what = "holds no picture: the bytes of all rows are missing"
        raise CorpusError(
            what, where=files[0][0], todo="Write the data set with its pictures, or with the names of files."
        )
    return Listing(folder, frozenset(), records=([*records.images.values()], records.captions))


def _batches(file: Path | Place, found: Layout) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the columns of a file, some rows at a time, each with the number of its first row."""
    own, start = found.columns, 0
    names = [own.split, own.language, own.name if found.data else None, found.path, found.data, *own.captions]
    with opened(file) as parquet:
        columns = list(dict.fromkeys(name for name in names if name))
        for batch in parquet.iter_batches(_AT_A_TIME[found.data is not None], columns=columns):
            texts = [one.name for one in batch.schema if not is_bytes(one.type)]
            check_text(str(file), pa.Table.from_batches([batch.select(texts)]), AGAIN, first=start + 1)
            yield start, batch
            start += batch.num_rows
    if not start:
        raise CorpusError("has no rows", where=file)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array[Any]:
    """Return a column, or a field of one, such as ``image.bytes``."""
    if name in batch.schema.names:
        return batch.column(name)
    above, _, inner = name.rpartition(".")
    return pc.struct_field(batch.column(above), inner)


def _values(batch: pa.RecordBatch, name: str | None) -> list[Any]:
    return [None] * batch.num_rows if name is None else list(_column(batch, name).to_pylist())


def _plain(path: str) -> str:
    """Return a path below a folder; of another path, on any machine, the file's name; nothing of a web address."""
    if is_address(path):
        return ""
    return next((one for one in (path, re.split(r"[\\/]", path)[-1]) if is_inside(one) and one[0] != "\\"), "")


def _digest(value: pa.Scalar[Any]) -> bytes:
    buffer = value.as_buffer()
    return hashlib.sha256(buffer).digest() if buffer is not None and buffer.size else b""


def _rows(
    file: Path | Place, found: Layout, start: int, batch: pa.RecordBatch, names: Sequence[str | None]
) -> Iterator[Row]:
    columns = found.columns
    captions = zip(*(_values(batch, name) for name in columns.captions), strict=True)
    others = (_values(batch, columns.split), _values(batch, columns.language))
    for number, (name, own, split, language) in enumerate(zip(names, captions, *others, strict=True), start + 1):
        texts = [text or "" for cell in own for text in (cell if isinstance(cell, list) else [cell])]
        told = split or "" if columns.split else None
        code = ((language or "").strip() or UNKNOWN) if columns.language else ""
        yield Row(f"{file}, row {number}", name or "", [text.strip() for text in texts], told, code)
