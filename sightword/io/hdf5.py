"""HDF5 files that name their own checksum, on disks that fail.

After a failed write HDF5 may end with a segmentation fault, and a changed bit may send its reader into an endless loop.
HDF5 therefore sees no error of the disk, and opens a file only if its first :data:`HEAD` bytes name the others' sha256.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import io
import os
from collections.abc import Callable, Iterator
from typing import IO, Any, TypeVar

import h5py
import numpy as np
import numpy.typing as npt

from sightword.errors import FileFormatError
from sightword.io.files import Pathish, too_large
from sightword.io.opening import reading, require_regular
from sightword.messages import first_line

HEAD = 512
"""Bytes before HDF5's own: the least that HDF5 allows."""
_WAIT = "Wait until the other program has closed the file, or end it (`lsof` names it)."

_MAGIC = b"Sightword. SHA-256 of the bytes from 512 on:\n"
_NO_RESERVATION = (errno.EINVAL, errno.ENODEV, errno.ENOSYS, errno.EOPNOTSUPP)

T = TypeVar("T")


@contextlib.contextmanager
def created(path: Pathish, room: int) -> Iterator[tuple[h5py.File, Callable[[], None]]]:
    """Yield a new HDF5 file, and a function that raises the first error of the disk so far, for long loops of writes.

    The most bytes that the file can have, ``room``, are reserved before any write, if the file system can.
    """
    with open(path, "w+b", buffering=0) as file:
        disk = _Disk(file)
        try:
            with h5py.File(disk, "w", track_order=True, userblock_size=HEAD) as hdf5:
                disk.reserve(room)  # HDF5 cuts off what it did not use when the file is closed
                disk.check()
                yield hdf5, disk.check
        finally:
            disk.check()
    seal(path)


def seal(path: Pathish) -> None:
    """Write the checksum of an HDF5 file into its first bytes."""
    with open(path, "r+b") as file:
        file.seek(HEAD)
        head = _head(hashlib.file_digest(file, "sha256").hexdigest())
        file.seek(0)
        file.write(head)


@contextlib.contextmanager
def opened(
    path: Pathish, *, expected: str, first: str, again: str
) -> Iterator[tuple[dict[str, Any], dict[str, h5py.Dataset], str]]:
    """Yield the root attributes of an HDF5 file, its tables, for :func:`read_rows`, and its checksum.

    Arguments and errors are those of :func:`checked`.
    """
    checksum = checked(path, expected=expected, first=first, again=again)
    with contextlib.ExitStack() as stack:
        with _faults(path, again):
            file = stack.enter_context(h5py.File(path, "r"))
            values = sorted(file.attrs.items())
            attributes = {key: value.item() if isinstance(value, np.generic) else value for key, value in values}
            tables = {name: table for name, table in file.items() if isinstance(table, h5py.Dataset)}
        yield attributes, tables, checksum


def read_rows(table: h5py.Dataset, rows: slice, again: str) -> npt.NDArray[Any]:
    """Return rows of a table of an :func:`opened` file; FileFormatError, which advises ``again``, if it is damaged."""
    with _faults(table.file.filename, again):
        found: npt.NDArray[Any] = table[rows]
        return found


@contextlib.contextmanager
def _faults(path: Pathish, again: str) -> Iterator[None]:
    try:
        with reading(path):
            yield
    except FileFormatError:
        raise
    except MemoryError:
        raise too_large(path) from None
    # For a file of another program h5py raises RuntimeError, KeyError, TypeError and others.
    except Exception as error:  # noqa: BLE001
        raise FileFormatError(f"is damaged ({first_line(error)})", where=path, todo=again) from None


