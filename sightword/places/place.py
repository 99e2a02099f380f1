"""The place of a picture, a file or an address and the part that is the picture; and the bytes at a place."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from sightword.errors import PictureError
from sightword.machine import is_address
from sightword.messages import first_line
from sightword.places.requests import PICTURES, ChangedError, Listed, Requests

PARTS = ("offset", "length", "row", "column", "version")
"""The columns of ``images.parquet`` that say which part of a file is the picture; a corpus of whole files has none."""
AHEAD = 1 << 22
"""Bytes that are read ahead where the members of a shard in a bucket are read one after the other."""
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
    """Return the bytes at a place.

    Args:
        place: a file, a range of a file, a row of a Parquet file, or an object.
        limit: the most bytes.

    Raises:
        FileNotFoundError: there is no such file or object, or no picture in the row.
        TooLargeError: there are more bytes than ``limit``.
        OSError: the file cannot be read, is damaged, or ends before the range.
        PictureError: an object changed since it was listed, or its server does not answer.
    """
    part = place.part or Part()
    if part.row is not None:
        data = _rows().read(place.path, part.row, part.column or "")
        if len(data) > limit:
            raise TooLargeError(len(data))
        return data
    count = size(place)
    if count > limit:
        raise TooLargeError(count)
    if is_address(place.path):
        return _range(place.path, part.offset, count, part.version or "")
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


class _Ahead:
    """The bytes of a shard that were read last, from ``start``."""

    address, start, data, lock = "", 0, b"", threading.Lock()


_ahead = _Ahead()


def _range(address: str, offset: int | None, count: int, version: str) -> bytes:
    """Return a range of an object; of a shard whose members are read in order, a larger range is kept."""
    if offset is None:
        return _fetch(address, 0, count, version, 0)
    with _ahead.lock:  # threads that read one shard share the range
        kept = offset - _ahead.start if _ahead.address == f"{address} {version}" else -1
        if kept < 0 or kept + count > len(_ahead.data):
            more = AHEAD if 0 <= kept <= len(_ahead.data) + AHEAD else 0
            _ahead.data = _fetch(address, offset, count, version, more)
            _ahead.address, _ahead.start, kept = f"{address} {version}", offset, 0
        return _ahead.data[kept : kept + count]


def _fetch(address: str, start: int, count: int, version: str, more: int) -> bytes:
    above, name = split(address)
    try:
        return requests_at(above).get_range(name, start, start + count, version, most=more)
    except ChangedError:
        todo = "List it again by `sightword fetch`, and then `dvc repro`: its pictures are read anew."
        raise PictureError("changed since it was listed", where=address, todo=todo) from None


def cells(path: str, column: str) -> Iterator[bytes | None]:
    """Yield the bytes in each row of a column, or of a field such as ``image.bytes``; None where there are none.

    Raises:
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

    def __init__(self) -> None:
        self._at, self._column = 0, ("", "")
        self._cells: Iterator[bytes | None] = iter(())

    def read(self, path: str, row: int, column: str) -> bytes:
        """Return the bytes in a row."""
        if self._column != (path, column) or row < self._at:
            self._at, self._column, self._cells = 0, (path, column), cells(path, column)
        for value in self._cells:
            self._at += 1
            if self._at > row and value is None:
                raise FileNotFoundError(errno.ENOENT, "there is no picture in the row", path)
            if self._at > row and value is not None:
                return value
        self._column = ("", "")
        raise OSError(errno.EIO, f"the file ends before row {row + 1}", path)


@lru_cache(1)
def _rows() -> _Rows:
    return _Rows()
