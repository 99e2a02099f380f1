"""The place of a picture, a file or an address and the part that is the picture; the bytes there; lists of objects.

The listing of a bucket, a table of names, sizes and versions, is a stage's input in place of the objects.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import math
import os
import re
import stat
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from sightword import machine
from sightword.errors import CorpusError
from sightword.io.files import Pathish, mapping, write_text
from sightword.io.tables import Table, whole
from sightword.machine import is_address
from sightword.messages import first_line, quote, without_credentials
from sightword.places.requests import PICTURES, WEB, Listed, Requests

PARTS = ("offset", "length", "row", "column", "version")
"""The columns of ``images.parquet`` that say which part of a file is the picture; a corpus of whole files has none."""
AT_ONCE = 1 << 24
"""The most bytes of a request for a part of a shard."""
_AT_A_TIME = 64
"""Rows of a Parquet file in memory at a time: a row group of pandas or polars holds all rows."""


class Part(NamedTuple):
    """The part of a file that is the picture; without any value, the whole file."""

    offset: int | None = None
    """The first byte, such as of a member of a tar."""
    length: int | None = None
    """The number of bytes, of a part or of a whole object."""
    row: int | None = None
    """The row of a Parquet file, from 0, over all row groups."""
    column: str | None = None
    """The column of the row: ``image``, or ``image.bytes`` of a struct."""
    version: str | None = None
    """The version of the object at an address, such as its ETag."""


class Place(NamedTuple):
    """Where a picture is."""

    path: str
    """A file, or an address such as ``s3://bucket/key``."""
    part: Part | None = None

    def __str__(self) -> str:
        if self.part is None:
            return self.path
        if self.part.row is not None:
            return f"{self.path}, row {self.part.row + 1}"
        return self.path if self.part.offset is None else f"{self.path}, byte {self.part.offset}"


class TooLargeError(OSError):
    """A picture has more bytes than allowed; ``size`` is the number."""

    def __init__(self, size: int) -> None:
        super().__init__(errno.EFBIG, os.strerror(errno.EFBIG))
        self.size = size


class NotAFileError(OSError):
    """A path is a folder or a device."""


def size(place: Place) -> int:
    """Return the number of bytes at a place, without reading them; OSError if there is nothing."""
    if place.part is not None and place.part.length is not None:
        return place.part.length
    state = Path(place.path).stat()
    if not stat.S_ISREG(state.st_mode):  # a pipe would block when opened
        raise NotAFileError(errno.EISDIR, "it is a folder or a device", place.path)
    return state.st_size


def read(place: Place, limit: int) -> bytes:
    """Return the bytes at a place, a file, a part of a file, or an object.

    FileNotFoundError: there is no such file or object, or no picture in the row. TooLargeError: there are more
    bytes than ``limit``. OSError: the file cannot be read, is damaged, or ends before the range. PictureError: an
    object changed since it was listed, or its server does not answer.
    """
    part = place.part or Part()
    if part.row is not None:
        data = _row(place.path, part.row, part.column or "")
        if len(data) > limit:
            raise TooLargeError(len(data))
        return data
    count = size(place)
    if count > limit:
        raise TooLargeError(count)
    if is_address(place.path):
        (above, name), start = split(place.path), part.offset or 0
        return requests_at(above).get_range(name, start, start + count, part.version or "")
    if part.offset is None:
        return Path(place.path).read_bytes()
    size(Place(place.path))
    with open(place.path, "rb", buffering=0) as file:
        data = os.pread(file.fileno(), count, part.offset)
    if len(data) < count:
        raise OSError(errno.EIO, f"the file ends before byte {part.offset + count}")
    return data


def open_object(place: Place) -> Any:
    """Return an object as a file that is read range by range; errors as of :func:`read`, when it is read too."""
    above, name = split(place.path)
    part = place.part or Part()
    listed = requests_at(above).info(name) if part.length is None else Listed(part.length, 0.0, part.version or "")
    return requests_at(above).open(name, listed)


def split(address: str) -> tuple[str, str]:
    """Return the bucket or server of an address, and the rest."""
    protocol, _, path = address.partition("://")
    bucket, _, name = path.partition("/")
    return f"{protocol}://{bucket}", name


@lru_cache(64)
def requests_at(above: str) -> Requests:
    """Return the requests to a bucket or server, one connection for a process."""
    return Requests(above, PICTURES)


def copy(address: str, version: str, least: int, path: Path) -> None:
    """Copy an object of at least so many bytes to a file, behind those that it has; errors as of :func:`read`."""
    above, name = split(address)
    size = max(requests_at(above).info(name).size, least)
    with open(path, "ab" if version else "wb") as file:
        while (start := file.tell()) < size:
            file.write(requests_at(above).get_range(name, start, min(start + AT_ONCE, size), version))


