"""Reads the members of a tar without unpacking: where each file lies, and the texts among them.

Nothing is written, so a member's name leads nowhere; a name that leaves the folder is a fault all the same.
"""

from __future__ import annotations

import io
import os
import re
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple, cast

from sightword.errors import CorpusError
from sightword.io.opening import opened
from sightword.machine import is_address
from sightword.places.place import Part, Place
from sightword.places.reading import read_object, size

LONGEST_TEXT = 1_000_000
"""The most bytes of a text."""
AT_ONCE = 1 << 22
"""Bytes of a range that is read from an object. The pictures between two texts are passed over if they are larger."""
_PACKED = {b"\x1f\x8b": "gzip", b"BZ": "bzip2", b"\xfd7": "xz", b"(\xb5": "zstd"}
_ENDS_EARLY = "ends early, at byte {}: members after it are missing"


class Span(NamedTuple):
    """A file in a tar: its first byte and their number."""

    offset: int
    size: int


@dataclass
class Members:
    """The content of a tar."""

    files: dict[str, Span] = field(default_factory=dict)
    """The files, by name."""
    texts: dict[str, bytes] = field(default_factory=dict)
    """The bytes of the texts among the files."""
    faults: dict[str, str] = field(default_factory=dict)
    """Members that cannot be used, each with the fault."""
    damage: str | None = None
    """What is wrong with the tar from a place on."""


def members(place: Place, is_text: Callable[[str], bool]) -> Members:
    """Return the files of a tar, in which the last member may be damaged.

    A name that stands twice is a fault of both, since nothing says which file is meant.

    Args:
        place: the tar, a file or an object.
        is_text: whether a file's bytes are wanted, by its name.

    Raises:
        CorpusError: the file is missing, is no tar, or is packed.
        PictureError: the object changed since it was listed, or its server does not answer.
    """
    if not is_address(place.path):
        with opened(place.path, CorpusError) as file:
            return _read(file, os.fstat(file.fileno()).st_size, place.path, is_text)
    with io.BufferedReader(_Object(place), AT_ONCE) as stream:
        try:
            return _read(cast("BinaryIO", stream), size(place), place.path, is_text)
        except FileNotFoundError:
            raise CorpusError("does not exist", where=place.path, todo="Run `sightword list` again.") from None


def _read(file: BinaryIO, total: int, where: str, is_text: Callable[[str], bool]) -> Members:
    head = file.read(2)
    if packed := _PACKED.get(head):
        todo = "Unpack it to a plain .tar: pictures are compressed already, and a packed file has no places to read at."
        raise CorpusError(f"is packed with {packed}", where=where, expected="a plain tar", todo=todo)
    found = Members()
    file.seek(0)
    try:
        archive = tarfile.open(fileobj=file, mode="r:")  # noqa: SIM115 - the file is the caller's
    except (tarfile.TarError, ValueError, EOFError):
        raise CorpusError("is no tar, or an empty file", where=where, expected="a plain .tar") from None
    archive.offset = 0
    while found.damage is None:
        start = archive.offset
        file.seek(start)
        block = file.read(tarfile.BLOCKSIZE)
        if block.count(0) == tarfile.BLOCKSIZE:
            break
        if len(block) < tarfile.BLOCKSIZE:
            found.damage = _ENDS_EARLY.format(total)
            break
        file.seek(start)
        try:
            member: tarfile.TarInfo | None = tarfile.TarInfo.fromtarfile(archive)
        except (tarfile.TarError, ValueError, EOFError):
            member = None
        if member is None or member.size < 0:  # a size below 0 would lead back to this member for ever
            found.damage = f"is damaged at byte {start}: members after it are missing"
            break
        _add(member, file, total, is_text, found)
    return found


def _add(member: tarfile.TarInfo, file: BinaryIO, total: int, is_text: Callable[[str], bool], found: Members) -> None:
    name = member.name.removeprefix("./")
    if member.isdir() or name.rpartition("/")[2].startswith("._"):  # macOS writes them beside the files
        return
    fault = None
    if name in found.files or name in found.faults:
        fault = "the name stands twice in the tar"
        found.files.pop(name, None)
        found.texts.pop(name, None)
    elif member.offset_data + member.size > total:
        fault = found.damage = _ENDS_EARLY.format(total)
    elif not member.isreg() or member.issparse():
        fault = "is a link" if member.islnk() or member.issym() else "is no plain file"
    elif name.startswith("/") or re.match("[A-Za-z]:", name) or {"", ".", ".."} & {*name.split("/")}:
        fault = "the name leaves the folder or is not plain"
    elif re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", name):
        fault = "the name has a control character, or is not UTF-8"
    elif is_text(name) and member.size > LONGEST_TEXT:
        fault = f"a text of {member.size} bytes"
    if fault:
        found.faults[name.encode("utf-8", "backslashreplace").decode()] = fault
        return
    found.files[name] = Span(member.offset_data, member.size)
    if is_text(name):
        file.seek(member.offset_data)
        found.texts[name] = file.read(member.size)


class _Object(io.RawIOBase):
    """An object as a file that is read range by range."""

    def __init__(self, place: Place) -> None:
        self._place, self._at, self._size = place, 0, size(place)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        end = max(min(self._at + len(buffer), self._size), self._at)
        version = (self._place.part or Part()).version or ""
        data = read_object(self._place.path, self._at, end, version) if end > self._at else b""
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
