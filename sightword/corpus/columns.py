"""The columns of tables of pictures and captions, by their names and types."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sightword.errors import CorpusError, FileFormatError
from sightword.io.files import parquet_file
from sightword.io.opening import lines, reading
from sightword.io.tables import cells, semicolons
from sightword.messages import and_more, quote, short
from sightword.places.place import Place, open_object, size

Role = Literal["image", "caption", "split", "language", "name"]

NAMES: dict[Role, tuple[str, ...]] = {
    "image": ("image", "image_name", "image_path", "image_file", "file_name", "filename", "filepath", "file", "path",
              "img", "picture", "photo", "jpg"),
    "caption": ("caption", "captions", "text", "sentence", "sentences", "comment", "description"),
    "split": ("split",),
    "language": ("language", "lang"),
    "name": ("filename", "file_name", "image_name", "image_id", "img_id", "imgid", "cocoid"),
}  # fmt: skip
"""The usual names of each column, the preferred one first: the picture, its captions, its split, the captions'
language, and the name of a picture whose bytes are in the table."""
BINARY = re.compile(r".*\.parquet", re.IGNORECASE)
"""The names of Parquet files."""
TODO = "A table has a column of pictures and one or more of captions; docs/data.md has examples."
AGAIN = "Download or write the file again."
_ROWS = 1_000_000  # of a Parquet file; a larger file may have as many rows as bytes
_NUMBERED_LINE = re.compile(r"[^\t]+#\d+\t")
_NUMBERED = re.compile(r"(.+?)_?[0-9]+")


class Columns(NamedTuple):
    """The columns of a table, by their own names."""

    image: str
    captions: list[str]
    """One column, or several such as ``caption_0`` to ``caption_4``."""
    split: str | None
    language: str | None
    name: str | None


class Layout(NamedTuple):
    """What the columns of a Parquet file hold."""

    columns: Columns
    data: str | None
    """The column of pictures' bytes, such as ``image`` or ``image.bytes``; None if the pictures are names of files."""
    path: str | None
    """The column of names of files; beside bytes, such as ``image.path``, or None."""


def find(
    header: Sequence[str],
    given: Mapping[Role, str],
    where: object,
    kinds: Mapping[str, str] | None = None,
    pictures: Sequence[str] = (),
) -> Columns:
    """Return the columns of a table.

    Args:
        header: the names of all columns.
        given: the names of columns that have no usual name (``corpus.columns``).
        where: the place, for messages.
        kinds: the type of each column, for messages.
        pictures: the columns whose type shows that they hold pictures.

    Raises:
        CorpusError: there is no column of pictures or of captions, a column stands twice, or a named one is missing.
    """
    if twice := [name for name in dict.fromkeys(header) if name and header.count(name) > 1]:
        what = f"has {short(twice[0])} in {header.count(twice[0])} columns"
        raise CorpusError(what, where=where, expected="one of each", todo="Delete or rename the other columns.")
    has = and_more((f"{short(name, 40)} {short(kinds[name])}" if kinds else name for name in header), 20) or "none"
    if missing := [name for name in given.values() if name not in header]:
        what = f"has no column {quote(missing[0])} (it has: {has})"
        raise CorpusError(what, where=where, todo="Correct corpus.columns.")
    plain = {name.strip().casefold(): name for name in reversed(header)}
    found = {role: [plain[name] for name in names if name in plain] for role, names in NAMES.items()}
    if pictures:
        usual = [name for name in found["image"] if name in pictures]
        plainly = [name for name in found["image"] if name not in found["name"]]  # the others may name the bytes
        if plainly and not usual and "image" not in given:
            what = f"has texts in {short(plainly[0])} and bytes in {short(pictures[0])}"
            raise CorpusError(what, where=where, todo="Name the column of the pictures in corpus.columns.")
        found["image"] = usual or [*pictures]
    found |= {role: [name] for role, name in given.items()}
    captions = found["caption"][:1] or _numbered(header)
    for role, names in (("image", found["image"]), ("caption", captions)):
        if not names:
            taken = {*pictures, *found["image"][:1], *captions}
            others = [short(name, 40) for name in header if name.strip() and name not in taken]
            example = f", or set corpus.columns, such as {{{role}: {others[0]}}}" if others else ""
            todo = semicolons(header) or f"Call the column {role}{example}."
            raise CorpusError(f"has no column {role} (it has: {has})", where=where, todo=todo)
    image = found["image"][0]
    name = next((other for other in found["name"] if other != image), None)
    split, language = (next(iter(found[role]), None) for role in ("split", "language"))
    return Columns(image, captions, split, language, name)


