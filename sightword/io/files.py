"""Files that appear whole or not at all, also with a killed process or a full disk; JSON and Parquet."""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import json
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from sightword.errors import FileFormatError, SightwordError
from sightword.io.opening import lines, read_bytes, reading, require_regular
from sightword.messages import and_more, first_line, quote

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

Pathish = str | os.PathLike[str]
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of the system when nothing more can be written: no space, a quota, a limit of the file's size."""
DEEPEST = 100
"""The most levels of nested lists and objects in a JSON text; Python calls itself for each in most work on values."""
_DEEP = "is nested too deeply"
GROUP = 1 << 20
"""The rows of a row group of a Parquet file: pyarrow's default."""
TYPES = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
}
"""The name of each type, for messages."""


def sync(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems do not sync folders, and need not.
        if error.errno not in (errno.EINVAL, errno.EBADF, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def temporary_name(path: Path) -> Path:
    """Return a new temporary name in the folder of ``path``."""
    return path.with_name(f".{path.name[:40]}.{secrets.token_hex(6)}.tmp")


@contextlib.contextmanager
def replacing(final: Path) -> Iterator[Path]:
    """Yield an empty temporary file beside ``final``; sync it and rename it to ``final`` when the block succeeds."""
    temporary = temporary_name(final)
    try:
        with _naming(temporary, final):
            temporary.touch(exist_ok=False)
            yield temporary
            sync(temporary)
            os.replace(temporary, final)
            sync(final.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_file(path: Pathish) -> Iterator[Path]:
    """Yield a temporary path beside ``path``, whose folder is made; rename it to ``path`` when the block succeeds.

    After an OSError ``path`` is as it was before; that of a full disk names ``path``.
    """
    final = Path(path)
    if final.exists() and not final.is_file():
        raise FileExistsError(errno.EEXIST, "is not a plain file, which could be replaced", str(final))
    final.parent.mkdir(parents=True, exist_ok=True)
    with replacing(final) as temporary:
        yield temporary


@contextlib.contextmanager
def atomic_folder(path: Pathish) -> Iterator[Path]:
    """Yield an empty temporary folder beside ``path``, whose parent is made; on success it replaces ``path``.

    The OSError of a full disk names the file below ``path``. Temporary folders that killed processes left beside
    ``path`` are removed, once nothing in them has changed for two days.
    """
    final = Path(path)
    final.parent.mkdir(parents=True, exist_ok=True)
    for left in final.parent.glob(f".{glob.escape(final.name[:40])}.{'[0-9a-f]' * 12}.tmp"):
        with contextlib.suppress(OSError):  # another process ends just now
            if max(one.lstat().st_mtime for one in (left, *left.rglob("*"))) < time.time() - 2 * 86_400:
                _remove(left)
    temporary = temporary_name(final)
    try:
        with _naming(temporary, final):
            temporary.mkdir()
            yield temporary
            for entry in sorted(temporary.rglob("*")):
                if not entry.is_symlink() and (entry.is_dir() or entry.is_file()):
                    sync(entry)
            sync(temporary)
            _put(temporary, final)
    finally:
        _remove(temporary)


def _put(temporary: Path, final: Path) -> None:
    """Replace a folder in two steps: the earlier one is moved aside, and back after an error or Ctrl-C between them.

    Of two processes at once the later one's folder stays.
    """
    earlier = temporary_name(final)
    try:
        while temporary.exists():
            if final.is_dir():
                with contextlib.suppress(FileNotFoundError):  # another process has just moved it
                    os.replace(final, earlier)
            try:
                os.replace(temporary, final)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # another process has just put a folder there
                    raise
                _remove(earlier)
        sync(final.parent)
    except BaseException:
        if earlier.is_dir() and not final.exists():
            os.replace(earlier, final)
        raise
    finally:
        _remove(earlier)


def _remove(folder: Path) -> None:
    """Remove a folder that may be there; Ctrl-C may break off the first attempt."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _naming(temporary: Path, final: Path) -> Iterator[None]:
    """Let errors of a full disk name the final path."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        # Of two names the second is that of a copy; an error of a write has none.
        names = [os.fspath(name) for name in (error.filename2, error.filename) if isinstance(name, str | os.PathLike)]
        name = Path(names[0]) if names else temporary
        if name.is_relative_to(temporary):
            name = final / name.relative_to(temporary)
        raise OSError(error.errno, os.strerror(error.errno), os.fspath(name)) from None


def canonical_json(value: Any) -> str:
    """Return the one spelling of a value: sorted keys, no spaces, plain ASCII, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def write_json(path: Pathish, value: Any) -> None:
    """Write ``value`` as indented JSON, keys in the order given, atomically; ValueError for NaN or an infinity."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: Pathish, text: str) -> None:
    """Write ``text`` as UTF-8 with the line ends it has, atomically."""
    with atomic_file(path) as temporary:
        temporary.write_bytes(text.encode("utf-8"))


def write_tsv(path: Pathish, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table with tabs between its cells, as DVC plots read it; floats keep six digits, None is empty."""

    def cell(value: object) -> str:
        return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)

    write_text(path, "".join("\t".join(map(cell, row)) + "\n" for row in [header, *rows]))


def read_text(path: Pathish, *, todo: str | None = None) -> str:
    """Read a UTF-8 file without its byte order mark; FileFormatError if it cannot be opened or is not UTF-8."""
    data = read_bytes(path, todo=todo)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        what = f"is not UTF-8 text (byte {error.start})"
        raise FileFormatError(what, where=path, todo=todo or "Save it as UTF-8.") from None


def read_json(path: Pathish, *, todo: str | None = None) -> Any:
    """Read a JSON file.

    FileFormatError: missing, not JSON, with two values for a key, half a character (a surrogate without its other)
    or a number of too many digits, or nested too deeply to be read.
    """
    text = read_text(path, todo=todo)
    try:
        document = parse_json(text, FileFormatError, path)
    except json.JSONDecodeError as error:
        what = "is empty" if not text.strip() else f"is not valid JSON ({error.msg})"
        place = f"{path}, line {error.lineno}, column {error.colno}"
        todo = todo or "It may have been cut off: fetch or make it again."
        raise FileFormatError(what, where=place, todo=todo) from None
    except ValueError as error:
        if str(error) == _DEEP:
            raise FileFormatError(_DEEP, where=path, todo=todo) from None
        expected = f"up to {sys.get_int_max_str_digits()} digits"
        raise FileFormatError("has a number too long", where=path, expected=expected, todo=todo) from None
    if re.search(r"\\u[dD][89a-fA-F]", text):
        try:
            json.dumps(document, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            todo = "The text may have been cut off: write the whole character, or delete the half."
            what = "has half a character, an escape from \\ud800 to \\udfff without its other half"
            raise FileFormatError(what, where=path, todo=todo) from None
    return document


def loads(text: str | bytes, **hooks: Any) -> Any:
    """Return the value of a JSON text; ValueError for another text, or more than :data:`DEEPEST` levels."""
    try:
        value = json.loads(text, **hooks)
    except RecursionError:
        raise ValueError(_DEEP) from None
    text = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    if text.count(b"[") + text.count(b"{") <= DEEPEST:  # no deeper than it has brackets; the count is fast
        return value
    level: list[Any] = [[value]]
    for _ in range(DEEPEST + 1):
        inner = (one for outer in level for one in (outer.values() if isinstance(outer, dict) else outer))
        level = [one for one in inner if isinstance(one, (dict, list))]
        if not level:
            return value
    raise ValueError(_DEEP)


def parse_json(text: str, error: type[SightwordError], where: object) -> Any:
    """Return the value of a JSON text; ValueError as of :func:`loads`, and an error of the class ``error`` if an object
    has two values for a key.
    """

    def whole(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            records = ((key, value, where) for key, value in pairs)
            return mapping(records, "the key", "value", error, todo="Delete one of the two.")
        return values

    return loads(text, object_pairs_hook=whole)


def mapping(
    records: Iterable[tuple[Key, Value, object]], key: str, value: str, error: type[SightwordError], *, todo: str
) -> dict[Key, Value]:
    """Return the value of each key of records (key, value, place), in the order of first occurrence.

    A record that repeats key and value is passed over; another value is an error of the class ``error``, whose message
    has both places, what a ``key`` is, such as ``the image id``, and what a ``value`` is, such as ``file_name``.
    """
    values: dict[Key, Value] = {}
    places: dict[Key, object] = {}
    for name, new, where in records:
        if name not in values:
            values[name], places[name] = new, where
        elif values[name] != new:
            first, second = f"the {value} {quote(values[name])} ({places[name]})", f"the {value} {quote(new)}"
            what = f"{key} {quote(name)} stands twice, with {first} and {second}"
            raise error(what, where=where, todo=todo)
    return values


def read_lists(file: Path, *keys: str, error: type[SightwordError], todo: str) -> list[Iterator[tuple[Any, str]]]:
    """Read a JSON file; return for each key the items of its list, each with its place for messages.

    An error of the class ``error`` if the file has no object with these lists; else as :func:`read_json`.
    """
    document = read_json(file, todo=todo)
    if not isinstance(document, dict):
        raise error("is not a JSON object", where=file, todo=todo)

    def placed(key: str) -> Iterator[tuple[Any, str]]:
        items = member(document, key, list, str(file), error)
        return ((item, f"{file}, {key}[{at}]") for at, item in enumerate(items))

    return [placed(key) for key in keys]


def json_lines(file: Path, error: type[SightwordError]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place of each line that is not blank, and its object; errors of the class ``error``."""
    for number, line in lines(file, error):
        if not line or line.isspace():
            continue
        where = f"{file}, line {number}"
        yield where, parse_object(line, error, where)


def parse_object(text: str, error: type[SightwordError], where: object) -> dict[str, Any]:
    """Return the JSON object of a text; an error of the class ``error`` for another text, or two values for a key."""
    try:
        record = parse_json(text, error, where)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise error(f"is {quote(text)}", where=where, expected="a JSON object")
    return record


def member(container: Any, key: str, kind: type[Value], where: str, error: type[SightwordError]) -> Value:
    """Return the value of ``key``; an error of the class ``error`` if ``container`` is no object with a value of this
    type, or a text has half a character.
    """
    if not isinstance(container, dict):
        raise error(f"{quote(container)} is not an object", where=where, expected=f"one with a key {key!r}")
    if key not in container:
        raise error(f"has no key {key!r} (it has: {and_more(container, 20) or 'none'})", where=where)
    value: Value = container[key]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise error(f"{key} is {quote(value)}", where=where, expected=TYPES[kind])
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            todo = "Write the whole character, or delete the half."
            raise error(f"has half a character in {key} (\\ud800 to \\udfff)", where=where, todo=todo) from None
    return value


def sha256_file(path: Pathish) -> str:
    """Return the sha256 of a file's bytes, in hex; FileFormatError if the file is missing or unreadable."""
    with reading(path):
        require_regular(path, any_kind=True)
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def write_table(path: Pathish, table: pa.Table) -> None:
    """Write a sealed Parquet file: the same table gives the same bytes, with one pyarrow version."""
    import pyarrow.parquet as pq

    with atomic_file(path) as temporary:
        with pq.ParquetWriter(temporary, table.schema, compression="zstd", write_statistics=False) as writer:
            for start in range(0, max(1, table.num_rows), GROUP):
                writer.write_table(table.slice(start, GROUP).combine_chunks())
        seal(temporary)


_SEAL = b"\nSightword. SHA-256 of the bytes before, and of the bytes behind:\n"
_SEALED = len(_SEAL) + 2 * 65


def seal(path: Path) -> None:
    """Write the sha256 of a Parquet file's pages and of its footer between the two, where readers look at nothing."""
    with open(path, "r+b") as file:
        start = _footer(file)
        file.seek(start)
        footer = file.read()
        file.seek(start)
        file.write(_seal(file, start, footer) + footer)


def check_seal(path: Pathish, *, pages: bool = True, todo: str | None = None) -> None:
    """Raise FileFormatError for a Parquet file that is missing, or whose bytes are not those that :func:`seal` saw.

    ``pages``: check the pages too, for which the whole file is read.
    """
    with reading(path, todo=todo):
        require_regular(path)
        with open(path, "rb") as file:
            start = max(0, _footer(file) - _SEALED)
            file.seek(start)
            found, footer = file.read(_SEALED), file.read()
            expected = _seal(file, start if pages else None, footer)
            if found[-65:] != expected[-65:] or (pages and found != expected):
                what = "is damaged or was changed, or is a table of another program"
                raise FileFormatError(what, where=path, todo=todo)


def _footer(file: BinaryIO) -> int:
    """Return where the footer of a Parquet file starts, as its last bytes say; 0 if they are no Parquet file's."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - 8))
    tail = file.read()
    return max(0, end - 8 - int.from_bytes(tail[:4], "little")) if tail.endswith(b"PAR1") else 0


def _seal(file: BinaryIO, size: int | None, footer: bytes) -> bytes:
    """Return the seal of a footer and of the first bytes of a file (None: they are left out)."""
    pages = hashlib.sha256()
    file.seek(0)
    while size and (part := file.read(min(size, 1 << 20))):
        pages.update(part)
        size -= len(part)
    return b"%b%b\n%b\n" % (_SEAL, pages.hexdigest().encode(), hashlib.sha256(footer).hexdigest().encode())


def too_large(path: Pathish) -> FileFormatError:
    """Return the error of a file that memory does not hold."""
    todo = "Take a machine with more memory, or split the file."
    return FileFormatError("does not fit in memory", where=path, todo=todo)


@contextlib.contextmanager
def parquet_file(
    path: Pathish, *, todo: str | None, source: BinaryIO | None = None, **options: Any
) -> Iterator[pq.ParquetFile]:
    """Yield a Parquet file, or an object ``source``; FileFormatError if it is missing or damaged, also while read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with reading(path, todo=todo):
            if source is None:
                require_regular(path)
            with pq.ParquetFile(source or os.fspath(path), **options) as file:
                yield file
    except pa.ArrowMemoryError:
        raise too_large(path) from None
    except pa.ArrowException as error:
        raise FileFormatError(f"is not a whole Parquet file ({first_line(error)})", where=path, todo=todo) from None
    except UnicodeDecodeError:
        raise FileFormatError("has a column whose name is not UTF-8 text", where=path, todo=todo) from None


def read_table(
    path: Pathish,
    columns: Iterable[str],
    *,
    optional: Sequence[str] = (),
    todo: str | None = None,
    foreign: bool = False,
) -> pa.Table:
    """Read the required columns of a Parquet file, in the given order, and the optional ones that it has.

    A ``foreign`` file, of another program, has no seal.

    FileFormatError: missing, changed since it was written, not Parquet, without one of the columns or with two of
    its name, or with text that is not UTF-8.
    """
    if not foreign:
        check_seal(path, todo=todo)
    names = list(columns)
    with parquet_file(path, todo=todo) as file:
        have = file.schema_arrow.names
        names += [name for name in optional if name in have]
        wrong = [name for name in names if have.count(name) != 1]
        if wrong:
            what = f"has two columns {', '.join(wrong)}"
            if wrong[0] not in have:
                what = f"has no column {', '.join(wrong)} (it has: {and_more(have, 20) or 'none'})"
            raise FileFormatError(what, where=path, expected="one of each name", todo=todo)
        table = file.read(columns=names).select(names)
    check_text(path, table, todo)
    return table


def check_text(path: Pathish, table: pa.Table, todo: str | None, *, first: int = 1) -> None:
    """Raise FileFormatError for a text that is not UTF-8, with column and row: Arrow itself does not check.

    ``first`` is the number of the table's first row.
    """
    import pyarrow as pa

    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            for row, value in enumerate(column, start=first):
                try:
                    value.as_py()
                except UnicodeDecodeError as error:
                    what = f"{name} is not UTF-8 text (byte {error.start})"
                    raise FileFormatError(what, where=f"{path}, row {row}", todo=todo) from None
            raise
