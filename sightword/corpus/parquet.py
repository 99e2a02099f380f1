"""Reads tables of pictures and captions in Parquet, such as the data sets of Hugging Face.

A picture is a name of a file, or its bytes are in the table: as a struct of bytes and path, or as bare bytes. Rows are
read in pieces, so that memory does not grow with the bytes, which are read only where names are made of them, equal
pictures are looked for, or rows share a name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tqdm import tqdm

from sightword.corpus.columns import UNKNOWN, Columns, Records, Role, Row, find
from sightword.corpus.listing import Listing
from sightword.errors import CorpusError, FileFormatError
from sightword.io.files import check_text
from sightword.io.opening import reading, require_regular
from sightword.machine import is_address
from sightword.messages import first_line, quote
from sightword.places.place import Part, Place

DIGITS = 16
"""The length of a name that is made of a picture's bytes: the first digits of their sha256."""
_AGAIN = "Download or write the file again."
_TODO = "Write the data set with its pictures in it, or with the names of files."
_AT_A_TIME = {False: 1000, True: 64}
"""Rows that are read at a time: without and with the bytes of their pictures."""


@dataclass(frozen=True)
class Layout:
    """What the columns of a file hold."""

    columns: Columns
    data: str | None
    """The column of pictures' bytes, such as ``image`` or ``image.bytes``; None if the pictures are names of files."""
    path: str | None
    """The column of names of files; beside bytes, such as ``image.path``, or None."""


def layout(file: Path, given: Mapping[Role, str]) -> Layout:
    """Return what the columns of a Parquet file hold.

    Raises:
        CorpusError: a column is missing, or has another type.
        FileFormatError: the file is damaged.
    """
    with _opened(file) as parquet:
        kinds = {one.name: one.type for one in parquet.schema_arrow}
        names, count = parquet.schema_arrow.names, parquet.metadata.num_rows
    pictures = [name for name, kind in kinds.items() if _is_bytes(kind) or _has(kind, "bytes", _is_bytes)]
    columns = find(names, given, file, {name: str(kind) for name, kind in kinds.items()}, pictures)
    if columns.language and "language" not in given and not _is_text(kinds[columns.language]):
        columns = columns._replace(language=None)  # such as the number of a class
    for name in (*columns.captions, *filter(None, (columns.split, columns.language))):
        if not _is_text(kinds[name]) and not (name in columns.captions and _is_text(_item(kinds[name]))):
            what = f"the column {quote(name)} has the type {kinds[name]}"
            raise CorpusError(
                what, where=file, expected="texts or lists of texts" if name in columns.captions else "texts"
            )
    image, kind = columns.image, kinds[columns.image]
    if _is_bytes(kind):
        return Layout(columns, image, None)
    if _is_text(kind):
        return Layout(columns, None, image)
    if image not in pictures:
        expected = "the pictures' bytes, a struct of bytes and path, or names of files"
        raise CorpusError(f"the column {quote(image)} has the type {kind}", where=file, expected=expected)
    path = f"{image}.path" if _has(kind, "path", _is_text) else None
    no_bytes = bool(path) and _count_without(file, f"{image}.bytes") == count > 0
    return Layout(columns, None if no_bytes else f"{image}.bytes", path)


def rows(file: Path, found: Layout) -> Iterator[Row]:
    """Yield the rows of a file whose pictures are names of files; errors as :func:`layout`."""
    for start, batch in _batches(file, _wanted(found), _AT_A_TIME[False]):
        for row in _rows(file, found, start, batch, _values(batch, str(found.path))):
            if not row.name:
                raise CorpusError("the picture has neither a name nor bytes", where=row.where, todo=_TODO)
            yield row


def held(folder: Path, files: Sequence[tuple[Path, Layout, str]], *, hashed: bool) -> Listing:
    """Return the pictures and captions of files whose pictures are in them.

    A picture is called by the column of names, else by the path beside its bytes, else by the first digits of their
    sha256. Rows of one name are captions of one picture.

    Args:
        folder: the folder of the corpus.
        files: each file, its layout, and the split of rows that name none.
        hashed: read all pictures, and keep their hashes.

    Raises:
        CorpusError: two pictures have one name, or no picture is in the files.
        FileFormatError: a file is damaged.
    """
    named = all(one.columns.name or one.path for _, one, _ in files)
    hashed = hashed or not named or any(_count_without(file, str(one.data)) != 0 for file, one, _ in files)
    records = _collected(files, hashed=hashed) or _collected(files, hashed=True)
    if records is None or not any(image.place for image in records.images.values()):
        raise CorpusError("holds no picture: the bytes of all rows are missing", where=files[0][0], todo=_TODO)
    return Listing(folder, frozenset(), records=([*records.images.values()], records.captions))