def checked(path: Pathish, *, expected: str, first: str, again: str) -> str:
    """Return the checksum of a file whose bytes have the checksum that the file names.

    Args:
        path: the file.
        expected: what the file should be, for messages.
        first: the remedy for a missing file.
        again: the remedy for a damaged file.

    Raises:
        FileFormatError: the file is missing, cannot be read, differs from what was written, or is open for writing.
    """
    with reading(path, todo=first):
        require_regular(path)  # to open a pipe would wait for ever
        with open(path, "rb") as file:
            head = file.read(HEAD)
            found = hashlib.file_digest(file, "sha256").hexdigest()
            if head != _head(found):
                if _is_locked(file):
                    raise FileFormatError("is open for writing in another program", where=path, todo=_WAIT)
                if _is_unclosed(file):
                    what = "was opened for writing by a program that ended before it closed the file"
                    raise FileFormatError(what, where=path, todo=f"`dvc checkout` brings the file back. {again}")
    if head == _head(found):
        return found
    what = "is damaged, or a file of another program or of an earlier Sightword"
    if head.startswith(_MAGIC):
        expected = head[len(_MAGIC) :].rstrip(b"\0\n").decode("ascii", "replace")
        what = f"is damaged or was changed: the sha256 of its bytes from {HEAD} on is {found}"
    raise FileFormatError(what, where=path, expected=expected, todo=again)


def _is_locked(file: IO[bytes]) -> bool:
    """Return whether another program has the lock that HDF5 takes for writing."""
    with contextlib.suppress(OSError):  # a file system without locks
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _is_unclosed(file: IO[bytes]) -> bool:
    """Return whether HDF5's consistency flags, whose place depends on the superblock's version, say 'open'."""
    for start in (HEAD, 0):
        file.seek(start)
        block = file.read(24)
        if block.startswith(b"\x89HDF") and len(block) == 24:
            return bool(block[20 if block[8] < 2 else 11] & 1)
    return False


def _head(checksum: str) -> bytes:
    return (_MAGIC + checksum.encode() + b"\n").ljust(HEAD, b"\0")


class _Disk(io.RawIOBase):
    """A file for h5py's driver of Python's file objects, which leaves the disk alone after the first error."""

    def __init__(self, file: io.FileIO) -> None:
        super().__init__()
        self._file = file
        self._error: BaseException | None = None

    def check(self) -> None:
        """Raise the first error, if there was one."""
        if self._error is not None:
            raise self._error

    def reserve(self, room: int) -> None:
        """Reserve bytes for the file on the disk, if the file system can."""
        if hasattr(os, "posix_fallocate"):  # not on macOS
            self._do(lambda: self._reserve(room), None)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._do(lambda: self._file.seek(offset, whence), offset)

    def tell(self) -> int:
        return self._do(self._file.tell, 0)

    def readinto(self, buffer: Any) -> int:
        return self._do(lambda: self._fill(memoryview(buffer).cast("B")), len(buffer))

    def write(self, data: Any) -> int:
        return self._do(lambda: _repeat(self._file.write, memoryview(data).cast("B")), len(data))

    def truncate(self, size: int | None = None) -> int:
        return self._do(lambda: self._file.truncate(size), size or 0)

    def _do(self, call: Callable[[], T], instead: T) -> T:
        if self._error is None:
            try:
                return call()
            # Not even KeyboardInterrupt may reach HDF5 within a write; check() raises it.
            except BaseException as error:  # noqa: BLE001
                self._error = error
        return instead

    def _reserve(self, room: int) -> None:
        try:
            os.posix_fallocate(self._file.fileno(), 0, room)
        except OSError as error:
            if error.errno not in _NO_RESERVATION:
                raise

    def _fill(self, view: memoryview) -> int:
        done = _repeat(self._file.readinto, view)
        view[done:] = bytes(len(view) - done)
        return len(view)


def _repeat(call: Callable[[memoryview], int], view: memoryview) -> int:
    """Read into or write a buffer with a call that may process a part; returns the number of processed bytes."""
    done = 0
    while done < len(view) and (count := call(view[done:])):
        done += count
    return done
