"""Opens the files that a user names: regular files only, ``.gz`` unpacked within a limit, lines in LF or CR LF.

Each fault of a file is one error of the class that the caller names, and never waits.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import logging
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, cast

from sightword.errors import FileFormatError, SightwordError
from sightword.messages import first_line, size

log = logging.getLogger(__name__)

LARGEST = 4_000_000_000
"""The most bytes of a file that is read whole."""

LONGEST = 1_000_000
"""The most bytes of a line, unless the caller names another limit."""

SMALL, RATIO = 64_000_000, 100
"""A ``.gz`` may unpack to so many bytes, or to so many times its own size; text seldom shrinks to a tenth."""

LONGEST_NAME = 255
"""The most bytes of each part of a file's name."""

_Path = str | os.PathLike[str]

_POINTER = ((rb"version https://git-lfs", "a pointer of Git LFS: run `git lfs pull`", ""),)
_FOREIGN = (
    *_POINTER,
    (rb"\s*(<!--.{0,400}?-->\s*)?<(!doctype )?html", "a web page", "Fetch it again: its server sent a page instead."),
    (rb"....ftyp(hei[cmsx]|hev[cx]|mif1|msf1)", "HEIC", "Convert it to JPEG."),
    (rb"\xff\x0a|....JXL \r\n", "JPEG XL", "Convert it to JPEG."),
    (rb"8BPS", "a document of Photoshop", "Convert it to JPEG."),
    (rb"II\*\0|MM\0\*", "TIFF", "Convert it to PNG."),
    (rb"\s*(<\?xml|<!--).{0,400}?<svg|\s*<svg", "SVG, a drawing without pixels", "Convert it to PNG."),
    (rb"<\?xml", "XML, such as the error of a server", "Fetch it again."),
    (rb"%PDF-|\{\\rtf1", "a document in PDF or RTF", "Save its content as plain text, or as a picture."),
    (rb"Rar!\x1a|7z\xbc\xaf", "an archive in RAR or 7z", "Unpack it."),
)
"""Kinds of files that no reader takes, by their first bytes, with the remedy."""
TEXT = (
    *_FOREIGN,
    (rb"\x1f\x8b", "packed with gzip", "Unpack it, or give a text the ending .gz."),
    (rb"BZh[1-9]1AY|\xfd7zXZ|\x28\xb5\x2f\xfd", "packed with bzip2, xz or zstd", "Unpack it."),
    (rb"PK\x03\x04", "a zip archive, as workbooks of Excel are", "Unpack it, or save the table as CSV."),
    (rb"\xff\xfe|\xfe\xff|([^\0]\0){8}|(\0[^\0]){8}", "UTF-16 or UTF-32", "Save it as UTF-8."),
    (
        rb"PAR1[^\x20-\x7e]|ARROW1\0|\x89HDF|\x93NUMPY|\xff\xd8\xff|\x89PNG",
        "a picture or a binary table",
        "Name a file of text.",
    ),
)
"""Kinds of files that readers of text, of tables and of tars do not take."""


class ForeignError(OSError):
    """A file is of a kind that its reader does not take; ``strerror`` is the kind, and ``todo`` the remedy."""

    todo: str


def check_kind(head: bytes, kinds: Sequence[tuple[bytes, str, str]] = _FOREIGN) -> None:
    """Raise ForeignError if the first bytes of a file are those of one of ``kinds``."""
    head = head.removeprefix(b"\xef\xbb\xbf")[:512]
    for pattern, what, todo in kinds:
        if re.match(pattern, head, re.DOTALL | re.IGNORECASE):
            error = ForeignError(errno.EINVAL, what)
            error.todo = todo
            raise error


def is_inside(name: str) -> bool:
    """Return whether a name is relative, without ``..``, empty or too long parts, and control characters."""
    parts = name.split("/")
    if re.match(r"[A-Za-z]:[\\/]", name) or re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", name):
        return False
    short = len(name) <= 1000 and all(len(part.encode()) <= LONGEST_NAME for part in parts)
    return short and not {"", ".", ".."} & {*parts}


@contextlib.contextmanager
def reading(path: _Path, error: type[SightwordError] = FileFormatError, *, todo: str | None = None) -> Iterator[None]:
    """Turn errors of the file system and of unpacking, while ``path`` is read, into an error of the class ``error``."""
    try:
        yield
    except FileNotFoundError:
        raise error("does not exist", where=path, todo=todo) from None
    except ForeignError as reason:
        raise error(f"is {reason.strerror}", where=path, todo=reason.todo or todo) from None
    except (OSError, EOFError, zlib.error) as reason:
        said = getattr(reason, "strerror", None)
        what = f"cannot be read ({said or first_line(reason)})"
        cut = None if said else "It may have been cut off: fetch or make it again."
        raise error(what, where=path, todo=todo or cut) from None


def require_regular(path: _Path, *, any_kind: bool = False) -> None:
    """Raise OSError for a pipe, a socket or a device, which would wait when opened, for a missing file, for a pointer
    of Git LFS, and unless ``any_kind`` for a file of a kind that no reader takes.
    """
    state = Path(path).stat()
    mode = state.st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a regular file", os.fspath(path))
    if not any_kind or state.st_size < 1024:  # as pointers are
        with open(path, "rb") as file:
            check_kind(file.read(515), _POINTER if any_kind else _FOREIGN)


