"""Files that appear whole or not at all, also with a killed process or a full disk; JSON and Parquet."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from sightword.errors import FileFormatError, SetupError, SightwordError
from sightword.io.mapping import mapping
from sightword.io.opening import read_bytes, reading, require_regular
from sightword.messages import first_line

if TYPE_CHECKING:
    import pyarrow as pa

Pathish = str | os.PathLike[str]

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of the system when nothing more can be written: no space, a quota, a limit of the file's size."""


GROUP = 1 << 20
"""The rows of a row group of a Parquet file: pyarrow's default."""


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

    Raises:
        SetupError: ``path`` is a mount point.
        OSError: of the file system; ``path`` is then as it was before. On a full disk the error names ``path``.
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

    Raises:
        SetupError: ``path`` is a mount point.
        OSError: of the file system. On a full disk the error names the file below ``path``.
    """
    final = Path(path)
    if final.is_mount():
        raise _mounted(final)
    final.parent.mkdir(parents=True, exist_ok=True)
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
        shutil.rmtree(temporary, ignore_errors=True)


def _put(temporary: Path, final: Path) -> None:
    """Replace a folder in two steps: the earlier one is moved aside, and back if the second rename fails."""
    earlier = temporary_name(final)
    if final.is_dir():
        os.replace(final, earlier)
    try:
        os.replace(temporary, final)
    except OSError:
        if earlier.is_dir():
            os.replace(earlier, final)
        raise
    sync(final.parent)
    shutil.rmtree(earlier, ignore_errors=True)


@contextlib.contextmanager
def _naming(temporary: Path, final: Path) -> Iterator[None]:
    """Let errors of a full disk name the final path, and give those of mount points a message."""
    try:
        yield
    except OSError as error:
        names = [os.fspath(name) for name in (error.filename2, error.filename) if isinstance(name, str | os.PathLike)]
        if error.errno == errno.EBUSY and os.fspath(final) in names:
            raise _mounted(final) from None
        if error.errno not in FULL:
            raise
        # Of two names the second is that of a copy; an error of a write has none.
        name = Path(names[0]) if names else temporary
        if name.is_relative_to(temporary):
            name = final / name.relative_to(temporary)
        raise OSError(error.errno, os.strerror(error.errno), os.fspath(name)) from None


def _mounted(final: Path) -> SetupError:
    todo = "Mount the disk at a folder above, or have the whole project on it."
    return SetupError("is a mount point, which cannot be replaced", where=final, todo=todo)


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


# In the text of valid JSON: a pair of surrogates (one character), half of one, any other escape.
_ESCAPES = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>\\u[dD][89a-fA-F]..)|\\.")


def read_json(path: Pathish, *, todo: str | None = None) -> Any:
    """Read a JSON file.

    Raises:
        FileFormatError: missing, not JSON, with two values for a key, with half a character (a surrogate without its
            other) or a number of too many digits (each with line and column), or nested too deeply to be read.
    """
    text = read_text(path, todo=todo)
    try:
        document = parse_json(text, FileFormatError, path)
    except json.JSONDecodeError as error:
        what = "is empty" if not text.strip() else f"is not valid JSON ({error.msg})"
        place = f"{path}, line {error.lineno}, column {error.colno}"
        todo = todo or "It may have been cut off: fetch or make it again."
        raise FileFormatError(what, where=place, todo=todo) from None
    except RecursionError:
        raise FileFormatError("is nested too deeply", where=path, todo=todo) from None
    except ValueError:  # a number with more digits than Python accepts
        limit = sys.get_int_max_str_digits()
        place = _place(path, text, re.search(rf"\d{{{limit + 1}}}", text))
        expected = f"up to {limit} digits"
        raise FileFormatError("has a number too long", where=place, expected=expected, todo=todo) from None
    escapes = _ESCAPES.finditer(text) if re.search(r"\\u[dD][89a-fA-F]", text) else ()
    half = next((found for found in escapes if found["half"]), None)
    if half:
        place, expected = _place(path, text, half), "two such halves for one character, as for an emoji"
        todo = "The text may have been cut off: write the whole character, or delete the half."
        raise FileFormatError(f"has half a character, {half[0]}", where=place, expected=expected, todo=todo)
    return document


def parse_json(text: str, error: type[SightwordError], where: object) -> Any:
    """Return the value of a JSON text; ValueError or RecursionError if the text is none.

    Raises:
        SightwordError: of the class ``error``, if an object has two values for a key.
    """

    def whole(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            records = ((key, value, where) for key, value in pairs)
            return mapping(records, "the key", "value", error, todo="Delete one of the two.")
        return found

    return json.loads(text, object_pairs_hook=whole)


def _place(path: Pathish, text: str, found: re.Match[str] | None) -> str:
    """Return the file, with the line and column of a match."""
    at = found.start() if found else 0
    return f"{path}, line {text.count(chr(10), 0, at) + 1}, column {at - text.rfind(chr(10), 0, at)}"


def sha256_file(path: Pathish) -> str:
    """Return the sha256 of a file's bytes, in hex; FileFormatError if the file is missing or unreadable."""
    with reading(path):
        require_regular(path)
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def write_table(path: Pathish, table: pa.Table) -> None:
    """Write a sealed Parquet file: the same table gives the same bytes, with one pyarrow version."""
    write_groups(path, table.schema, [table])


