"""Reads the bytes at a place."""

from __future__ import annotations

import errno
import os
import stat
from functools import lru_cache
from pathlib import Path

from sightword.errors import PictureError
from sightword.machine import is_address
from sightword.places.answers import PICTURES
from sightword.places.place import Part, Place
from sightword.places.requests import ChangedError, Requests


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
    return _regular(place.path)


def read(place: Place, limit: int) -> bytes:
    """Return the bytes at a place.

    Args:
        place: a file, a range of a file, or an object.
        limit: the most bytes.

    Raises:
        FileNotFoundError: there is no such file or object.
        TooLargeError: there are more bytes than ``limit``.
        OSError: the file cannot be read, or ends before the range.
        PictureError: an object changed since it was listed, or its server does not answer.
    """
    part = place.part or Part()
    if part.row is not None:
        from sightword.places.cells import read_cell

        data = read_cell(place.path, part.row, part.column or "")
        if len(data) > limit:
            raise TooLargeError(len(data))
        return data
    count = size(place)
    if count > limit:
        raise TooLargeError(count)
    if is_address(place.path):
        return read_object(place.path, part.offset or 0, (part.offset or 0) + count, part.version or "")
    if part.offset is None:
        return Path(place.path).read_bytes()
    _regular(place.path)
    with open(place.path, "rb", buffering=0) as file:
        data = os.pread(file.fileno(), count, part.offset)
    if len(data) < count:
        raise OSError(errno.EIO, f"the file ends before byte {part.offset + count}")
    return data


def read_object(address: str, start: int, end: int, version: str) -> bytes:
    """Return a range of an object; errors as :func:`read`."""
    above, name = split(address)
    try:
        return requests_at(above).get_range(name, start, end, version)
    except ChangedError:
        todo = "Run `sightword list` again, and then `dvc repro`: its pictures are read anew."
        raise PictureError("changed since it was listed", where=address, todo=todo) from None


def split(address: str) -> tuple[str, str]:
    """Return the bucket or server of an address, and the rest."""
    protocol, _, path = address.partition("://")
    bucket, _, name = path.partition("/")
    return f"{protocol}://{bucket}", name


@lru_cache(64)
def requests_at(above: str) -> Requests:
    """Return the requests to a bucket or server, one connection for a process."""
    return Requests(above, PICTURES)


def _regular(path: str) -> int:
    """Return the size of a file; NotAFileError for a pipe, which would block when opened, and for a folder."""
    state = Path(path).stat()
    if not stat.S_ISREG(state.st_mode):
        raise NotAFileError(errno.EISDIR, "it is a folder or a device", path)
    return state.st_size
