"""Safe unpacking of zip, tar and tar.gz archives.

Only plain files are made, in a folder of the caller's. tarfile's data filter judges the members of all archives: links
out of the folder and devices are refused. Beyond the filter, an archive is refused if a name is absolute or has ``..``,
or if it unpacks to more bytes than its size can account for.
"""

from __future__ import annotations

import copy
import gzip
import lzma
import os
import posixpath
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from sightword.errors import DownloadError
from sightword.io.opening import is_inside
from sightword.io.transfer import need_room, writing
from sightword.messages import first_line, quote

RATIO = 100
"""Unpacked bytes for each byte of the archive at most; texts reach 10, pictures 1."""
ALLOWANCE = 1 << 24
"""Unpacked bytes of any archive, beyond the ratio."""
MOST_MEMBERS = 2_000_000
CHUNK = 1 << 20
_LONGEST_LINK = 4096

# Errors of zipfile and tarfile on damaged files and other formats. RuntimeError: encrypted, or (NotImplementedError)
# compressed in an unknown way; RecursionError; OSError: gzip's and bz2's, since errors of writing are converted before.
_DAMAGED = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError),
    *(ValueError, RuntimeError, OverflowError, LookupError, MemoryError),
)

Member = tuple[tarfile.TarInfo, Callable[[], IO[bytes] | None]]
"""A member of any archive as tarfile describes it, and the function that opens it."""


def unpack(archive: Path, into: Path, wanted: Mapping[str, str], *, most: int | None = None) -> int:
    """Unpack some members of an archive, whose first bytes show the format, and return the number of files.

    Args:
        archive: the file.
        into: an empty folder.
        wanted: folders below ``into`` by the patterns of the members that go there. ``a/**`` keeps the folders
            below ``a``, any other pattern the last part of the name only.
        most: the most unpacked bytes; default: :data:`RATIO` times the archive's size, plus :data:`ALLOWANCE`.

    DownloadError if the archive is damaged or unsafe; ``into`` may then hold a part.
    """
    limit = most if most is not None else RATIO * archive.stat().st_size + ALLOWANCE
    try:
        with open(archive, "rb") as file:
            members = _zip(file) if file.read(2) == b"PK" else _tar(file, archive, limit)
            return unpack_members(members, into, wanted, archive, limit)
    except _DAMAGED as error:
        what = f"is not a whole archive ({first_line(error)})"
        raise DownloadError(what, where=archive, todo="Delete it and fetch it again.") from None


def unpack_members(members: Iterable[Member], into: Path, wanted: Mapping[str, str], archive: Path, limit: int) -> int:
    """Unpack the wanted members of an archive, at most ``limit`` bytes; arguments and errors as of :func:`unpack`."""
    taken: set[str] = set()
    left = limit
    for number, (member, open_member) in enumerate(members, start=1):
        where = f"{archive}, member {quote(member.name)}"
        if number > MOST_MEMBERS:
            raise DownloadError(f"has more than {MOST_MEMBERS:,} members", where=archive)
        member.name = _plain_name(member.name, where)
        _filter(member, into, where)
        goal = None if member.isdir() else _goal(member.name, wanted)
        if goal is None:
            continue
        if goal in taken or member.issym() or member.islnk():
            what = "is there twice" if goal in taken else f"is a link, to {quote(member.linkname)}"
            raise DownloadError(what, where=where, expected="plain files, each once")
        taken.add(goal)
        if member.size > left:
            raise _too_large(archive, limit)
        with writing(into):
            need_room(into, member.size)
        source = open_member()
        assert source is not None, "a plain file can be opened"
        with source:
            left -= _write(source, into / goal, left, archive, limit)
    return len(taken)


def _filter(member: tarfile.TarInfo, into: Path, where: str) -> None:
    member.linkname = member.linkname.replace("\\", "/")
    try:
        tarfile.data_filter(member, os.fspath(into))
    except tarfile.FilterError as error:
        what = f"is a device or a pipe, or would leave the folder ({first_line(error)})"
        if member.issym() or member.islnk():
            what = f"is a link that leaves the folder, to {quote(member.linkname)}"
        raise DownloadError(what, where=where, expected="plain files and folders") from None


def _write(source: IO[bytes], path: Path, left: int, archive: Path, limit: int) -> int:
    count = 0
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "xb")  # noqa: SIM115 - closed below; errors of reading are not errors of writing
    with file:
        while chunk := source.read(CHUNK):
            count += len(chunk)
            if count > left:
                raise _too_large(archive, limit)
            with writing(path):
                file.write(chunk)
        with writing(path):
            file.flush()
    return count


def _too_large(archive: Path, limit: int) -> DownloadError:
    return DownloadError(f"unpacks to more than {limit:,} bytes, which nothing honest of its size does", where=archive)


def _plain_name(name: str, where: str) -> str:
    """Return the normalised name, or refuse it."""
    plain = name.replace("\\", "/")
    if (
        plain.startswith("/")
        or ".." in plain.split("/")
        or not is_inside(posixpath.normpath(plain).lstrip("./") or ".")
    ):
        expected = "a relative name without '..', control characters and parts of more than 255 bytes"
        raise DownloadError("would leave the folder, or is no name", where=where, expected=expected)
    return posixpath.normpath(name)


def _goal(name: str, wanted: Mapping[str, str]) -> str | None:
    """Return the place of a member; None for an unwanted one."""
    path = PurePosixPath(name)
    for pattern, folder in wanted.items():
        if pattern.endswith("/**"):
            head = PurePosixPath(pattern[:-3])
            if path.is_relative_to(head) and path != head:
                return posixpath.normpath(f"{folder}/{path.relative_to(head)}")
        elif len(path.parts) == len(PurePosixPath(pattern).parts) and path.match(pattern):
            return posixpath.normpath(f"{folder}/{path.name}")
    return None


def _zip(file: IO[bytes]) -> Iterator[Member]:
    with zipfile.ZipFile(file) as opened:
        for info in opened.infolist():
            member = tarfile.TarInfo(info.orig_filename)  # the other name is cut at a NUL
            member.size = info.file_size
            mode = info.external_attr >> 16
            if info.orig_filename.endswith("/"):
                member.type = tarfile.DIRTYPE
            elif stat.S_ISLNK(mode):
                member.type = tarfile.SYMTYPE
                with opened.open(info) as target:
                    member.linkname = target.read(_LONGEST_LINK).decode("utf-8", "replace")
            elif stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                member.type = tarfile.FIFOTYPE
            yield member, partial(opened.open, info)


def _tar(file: IO[bytes], archive: Path, limit: int) -> Iterator[Member]:
    file.seek(0)
    packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    stream = _Counted(gzip.GzipFile(fileobj=file) if packed else file, archive, limit)
    with tarfile.open(fileobj=stream, mode="r|") as opened:  # type: ignore[call-overload] # it calls read() alone
        for entry in opened:
            yield copy.copy(entry), partial(opened.extractfile, entry)


class _Counted:
    """A stream with a limit: headers and unwanted members can be bombs too."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, archive: Path, limit: int) -> None:
        self._stream, self._archive, self._limit, self._left = stream, archive, limit, limit

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise _too_large(self._archive, self._limit)
        return data
