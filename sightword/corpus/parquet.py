"""Reads tables of pictures and captions in Parquet or Arrow, such as the data sets of Hugging Face.

A picture is a name of a file, or its bytes are in the table: as a struct of bytes and path, or as bare bytes. Rows are
read in pieces, so that memory does not grow with the bytes, which are read only where names are made of them, equal
pictures are looked for, or rows share a name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tqdm import tqdm

from sightword.corpus.arrow_files import Piece, column, count_without, opened, pieces
from sightword.corpus.columns import Columns, Role, find
from sightword.corpus.listing import Listing
from sightword.corpus.rows import UNKNOWN, Records, Row
from sightword.errors import CorpusError
from sightword.messages import quote
from sightword.places.place import Part, Place

DIGITS = 16
"""The length of a name that is made of a picture's bytes: the first digits of their sha256."""
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


@dataclass(frozen=True)
class Held(Listing):
    """Pictures whose bytes are in tables, and what the tables say of them."""

    records: Records = field(default_factory=Records, compare=False)


def layout(file: Path, given: Mapping[Role, str]) -> Layout:
    """Return what the columns of a Parquet or Arrow file hold.

    Raises:
        CorpusError: a column is missing, or has another type.
        FileFormatError: the file is damaged.
    """
    with opened(file) as (schema, _):
        kinds = {one.name: one.type for one in schema}
        names = schema.names
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
    with opened(file) as (_, rows):
        no_bytes = bool(path) and count_without(file, f"{image}.bytes") == rows > 0
    return Layout(columns, None if no_bytes else f"{image}.bytes", path)


def rows(file: Path, found: Layout) -> Iterator[Row]:
    """Yield the rows of a file whose pictures are names of files; errors as :func:`layout`."""
    for piece in pieces(file, _wanted(found), _AT_A_TIME[False]):
        for row in _rows(file, found, piece, piece.values(str(found.path))):
            if not row.name:
                raise CorpusError("the picture has neither a name nor bytes", where=row.where, todo=_TODO)
            yield row


def held(folder: Path, files: Sequence[tuple[Path, Layout, str]], *, hashed: bool) -> Held:
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
    hashed = hashed or not named or any(count_without(file, str(one.data)) != 0 for file, one, _ in files)
    records = _collected(files, hashed=hashed) or _collected(files, hashed=True)
    if records is None or not records.images.has_place(np.arange(len(records.images))).any():
        todo = "Write the data set with its pictures in it, or with the names of files."
        raise CorpusError("holds no picture: the bytes of all rows are missing", where=files[0][0], todo=todo)
    return Held(folder, frozenset(), records=records)


def _collected(files: Sequence[tuple[Path, Layout, str]], *, hashed: bool) -> Records | None:
    """Return the records of all files; None if rows without hashes have no names, or share a name."""
    records = Records(placed=True, hashed=hashed)
    with tqdm(desc="corpus", unit="row", disable=None if hashed else True, mininterval=1) as bar:
        for file, one, split in files:
            for piece in pieces(file, _wanted(one, data=hashed), _AT_A_TIME[hashed]):
                if not _add(records, file, one, split, piece):
                    return None
                bar.update(piece.rows)
    code, first = records.images.groups
    if not hashed:
        return records if len(code) == len(first) else None
    digests = records.images.digests()
    real = np.flatnonzero(digests.any(axis=1))
    numbers, at = np.unique(code[real], return_index=True)
    original = np.zeros(len(first), np.int64)
    original[numbers] = real[at]
    other = real[(digests[real] != digests[original[code[real]]]).any(axis=1)]
    if len(other):
        image = records.images[other[0]]
        what = f"the picture {quote(image.image_id)} has other bytes than in an earlier row"
        todo = "Name a column in which each picture has a name of its own, such as corpus.columns: {name: id}."
        raise CorpusError(what, where=image.where, todo=todo)
    return records


def _add(records: Records, file: Path, found: Layout, split: str, piece: Piece) -> bool:
    """Add a piece of a file; return whether its rows have names, or the bytes of the pictures."""
    path, data, hashed = str(file), str(found.data), records.images.hashed
    digests = [_digest(one) for one in column(piece.batch, data)] if hashed else [None] * piece.rows
    spans = piece.spans(data) if piece.base is not None else None
    for at, row in enumerate(_rows(file, found, piece, _names(piece, found, digests))):
        digest = digests[at]
        if not row.name and not hashed:
            return False
        if not row.name:
            raise CorpusError("the picture has neither a name nor bytes", where=row.where, todo=_TODO)
        part = Part(*spans[at]) if spans else Part(row=piece.start + at, column=data)
        records.add(row, split, Place(path, part) if digest or not hashed else None, digest)
    return True


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


def _names(piece: Piece, found: Layout, digests: Sequence[bytes | None]) -> list[str]:
    """Return the name of the picture of each row; an empty one where there is none."""
    nothing = [None] * piece.rows
    own = piece.values(found.columns.name) if found.columns.name else nothing
    paths = piece.values(found.path) if found.path else nothing
    return [
        str(name) if name not in (None, "") else _relative(path or "") or (digest.hex()[:DIGITS] if digest else "")
        for name, path, digest in zip(own, paths, digests, strict=True)
    ]


def _relative(path: str) -> str:
    """Return a path; of a path from the root, on any machine, the name of the file alone."""
    return re.split(r"[\\/]", path)[-1] if re.match(r"/|[A-Za-z]:|\\", path) else path


def _digest(value: pa.Scalar[Any]) -> bytes | None:
    buffer = value.as_buffer()
    return hashlib.sha256(buffer).digest() if buffer is not None and buffer.size else None


def _rows(file: Path, found: Layout, piece: Piece, names: Sequence[str | None]) -> Iterator[Row]:
    captions = [piece.values(name) for name in found.columns.captions]
    splits = piece.values(found.columns.split) if found.columns.split else None
    languages = piece.values(found.columns.language) if found.columns.language else None
    for place, name in enumerate(names):
        texts: list[str] = []
        for values in captions:
            value = values[place]
            texts += [(text or "").strip() for text in (value if isinstance(value, list) else [value])]
        split = None if splits is None else splits[place] or ""
        language = "" if languages is None else (languages[place] or "").strip() or UNKNOWN
        yield Row(f"{file}, row {piece.start + place + 1}", name or "", texts, split, language)


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