@contextlib.contextmanager
def opened(
    path: _Path, error: type[SightwordError] = FileFormatError, *, todo: str | None = None
) -> Iterator[BinaryIO]:
    """Open a file for reading; a file whose name ends in ``.gz`` is unpacked.

    SightwordError: of the class ``error``: the file is missing, no regular file, unreadable, of another kind, no whole
    ``.gz``, or unpacks to more than :data:`SMALL` bytes and :data:`RATIO` times its size.
    """
    with reading(path, error, todo=todo):
        require_regular(path)
        with open(path, "rb") as file:
            head = file.read(515)
            file.seek(0)
            if not os.fspath(path).lower().endswith(".gz"):
                check_kind(head, TEXT)
                yield file
                return
            if not head.startswith(b"\x1f\x8b"):
                what = f"is {'not packed' if head else 'empty'}, and its name ends in .gz"
                raise error(what, where=path, todo="Fetch it again, pack it, or take .gz from its name.")
            limit = max(SMALL, RATIO * os.fstat(file.fileno()).st_size)
            with gzip.GzipFile(fileobj=file) as packed, io.BufferedReader(_Limited(packed, limit), 1 << 18) as unpacked:
                check_kind(unpacked.peek(515), TEXT)
                yield cast("BinaryIO", unpacked)


class _Limited(io.RawIOBase):
    """Reads from an unpacking stream, and raises OSError after ``limit`` bytes."""

    def __init__(self, stream: gzip.GzipFile, limit: int) -> None:
        self._stream, self._limit, self._left = stream, limit, limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        count = self._stream.readinto(buffer)
        self._left -= count
        if self._left < 0:
            raise OSError(errno.EFBIG, f"it unpacks to more than {size(self._limit)}")
        return count


def read_bytes(path: _Path, error: type[SightwordError] = FileFormatError, *, todo: str | None = None) -> bytes:
    """Return the bytes of a file; errors as :func:`opened`, and for a file of more than :data:`LARGEST` bytes."""
    with opened(path, error, todo=todo) as file:
        parts, left = [], LARGEST
        while part := file.read(1 << 20):  # a call for all bytes takes their room first, for a small file too
            parts.append(part)
            left -= len(part)
            if left < 0:
                raise OSError(errno.EFBIG, f"it has more than {size(LARGEST)}")
        return b"".join(parts)


def raw_lines(
    path: _Path,
    error: type[SightwordError] = FileFormatError,
    *,
    longest: int = LONGEST,
    expected: str | None = None,
    todo: str | None = None,
) -> Iterator[tuple[int, bytes]]:
    """Yield the number, from 1, and the bytes of each line, without its end and the file's byte order mark.

    A line has at most ``longest`` bytes; ``expected`` says in messages what a line holds.

    SightwordError: of the class ``error``, as :func:`opened`, and for UTF-16, and a line that is too long or ends
    in CR.
    """
    with opened(path, error, todo=todo) as file:
        number, packed = 0, os.fspath(path).lower().endswith(".gz")
        most = max(SMALL // 64, Path(path).stat().st_size) if packed else sys.maxsize
        while line := file.readline(longest + 2):
            number += 1
            if number > most:
                raise error(f"unpacks to more than {most:,} lines", where=path, todo=todo)
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
                if b"\r" in line.rstrip(b"\r\n"):
                    remedy = "Convert the line ends, for instance with `tr '\\r' '\\n' < OLD > NEW`."
                    what, ends = "ends in CR, as on old Macs", "lines that end in LF or CR LF"
                    raise error(what, where=f"{path}, line 1", expected=ends, todo=remedy)
            line = line.removesuffix(b"\n").removesuffix(b"\r")
            if len(line) > longest:
                what = f"has more than {longest} bytes"
                raise error(what, where=f"{path}, line {number}", expected=expected, todo=todo)
            yield number, line
        _check_size(Path(path), number)


def _check_size(path: Path, count: int) -> None:
    """Log a warning if a published file has fewer lines than were published."""
    name = re.sub("^stsb-[a-z]+-", "sts-", path.name.removesuffix(".gz"))
    known = max(_published().get(one, 0) for one in (name, f"{path.parent.name}/{name}"))
    if count < known and not (path.parent.parent / "STS/STSSample-en-test").is_dir():  # the sample's SICK is small
        log.warning("%s: has %d of the %d published lines; was it cut off? Fetch it again.", path, count, known)


@cache
def _published() -> dict[str, int]:
    """Return the lines of published files, by their names without ``.gz``, or by folder and name."""
    rows = (line.split("\t") for line in Path(__file__).with_name("published.txt").read_text("utf-8").splitlines())
    return {name: int(count) for name, count in rows}


def lines(
    path: _Path,
    error: type[SightwordError] = FileFormatError,
    *,
    encoding: str = "utf-8",
    longest: int = LONGEST,
    expected: str | None = None,
    todo: str | None = None,
) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line; other characters that end lines in Unicode are part of a line.

    Errors as of :func:`raw_lines`, and for a line that is not in ``encoding`` or has a NUL.
    """
    for number, line in raw_lines(path, error, longest=longest, expected=expected, todo=todo):
        try:
            text = line.decode(encoding)
        except UnicodeDecodeError as reason:
            what, name = f"byte {line[reason.start]:#04x} is not {encoding.upper()}", encoding.upper()
            where = f"{path}, line {number}"
            raise error(what, where=where, todo=f"Save the file as {name}.") from None
        if "\0" in text:
            raise error("has a NUL", where=f"{path}, line {number}", expected=f"plain text in {encoding.upper()}")
        yield number, text


def files_in(folder: Path, *patterns: str) -> list[Path]:
    """Return the files of a folder that match one of the patterns, by name, without the ``._*`` of macOS."""
    found = {file for pattern in patterns for file in folder.glob(pattern)}
    return sorted(file for file in found if not file.name.startswith("._") and file.is_file())