def cells(path: str, column: str) -> Iterator[bytes | None]:
    """Yield the bytes in each row of a column, or of a field such as ``image.bytes``; None where there are none.

    OSError: the file is missing or damaged.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    source = open_object(Place(path)) if is_address(path) else path
    try:
        with pq.ParquetFile(source, buffer_size=1 << 20, pre_buffer=False) as file:
            for batch in file.iter_batches(_AT_A_TIME, columns=[column]):
                values = batch.column(0)
                if isinstance(values.type, pa.StructType):
                    values = pc.struct_field(values, column.rpartition(".")[2])
                yield from (value.as_py() for value in values)
    except pa.ArrowInvalid as error:
        raise OSError(errno.EIO, f"it is not a whole Parquet file ({first_line(error)})", path) from None


class _Rows:
    """The next row of the column that was read last: rows in order cost one look at the file."""

    column, row = ("", ""), 0
    values: Iterator[bytes | None] = iter(())


_rows = _Rows()


def _row(path: str, row: int, column: str) -> bytes:
    if _rows.column != (path, column) or row < _rows.row:
        _rows.column, _rows.row, _rows.values = (path, column), 0, cells(path, column)
    for value in _rows.values:
        _rows.row += 1
        if _rows.row > row:
            if value is None:
                raise FileNotFoundError(errno.ENOENT, "there is no picture in the row", path)
            return value
    _rows.column = ("", "")
    raise OSError(errno.EIO, f"the file ends before row {row + 1}", path)


LISTING = ("name", "address", "size", "version")
"""The columns of a listing."""
_TODO = "Write it with `sightword fetch ADDRESS --to FILE.csv`."
_TABLE = Table(LISTING, CorpusError, empty=("version",), separator=",", todo=_TODO)
_MOST_NUMBERS = 1_000_000
_RANGE = re.compile(r"\{(\d{1,18})\.\.(\d{1,18})\}")
_ADDRESS = re.compile(r"(s3|gs|az)://[^/@]+(/.*)?|https?://[^/@?]+/[^?]+")
"""Nothing secret: neither a password before the host, nor the signature of a web address after a question mark."""


def objects(addresses: Iterable[str]) -> dict[str, Place]:
    """Return the objects at addresses by name, sorted: the name is the address below the one that is given.

    An address is of a bucket with or without a prefix, all of whose objects are listed; or of one file of a web server,
    of which the last part is the name. ``{000..099}`` stands for all numbers of a range.

    Raises:
        CorpusError: an address is of another kind or has credentials in it, there is no object, or two have one name.
        PictureError: a server does not answer, or refuses.
        SetupError: the package for the protocol is not installed.
    """
    found: list[tuple[str, Place, str]] = []
    with tqdm(desc="list", unit="object", disable=None, leave=False) as bar:
        for address in (one for text in addresses for one in _numbered(text)):
            _check(address, None)
            before = len(found)
            for name, listed in _below(address):
                joined = f"{address.rstrip('/')}/{name}" if name else address
                if name != name.strip():  # cells of a table have no blanks around them
                    todo = "Rename the object, or list a folder without it."
                    raise CorpusError("the key begins or ends with a blank", where=quote(joined), todo=todo)
                place = Place(joined, Part(length=listed.size, version=listed.version or None))
                found.append((name or address.rpartition("/")[2], place, address))
                bar.update()
            if len(found) == before:
                what = "there is no object at this address"
                todo = "Check the address, whose prefix ends at a slash, and the server, whose page may list nothing."
                raise CorpusError(what, where=address, todo=todo)
    todo = "List one of the two, or a folder above both."
    return dict(sorted(mapping(found, "the name", "object", CorpusError, todo=todo).items()))


def write_listing(path: Pathish, places: dict[str, Place]) -> None:
    """Write a listing, by name; the same objects give the same bytes."""
    parts = ((name, address, part or Part()) for name, (address, part) in places.items())
    rows = [LISTING, *((name, address, str(part.length), part.version or "") for name, address, part in parts)]
    write_text(path, "".join(",".join(map(_cell, row)) + "\n" for row in rows))


def is_listing(path: Path) -> bool:
    """Return whether a file begins as a listing does."""
    with path.open("rb") as file:
        return file.readline(1 << 8).strip() == ",".join(LISTING).encode()


def read_listing(path: Pathish) -> dict[str, Place]:
    """Return the objects of a listing by name; CorpusError if the file is none."""
    found: list[tuple[str, Place, str]] = []
    for where, (name, address, count, version) in _TABLE.rows(Path(path)):
        _check(address, where)
        part = Part(length=whole(count, where, "size", CorpusError), version=version or None)
        found.append((name, Place(address, part), where))
    return mapping(found, "the name", "object", CorpusError, todo=_TODO)


def _below(address: str) -> Iterator[tuple[str, Listed]]:
    above, name = split(address)
    if above.startswith(tuple(f"{protocol}://" for protocol in WEB)):
        with contextlib.suppress(FileNotFoundError):
            yield "", requests_at(above).info(name)
        return
    servers = [os.environ.get(name) for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT")]
    name = hashlib.sha256(f"{servers} {address.rstrip('/')}".encode()).hexdigest()
    found = Requests(address.rstrip("/"), PICTURES).tree(pages=machine.current().cache / "listings" / name[:32])
    yield from ((name, listed) for name, listed in found.items() if listed.size)  # a console's folder has no bytes


def _check(address: str, where: str | None) -> None:
    if not _ADDRESS.fullmatch(address):
        expected = "s3://BUCKET/PREFIX, gs://, az:// or https://HOST/FILE, without credentials or a query"
        raise CorpusError(f"{quote(without_credentials(address))} is no address", where=where, expected=expected)


def _numbered(address: str) -> Iterator[str]:
    """Yield the addresses that ranges such as ``{000..099}`` stand for, at most a million of all ranges together."""
    parts = _RANGE.split(address)
    ranges = [range(int(first), int(last) + 1) for first, last in zip(parts[1::3], parts[2::3], strict=True)]
    count = math.prod(map(len, ranges))
    if not 0 < count <= _MOST_NUMBERS:
        what = f"its ranges of numbers stand for {count:,} addresses"
        raise CorpusError(what, where=address, expected=f"1 to {_MOST_NUMBERS:,}, such as {{000..099}}")
    for numbers in itertools.product(*ranges):
        texts = (f"{number:0{len(first)}d}" for number, first in zip(numbers, parts[1::3], strict=True))
        yield "".join(itertools.chain(*zip(parts[::3], [*texts, ""], strict=True)))


def _cell(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if re.search('[",\\s]', text) else text