def _collected(files: Sequence[tuple[Path, Layout, str]], *, hashed: bool) -> Records | None:
    """Return the records of all files; None if rows without hashes have no names, or share a name."""
    records = Records()
    with tqdm(desc="corpus", unit="row", disable=None if hashed else True, mininterval=1) as bar:
        for file, found, split in files:
            path, data = str(file), str(found.data)
            for start, batch in _batches(file, _wanted(found, data=hashed), _AT_A_TIME[hashed]):
                digests = [_digest(one) for one in _column(batch, data)] if hashed else [b""] * batch.num_rows
                every = _rows(file, found, start, batch, _names(batch, found, digests))
                for number, (row, digest) in enumerate(zip(every, digests, strict=True), start):
                    if not row.name and hashed:
                        raise CorpusError("the picture has neither a name nor bytes", where=row.where, todo=_TODO)
                    place = Place(path, Part(row=number, column=data)) if digest or not hashed else None
                    if not row.name or not (records.add(row, split, place, digest) or hashed):
                        return None
                bar.update(batch.num_rows)
    return records


@contextmanager
def _opened(file: Path) -> Iterator[pq.ParquetFile]:
    try:
        with reading(file, todo=_AGAIN):
            require_regular(file)
            with pq.ParquetFile(str(file), buffer_size=1 << 20, pre_buffer=False) as parquet:
                yield parquet
    except pa.ArrowInvalid as error:
        raise FileFormatError(f"is not a whole Parquet file ({first_line(error)})", where=file, todo=_AGAIN) from None
    except UnicodeDecodeError:
        raise FileFormatError("has a column whose name is not UTF-8 text", where=file, todo=_AGAIN) from None


def _count_without(file: Path, name: str) -> int | None:
    """Return how many rows have no value in a column of bytes, by the file's statistics; None if they do not tell."""
    with _opened(file) as parquet:
        groups = [parquet.metadata.row_group(number) for number in range(parquet.metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    told = [chunk.statistics for chunk in chunks if chunk.path_in_schema == name]
    known = all(one is not None and one.has_null_count for one in told)
    return sum(one.null_count for one in told) if known else None


def _batches(file: Path, names: Sequence[str], count: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield some columns of a file, ``count`` rows at a time or fewer, each with the number of its first row."""
    start = 0
    with _opened(file) as parquet:
        for batch in parquet.iter_batches(count, columns=names):
            texts = [one.name for one in batch.schema if not _is_bytes(one.type)]
            check_text(file, pa.Table.from_batches([batch.select(texts)]), _AGAIN, first=start + 1)
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


def _wanted(found: Layout, *, data: bool = False) -> list[str]:
    own = found.columns
    names = [
        own.split,
        own.language,
        own.name if found.data else None,
        found.path,
        found.data if data else None,
        *own.captions,
    ]
    return list(dict.fromkeys(name for name in names if name))


def _names(batch: pa.RecordBatch, found: Layout, digests: Sequence[bytes]) -> list[str]:
    """Return the name of the picture of each row; an empty one where there is none."""
    return [
        str(name) if name not in (None, "") else _relative(path or "") or digest.hex()[:DIGITS]
        for name, path, digest in zip(
            _values(batch, found.columns.name), _values(batch, found.path), digests, strict=True
        )
    ]


def _relative(path: str) -> str:
    """Return a path; of a path from the root, on any machine, the name of the file alone; nothing of a web address."""
    if is_address(path):
        return ""
    return re.split(r"[\\/]", path)[-1] if re.match(r"/|[A-Za-z]:|\\", path) else path


def _digest(value: pa.Scalar[Any]) -> bytes:
    buffer = value.as_buffer()
    return hashlib.sha256(buffer).digest() if buffer is not None and buffer.size else b""


def _rows(file: Path, found: Layout, start: int, batch: pa.RecordBatch, names: Sequence[str | None]) -> Iterator[Row]:
    columns = found.columns
    captions = zip(*(_values(batch, name) for name in columns.captions), strict=True)
    others = (_values(batch, columns.split), _values(batch, columns.language))
    for number, (name, cells, split, language) in enumerate(zip(names, captions, *others, strict=True), start + 1):
        texts = [text or "" for cell in cells for text in (cell if isinstance(cell, list) else [cell])]
        told = split or "" if columns.split else None
        code = ((language or "").strip() or UNKNOWN) if columns.language else ""
        yield Row(f"{file}, row {number}", name or "", [text.strip() for text in texts], told, code)


def _has(kind: pa.DataType, name: str, check: Callable[[pa.DataType], bool]) -> bool:
    return isinstance(kind, pa.StructType) and kind.get_field_index(name) >= 0 and check(kind.field(name).type)


def _item(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType) else kind


def _is_bytes(kind: pa.DataType) -> bool:
    return any(check(kind) for check in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view))


def _is_text(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.DictionaryType):
        return _is_text(kind.value_type)
    return any(check(kind) for check in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))