def write_groups(path: Pathish, schema: pa.Schema, parts: Iterable[pa.Table]) -> None:
    """Write a sealed Parquet file whose rows come part by part; the bytes depend on the rows alone."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with atomic_file(path) as temporary:
        with pq.ParquetWriter(temporary, schema, compression="zstd", write_statistics=False) as writer:
            rest, written = schema.empty_table(), False
            for part in parts:
                rest = pa.concat_tables([rest, part])
                while rest.num_rows >= GROUP:
                    group, rest, written = rest.slice(0, GROUP).combine_chunks(), rest.slice(GROUP), True
                    writer.write_table(group)
            rest = rest.combine_chunks()  # the parts take no memory while they are written
            if rest.num_rows or not written:
                writer.write_table(rest)
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
    """Refuse a Parquet file whose bytes are not those that :func:`seal` saw.

    Args:
        path: the file.
        pages: check the pages too, for which the whole file is read.
        todo: the remedy, for messages.

    Raises:
        FileFormatError: the file is missing, was changed, or was written by another program.
    """
    with reading(path, todo=todo):
        require_regular(path)
        with open(path, "rb") as file:
            start = max(0, _footer(file) - _SEALED)
            file.seek(start)
            found, footer = file.read(_SEALED), file.read()
            expected = _seal(file, start if pages else None, footer)
            if found[-65:] != expected[-65:] or (pages and found != expected):
                what = "is damaged or was changed, or is a table of another program or of an earlier Sightword"
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


def read_table(
    path: Pathish,
    columns: Iterable[str],
    *,
    optional: Sequence[str] = (),
    todo: str | None = None,
    foreign: bool = False,
) -> pa.Table:
    """Read the required columns of a Parquet file, in the given order, and the optional ones that it has; errors advise
    ``todo``.

    Args:
        path: the file.
        columns: the required columns.
        optional: columns that are read if the file has them.
        todo: the remedy, for messages.
        foreign: whether another program wrote the file, so that it has no seal.

    Raises:
        FileFormatError: missing, changed since it was written, not Parquet, without one of the columns or with two of
            its name, or with text that is not UTF-8.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not foreign:
        check_seal(path, todo=todo)
    names = list(columns)
    try:
        with reading(path, todo=todo):
            require_regular(path)
            with pq.ParquetFile(os.fspath(path)) as file:
                have = file.schema_arrow.names
                names += [name for name in optional if name in have]
                wrong = [name for name in names if have.count(name) != 1]
                if wrong:
                    what = f"has two columns {', '.join(wrong)}"
                    if wrong[0] not in have:
                        what = f"has no column {', '.join(wrong)} (it has: {', '.join(have) or 'none'})"
                    raise FileFormatError(what, where=path, expected="one of each name", todo=todo)
                table = file.read(columns=names).select(names)
    except pa.ArrowInvalid as error:
        raise FileFormatError(f"is not a whole Parquet file ({first_line(error)})", where=path, todo=todo) from None
    except UnicodeDecodeError:
        raise FileFormatError("has a column whose name is not UTF-8 text", where=path, todo=todo) from None
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


class _NoPandas:
    """A finder of modules that finds no pandas."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Raise ModuleNotFoundError for pandas; leave other modules to other finders."""
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def leave_pandas() -> None:
    """Let pyarrow do without pandas, half a second of a program's start, until a table becomes a frame."""
    if "pandas" not in sys.modules:
        import pyarrow as pa

        sys.meta_path.insert(0, _NoPandas)
        try:
            pa.array([])
        finally:
            sys.meta_path.remove(_NoPandas)