def _numbered(header: Sequence[str]) -> list[str]:
    """Return the columns such as ``caption_0`` and ``caption_1``, in order."""
    found: dict[str, list[str]] = {}
    for name in header:
        stem = _NUMBERED.fullmatch(name.strip().casefold())
        if stem and stem[1] in NAMES["caption"]:
            found.setdefault(stem[1], []).append(name)
    return next((found[stem] for stem in NAMES["caption"] if stem in found), [])


def columns_of(file: Path, given: Mapping[Role, str]) -> Columns | None:
    """Return the columns of a table, of a text file by its first line; lines ``name.jpg#0<TAB>caption`` have none.

    Errors are those of :func:`find` and :func:`layout`.
    """
    if BINARY.fullmatch(file.name):
        return layout(file, given).columns
    first = next((line for _, line in lines(file, CorpusError, todo=TODO) if line.strip()), "")
    if _NUMBERED_LINE.match(first):
        return None
    at, header = next(cells(file, CorpusError, todo=TODO), (1, []))  # no column of an empty file: `find` refuses it
    return find([name.strip() for name in header], given, f"{file}, line {at}")


def layout(file: Path | Place, given: Mapping[Role, str]) -> Layout:
    """Return what the columns of a Parquet file hold.

    Raises:
        CorpusError: a column is missing, or has another type.
        FileFormatError: the file is damaged.
    """
    with opened(file) as parquet:
        kinds = {one.name: one.type for one in parquet.schema_arrow}
        names = parquet.schema_arrow.names
    pictures = [name for name, kind in kinds.items() if is_bytes(kind) or _has(kind, "bytes", is_bytes)]
    columns = find(names, given, file, {name: str(kind) for name, kind in kinds.items()}, pictures)
    if columns.language and "language" not in given and not _is_text(kinds[columns.language]):
        columns = columns._replace(language=None)  # such as the number of a class
    for name in (*columns.captions, *filter(None, (columns.split, columns.language))):
        if not _is_text(kinds[name]) and not (name in columns.captions and _is_text(_item(kinds[name]))):
            expected = "texts or lists of texts" if name in columns.captions else "texts"
            raise CorpusError(f"the column {quote(name)} has the type {kinds[name]}", where=file, expected=expected)
    image, kind = columns.image, kinds[columns.image]
    named = kinds[columns.name] if columns.name and not _is_text(kind) else pa.string()
    if not _is_text(named) and not pa.types.is_integer(named):
        what, todo = f"the column {quote(columns.name)} has the type {named}", "Name another one in corpus.columns."
        raise CorpusError(what, where=file, expected="names, texts or whole numbers", todo=todo)
    if is_bytes(kind):
        return Layout(columns, image, None)
    if _is_text(kind):
        return Layout(columns, None, image)
    if image not in pictures:
        expected = "the pictures' bytes, a struct of bytes and path, or names of files"
        raise CorpusError(f"the column {quote(image)} has the type {kind}", where=file, expected=expected)
    path = f"{image}.path" if _has(kind, "path", _is_text) else None
    return Layout(columns, None if path and _all_null(file, f"{image}.bytes") else f"{image}.bytes", path)


def _all_null(file: Path | Place, name: str) -> bool:
    """Return whether no row has a value in a column, by the file's statistics."""
    with opened(file) as parquet:
        groups = [parquet.metadata.row_group(number) for number in range(parquet.metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    told = [chunk for chunk in chunks if chunk.path_in_schema == name]
    return bool(told) and all(
        one.statistics is not None and one.statistics.has_null_count and one.statistics.null_count == one.num_values
        for one in told
    )


@contextmanager
def opened(file: Path | Place) -> Iterator[pq.ParquetFile]:
    """Yield a Parquet file; FileFormatError if it is damaged or states more rows than its bytes can have."""
    with reading(str(file), todo=AGAIN):
        source = None if isinstance(file, Path) else open_object(file)
    with parquet_file(str(file), todo=AGAIN, source=source, buffer_size=1 << 20, pre_buffer=False) as parquet:
        most = max(_ROWS, size(file if isinstance(file, Place) else Place(str(file))))
        if (count := parquet.metadata.num_rows) > most:
            raise FileFormatError(f"states {count:,} rows", where=file, expected=f"at most {most:,}", todo=AGAIN)
        yield parquet


def _has(kind: pa.DataType, name: str, check: Callable[[pa.DataType], bool]) -> bool:
    return isinstance(kind, pa.StructType) and kind.get_field_index(name) >= 0 and check(kind.field(name).type)


def _item(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType) else kind


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether a column has bytes."""
    return any(check(kind) for check in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view))


def _is_text(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.DictionaryType):
        return _is_text(kind.value_type)
    return any(check(kind) for check in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))
