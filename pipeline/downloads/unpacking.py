"""Archives, unpacked as if each came from an enemy: zip, tar, tar.gz.

Only plain files are ever made, in a folder of the caller's. An archive with a member that
would leave it, a link out of it, a device, or more bytes than its size can account for is
refused as a whole.
"""

from __future__ import annotations

import fnmatch
import gzip
import lzma
import posixpath
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Literal

from sightword.errors import DownloadError
from sightword.transfer import need_room, writing

RATIO = 100
"""So many bytes may come of each byte of the archive; texts reach 10, pictures 1."""
ALLOWANCE = 1 << 24
"""Bytes that may come of any archive."""
MOST_MEMBERS = 2_000_000
CHUNK = 1 << 20
_LONGEST_LINK = 4096

# What zipfile and tarfile raise on files that are damaged or something else.
_DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    struct.error,
    ValueError,
    RuntimeError,  # encrypted, or (NotImplementedError) compressed in an unknown way
    OverflowError,
    LookupError,
    OSError,  # gzip's, bz2's; those of writing are told apart before
)


@dataclass(frozen=True)
class _Member:
    name: str
    size: int
    kind: Literal["file", "folder", "link", "hard link", "device"]
    link: str
    open: Callable[[], IO[bytes] | None]


def unpack(archive: Path, into: Path, wanted: Mapping[str, str], *, most: int | None = None) -> int:
    """Unpack some members.

    Args:
        archive: the file; its first bytes tell what it is.
        into: an empty folder.
        wanted: folders below ``into`` by the patterns of the members that go there. ``a/**`` keeps the folders
            below ``a``, any other pattern the last part of the name only.
        most: how many bytes may come of it; default: :data:`RATIO` times its size, and :data:`ALLOWANCE`.

    Returns:
        How many files there are now.

    Raises:
        DownloadError: it is no whole archive, or may not be unpacked; ``into`` may then hold a part.
    """
    limit = most if most is not None else RATIO * archive.stat().st_size + ALLOWANCE
    try:
        with open(archive, "rb") as file:
            members = _zip(file) if file.read(2) == b"PK" else _tar(file, archive, limit)
            return _keep(members, into, wanted, archive, limit)
    except _DAMAGED as error:
        what = f"is no whole archive ({(str(error).splitlines() or [type(error).__name__])[0]})"
        raise DownloadError(what, where=archive, todo="Delete it and fetch it again.") from None


def _keep(members: Iterator[_Member], into: Path, wanted: Mapping[str, str], archive: Path, limit: int) -> int:
    taken: set[str] = set()
    left = limit
    for number, member in enumerate(members, start=1):
        where = f"{archive}, member {member.name[:200]!r}"
        name = _inside(member.name, where)
        if number > MOST_MEMBERS:
            raise DownloadError(f"has more than {MOST_MEMBERS:,} members", where=archive)
        if member.kind == "device":
            raise DownloadError("is a device or a pipe", where=where, expected="plain files and folders")
        goal = None if member.kind == "folder" else _goal(name, wanted)
        if "link" in member.kind:
            _check_link(member, name, kept=goal is not None, where=where)
            continue
        if goal is None:
            continue
        if goal in taken:
            raise DownloadError("is there twice", where=where, expected="each file once")
        taken.add(goal)
        if member.size > left:
            raise _too_large(archive, limit)
        with writing(into):
            need_room(into, member.size)
        left -= _write(member, into / goal, left, archive, limit)
    return len(taken)


def _write(member: _Member, path: Path, left: int, archive: Path, limit: int) -> int:
    source = member.open()
    if source is None:
        raise DownloadError("holds nothing", where=f"{archive}, member {member.name[:200]!r}")
    count = 0
    with source:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            file = open(path, "xb")  # noqa: SIM115 - closed below; reading in between fails in other ways than writing
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


def _inside(name: str, where: str) -> str:
    """The name without needless parts."""
    plain = name.replace("\\", "/")
    if not name:
        raise DownloadError("has no name", where=where)
    if re.search(r"[\x00-\x1f\x7f]", name):
        raise DownloadError("has a control character in its name", where=where)
    if plain.startswith("/") or re.match(r"[A-Za-z]:", plain):
        raise DownloadError("has an absolute name", where=where, expected="a name below the archive's own folder")
    if ".." in plain.split("/"):
        raise DownloadError("would leave the folder", where=where, expected="a name without '..'")
    return posixpath.normpath(name)


def _check_link(member: _Member, name: str, *, kept: bool, where: str) -> None:
    """A link that is wanted, or leads out, is an attack or a mistake; others are passed over."""
    start = posixpath.dirname(name) if member.kind == "link" else ""
    end = posixpath.normpath(posixpath.join(start, member.link.replace("\\", "/")))
    if end.startswith("/") or end.split("/")[0] == "..":
        raise DownloadError(f"is a link that leaves the folder, to {member.link[:200]!r}", where=where)
    if kept:
        raise DownloadError(f"is a link, to {member.link[:200]!r}", where=where, expected="a plain file")


def _goal(name: str, wanted: Mapping[str, str]) -> str | None:
    """Where a member goes, or None where it is not wanted."""
    path = PurePosixPath(name)
    for pattern, folder in wanted.items():
        if pattern.endswith("/**"):
            head = PurePosixPath(pattern[:-3])
            if path.is_relative_to(head) and path != head:
                return posixpath.normpath(f"{folder}/{path.relative_to(head)}")
        elif path.parts and _matches(path.parts, PurePosixPath(pattern).parts):
            return posixpath.normpath(f"{folder}/{path.name}")
    return None


def _matches(parts: tuple[str, ...], patterns: tuple[str, ...]) -> bool:
    return len(parts) == len(patterns) and all(map(fnmatch.fnmatchcase, parts, patterns))


def _zip(file: IO[bytes]) -> Iterator[_Member]:
    with zipfile.ZipFile(file) as opened:
        for info in opened.infolist():
            mode = info.external_attr >> 16
            kind: Literal["file", "folder", "link", "device"] = "file"
            link = ""
            if info.orig_filename.endswith("/"):
                kind = "folder"
            elif stat.S_ISLNK(mode):
                kind = "link"
                with opened.open(info) as target:
                    link = target.read(_LONGEST_LINK).decode("utf-8", "replace")
            elif stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                kind = "device"
            # orig_filename: zipfile cuts the other one at a NUL.
            yield _Member(info.orig_filename, info.file_size, kind, link, partial(opened.open, info))


def _tar(file: IO[bytes], archive: Path, limit: int) -> Iterator[_Member]:
    file.seek(0)
    packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    stream = _Counted(gzip.GzipFile(fileobj=file) if packed else file, archive, limit)
    with tarfile.open(fileobj=stream, mode="r|") as opened:  # type: ignore[call-overload] # it asks for read() alone
        for entry in opened:
            kind: Literal["file", "folder", "link", "hard link", "device"] = "device"
            if entry.isreg():
                kind = "file"
            elif entry.isdir():
                kind = "folder"
            elif entry.issym() or entry.islnk():
                kind = "link" if entry.issym() else "hard link"
            yield _Member(entry.name, entry.size, kind, entry.linkname, partial(opened.extractfile, entry))


class _Counted:
    """A stream that refuses to give more than its limit: headers and members nobody wants can be bombs too."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, archive: Path, limit: int) -> None:
        self._stream, self._archive, self._limit, self._left = stream, archive, limit, limit

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise _too_large(self._archive, self._limit)
        return data
