"""Reads the members of a tar without unpacking: where each file lies, and the texts among them.

Nothing is written, so a member's name leads nowhere; a name that leaves the folder is a fault all the same.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

from sightword.errors import CorpusError
from sightword.io.opening import TEXT, check_kind, is_inside, opened, reading
from sightword.machine import is_address
from sightword.places.place import Place, open_object

LONGEST_TEXT = 1_000_000
"""The most bytes of a text."""
_TAIL = 1 << 20
"""The most zeros that writers of tars leave behind the end."""
_DAMAGED = (tarfile.TarError, ValueError, EOFError, RecursionError, MemoryError)
"""Errors of tarfile on damaged headers; it calls itself for each long name in a row."""
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
            return _read(file, place.path, is_text)
    try:
        with open_object(place) as stream:
            return _read(stream, place.path, is_text)
    except FileNotFoundError:
        raise CorpusError("does not exist", where=place.path, todo="List it again by `sightword fetch`.") from None


def _read(file: BinaryIO, where: str, is_text: Callable[[str], bool]) -> Members:
    total = file.seek(0, os.SEEK_END)
    file.seek(0)
    with reading(where, CorpusError):
        check_kind(file.read(515), TEXT)
    found = Members()
    file.seek(0)
    try:
        archive = tarfile.open(fileobj=file, mode="r:")  # noqa: SIM115 - the file is the caller's
    except _DAMAGED:
        raise CorpusError("is no tar, or an empty file", where=where, expected="a plain .tar") from None
    archive.offset = 0
    while found.damage is None:
        start = archive.offset
        file.seek(start)
        block = file.read(tarfile.BLOCKSIZE)
        if block.count(0) == tarfile.BLOCKSIZE:
            if file.read(_TAIL).strip(b"\0") or total - start > _TAIL:
                found.damage = f"has bytes behind its end, at byte {start}: members there are missing"
            break
        if len(block) < tarfile.BLOCKSIZE:
            found.damage = _ENDS_EARLY.format(total)
            break
        file.seek(start)
        try:
            member: tarfile.TarInfo | None = tarfile.TarInfo.fromtarfile(archive)
        except _DAMAGED:
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
    elif not is_inside(name):
        fault = "the name leaves the folder, is too long, or has a control character"
    elif is_text(name) and member.size > LONGEST_TEXT:
        fault = f"a text of {member.size} bytes"
    if fault:
        found.faults[name.encode("utf-8", "backslashreplace").decode()] = fault
        return
    found.files[name] = Span(member.offset_data, member.size)
    if is_text(name):
        file.seek(member.offset_data)
        found.texts[name] = file.read(member.size)
