"""Download of one file, resumed where the last attempt was cut off, and safe unpacking of archives.

A transfer survives cut connections, and killed processes if the file's hash is known: received bytes are kept beside
the file as ``NAME.part``. Of archives only plain files are made, in a folder of the caller's.
"""

from __future__ import annotations

import contextlib
import gzip
import logging
import lzma
import os
import posixpath
import re
import shutil
import stat
import struct
import tarfile
import time
import urllib.parse
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

import requests
from filelock import FileLock
from tqdm import tqdm
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, ProxyError

from sightword import __version__
from sightword.errors import DownloadError
from sightword.io.files import FULL, sha256_file
from sightword.io.opening import is_inside, reading, require_regular
from sightword.messages import first_line, quote, without_credentials

log = logging.getLogger(__name__)

CHUNK = 1 << 14  # bytes; a chunk that is cut is lost
LOCAL_CHUNK = 1 << 20
TEMPORARY = (408, 425, 429, 500, 502, 503, 504)
LONGEST_WAIT = 60.0
"""Seconds before another attempt at most; a server that asks for more is not asked again."""
MAKE_ROOM = "Make room and run the command again: a file whose hash is known goes on where it stopped."

_DAMAGED = (
    *(zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, struct.error, EOFError),
    *(ValueError, RuntimeError, OverflowError, LookupError, MemoryError),
)
"""Errors of zipfile and tarfile on damaged files and other formats, and on encrypted ones (RuntimeError)."""


class UnreachableError(DownloadError):
    """This address does not give the file; another address may."""


class NoConnectionError(UnreachableError):
    """The host of this address cannot be reached; other files there cannot either."""


class _CutError(Exception):
    """The transfer ended early, and may be tried again after ``wait`` seconds; it counts as ``weight`` attempts."""

    def __init__(self, why: str, wait: float | None = None, weight: int = 1, *, reached: bool = True) -> None:
        super().__init__(why)
        self.wait, self.weight, self.reached = wait, weight, reached


@dataclass(frozen=True)
class Patience:
    """The limits of a transfer's attempts."""

    tries: int = 4
    """Attempts in a row without a new byte; half as many without an answer, twice as many after some bytes came."""
    wait: float = 1.0
    """Seconds before the second attempt, doubled at each further one."""
    timeout: float = 60.0
    """Seconds of silence that count as a cut."""


class Resuming:
    """A resumable transfer to the file ``part``, which stays until the caller removes it.

    ``size`` is the published size, if known; with ``checked`` the caller will compare a hash, so that parts may come
    from several addresses and earlier processes.
    """

    def __init__(
        self,
        part: Path,
        *,
        size: int | None = None,
        checked: bool = False,
        progress: bool = False,
        patience: Patience = Patience(),
    ) -> None:
        self.part, self.size, self.checked, self.patience = part, size, checked, patience
        self.resumed = False
        """Whether bytes of an earlier attempt or process were used."""
        self._progress = progress
        self._tag: str | None = None  # what this address calls the file to the byte, if it says so

    def discard(self) -> None:
        """Delete the received bytes."""
        self.part.unlink(missing_ok=True)

    def fill(self, url: str) -> None:
        """Download the whole file to ``part``; UnreachableError without the file, DownloadError without room for it."""
        local = local_path(url)
        if local is not None:
            self._copy(local)
            return
        self._tag = None
        if not self.checked:
            self.discard()
        failures, tries, furthest = 0, self.patience.tries, self._have()
        while True:
            try:
                self._attempt(url)
                return
            except _CutError as cut:
                # New bytes must be more than ever before: a server without ranges would be asked for ever.
                if self._have() > furthest:
                    failures, tries, furthest = 0, 2 * self.patience.tries, self._have()
                failures += cut.weight
                if failures >= tries and not cut.reached:
                    raise NoConnectionError(str(cut), where=url) from None
                if failures >= tries:
                    raise UnreachableError(f"{cut}, at each try", where=url) from None
                wait = self.patience.wait * 2 ** (failures - 1) if cut.wait is None else cut.wait
                log.warning("%s: %s; trying again", without_credentials(url), cut)
                time.sleep(min(wait, LONGEST_WAIT))

    def _attempt(self, url: str) -> None:
        headers = {"Accept-Encoding": "identity", "User-Agent": f"sightword/{__version__}"}
        have = self._have() if self._tag or self.checked else 0
        if have:
            headers |= {"Range": f"bytes={have}-"} | ({"If-Range": self._tag} if self._tag else {})
        try:
            timeout = (min(20.0, self.patience.timeout), self.patience.timeout)
            response = requests.get(url, stream=True, headers=headers, timeout=timeout)
        except requests.exceptions.SSLError as error:
            raise UnreachableError(f"the secure connection fails ({_reason(error)})", where=url) from None
        except (requests.ConnectionError, requests.Timeout) as error:
            cause = getattr(error.args[0], "reason", None) if error.args else None
            reached = not isinstance(cause, NewConnectionError | ConnectTimeoutError | ProxyError)
            raise _CutError(f"no connection ({_reason(error)})", weight=2, reached=reached) from None
        except (requests.RequestException, ValueError) as error:  # ValueError: urllib3 of some addresses
            raise UnreachableError(_reason(error), where=url) from None
        with response:
            start, total = self._agree(url, response, have)
            self.resumed |= start > 0
            if start == total:
                return
            self._tag = (self._tag if start else None) or _validator(response.headers)  # a part may have none
            need_room(self.part.parent, None if total is None else total - start)
            self._write(_received(response), start, total)
        if total is not None and (have := self._have()) != total:
            if have > total:
                self.discard()
                raise UnreachableError(f"the file there has more than {total} bytes", where=url)
            raise _CutError(f"the connection was cut after {have} of {total} bytes")

    def _agree(self, url: str, response: requests.Response, have: int) -> tuple[int, int | None]:
        """Return the first byte of the answer and the size of the file; equal numbers mean that all bytes are here."""
        status, headers = response.status_code, response.headers
        answer = f"the server answers {status} {response.reason}"
        span = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)", headers.get("Content-Range", ""))
        total = int(span.group(2)) if span and span.group(2) != "*" else None
        if status == 416 and have:
            if total != have or not self._same(headers, absent=True):
                self.discard()
                raise _CutError("the received part does not fit the file; starting over")
        elif status in TEMPORARY:
            seconds = headers.get("Retry-After", "")
            wait = float(seconds) if seconds.isdecimal() else None
            if wait is not None and wait > LONGEST_WAIT:
                raise UnreachableError(f"{answer} and asks for {wait:,.0f} seconds of patience", where=url)
            raise _CutError(answer, wait)
        elif status not in (200, 206):
            raise UnreachableError(answer, where=url)
        elif headers.get("Content-Encoding", "identity") != "identity":
            raise UnreachableError("the server compresses the file, though asked not to", where=url)
        elif headers.get("Content-Type", "").startswith("text/html"):
            raise UnreachableError("there is a web page instead of the file", where=url)
        elif status == 206:
            fits = have and span is not None and span.group(1) == str(have)
            # Some servers and proxies ignore If-Range: the rest may belong to another file.
            if not fits or not self._same(headers, absent=self.checked):
                self.discard()
                raise _CutError("the rest does not fit the received part; starting over")
        else:
            have = 0
            length = headers.get("Content-Length", "")
            total = int(length) if length.isdecimal() else None
        if None not in (total, self.size) and total != self.size:
            raise UnreachableError(f"the file there has {total} bytes, not {self.size}", where=url)
        # Without a size from the server, the published size shows whether all bytes came.
        return have, self.size if total is None else total

    def _same(self, headers: Mapping[str, str], *, absent: bool) -> bool:
        """Compare the tags of an answer and the received part (RFC 9110, 15.3.7.3); ``absent`` without both."""
        tag = headers.get("ETag")
        return absent if None in (self._tag, tag) else tag == self._tag

    def _copy(self, source: Path) -> None:
        """Copy a file of this machine, such as one of a mirror on a shared disk."""
        with reading(source, UnreachableError):
            require_regular(source, any_kind=True)
            total = source.stat().st_size
        if self.size is not None and total != self.size:
            raise UnreachableError(f"has {total} bytes, not {self.size}", where=source)
        self.part.unlink(missing_ok=True)
        need_room(self.part.parent, total)
        self._write(_read(source), 0, total)

    def _write(self, chunks: Iterable[bytes], start: int, total: int | None) -> None:
        name, hidden = self.part.stem, not self._progress
        bar = tqdm(desc=name, initial=start, total=total, unit="B", unit_scale=True, disable=hidden)
        with bar, writing(self.part), open(self.part, "ab" if start else "wb") as file:
            for chunk in chunks:
                file.write(chunk)
                bar.update(len(chunk))
                if total is not None and file.tell() > total:
                    break  # some servers never end
            file.flush()
            os.fsync(file.fileno())

    def _have(self) -> int:
        return self.part.stat().st_size if self.part.is_file() else 0


def _validator(headers: Mapping[str, str]) -> str | None:
    """Return a strong ETag, which identifies a file to the byte; None without one (RFC 9110, section 13.1.5)."""
    tag = headers.get("ETag", "")
    return tag if tag.startswith('"') else None


def _reason(error: Exception) -> str:
    """Return the innermost cause of an error of the network."""
    text = str(error)
    found = re.findall(r"\[Errno -?\d+\] ([^'\")\\]+)|(timed out)|(certificate verify failed)", text)
    return next(filter(None, found[-1])) if found else first_line(error)[:200]


def retrieve(url: str, path: Path, *, begins: str = "", progress: bool = False) -> None:
    """Download a file to its place, where other processes see only the whole file.

    DownloadError: the file cannot be downloaded, or its sha256 does not begin with the hex digits ``begins``.
    """
    part = path.with_name(path.name + ".part")
    with contextlib.ExitStack() as stack:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(FileLock(part.with_suffix(".lock")))
        stack.callback(Path(lock.lock_file).unlink, missing_ok=True)
        transfer = Resuming(part, checked=bool(begins), progress=progress)
        while not path.exists():  # another process may have downloaded the file meanwhile
            transfer.resumed = False
            transfer.fill(url)
            if (found := sha256_file(part)).startswith(begins):
                os.replace(part, path)
            elif not transfer.resumed:
                transfer.discard()
                raise DownloadError(f"its sha256 {found} does not begin with {begins}", where=url)
            transfer.discard()  # the beginning may have belonged to another file


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error of the disk, while ``path`` is written, into a DownloadError."""
    try:
        yield
    except requests.RequestException:
        raise  # an OSError of the network, with a message of its own
    except OSError as error:
        full = error.errno in FULL
        what = "the disk is full" if full else f"cannot be written ({error.strerror or error})"
        raise DownloadError(what, where=path, todo=MAKE_ROOM if full else None) from None


def need_room(folder: Path, count: int | None) -> None:
    """Raise DownloadError if a disk lacks room for ``count`` more bytes."""
    free = shutil.disk_usage(folder).free
    if count is not None and count > free:
        what = f"{count:,} bytes are to come, and the disk has room for {free:,}"
        raise DownloadError(what, where=folder, todo=MAKE_ROOM)


def local_path(address: str) -> Path | None:
    """Return the path of ``file:///a.zip`` or ``/a.zip``, else None; UnreachableError for a text without address."""
    try:
        parts = urllib.parse.urlsplit(address)
    except ValueError as error:
        raise UnreachableError(f"is not an address ({error})", where=address) from None
    if parts.scheme == "file":
        return Path(urllib.request.url2pathname(parts.path))
    return None if "://" in address else Path(address)


def _read(source: Path) -> Iterator[bytes]:
    with reading(source, UnreachableError), open(source, "rb") as file:
        while chunk := file.read(LOCAL_CHUNK):
            yield chunk


def _received(response: requests.Response) -> Iterator[bytes]:
    try:
        yield from response.iter_content(CHUNK)
    except requests.RequestException as error:
        # The received bytes are kept: their number shows whether some are missing.
        why = "" if "IncompleteRead" in str(error) else f" ({_reason(error)})"
        raise _CutError(f"the connection was cut{why}") from None


def unpack(archive: Path, into: Path, wanted: Mapping[str, str]) -> int:
    """Unpack the wanted members of a zip, or of a tar packed in any way, as plain files; return their number.

    Args:
        archive: the file.
        into: an empty folder; nothing outside of it is written.
        wanted: folders below ``into`` by the patterns of the members that go there. ``a/**`` keeps the folders
            below ``a``, any other pattern the last part of the name only.

    DownloadError if the archive is damaged, or a wanted member is no file or stands twice; ``into`` may then hold a
    part.
    """
    count = 0
    try:
        for name, open_member in _members(archive):
            if (goal := _goal(posixpath.normpath(name), wanted)) is None:
                continue
            where = f"{archive}, member {quote(name)}"
            if not is_inside(goal) or (source := open_member()) is None:
                what = "is a link, a device or a sparse file, or has no plain name"
                raise DownloadError(what, where=where, expected="plain files")
            with source, writing(into):
                try:
                    (into / goal).parent.mkdir(parents=True, exist_ok=True)
                    with open(into / goal, "xb") as file:
                        file.writelines(_content(source))
                except (FileExistsError, NotADirectoryError):
                    raise DownloadError("stands twice, or is a file and a folder", where=where) from None
            count += 1
    except (OSError, *_DAMAGED) as error:
        what = f"is not a whole archive ({first_line(error)})"
        raise DownloadError(what, where=archive, todo="Delete it and fetch it again.") from None
    return count


def _content(source: IO[bytes]) -> Iterator[bytes]:
    try:
        while chunk := source.read(LOCAL_CHUNK):
            yield chunk
    except OSError as error:  # of the archive, and not of the file that is written
        raise EOFError(first_line(error)) from None


def _members(archive: Path) -> Iterator[tuple[str, Callable[[], IO[bytes] | None]]]:
    """Yield the name of each member that is no folder, and what opens it, or returns None for what is no plain file."""
    with reading(archive, DownloadError), open(archive, "rb") as file:
        is_zip = file.read(2) == b"PK"
    if is_zip:
        with zipfile.ZipFile(archive) as zipped:
            for one in zipped.infolist():
                if not (name := one.filename.replace("\\", "/")).endswith("/"):  # as some programs of Windows write
                    link = stat.S_ISLNK(one.external_attr >> 16)
                    yield name, (lambda: None) if link else partial(zipped.open, one)
    else:
        # as a stream, since damaged headers send tarfile back for ever; a sparse file of any size fits in a header
        with tarfile.open(archive, "r|*") as tar:
            for member in tar:
                if not member.isdir():
                    plain = member.isreg() and not member.issparse()
                    yield member.name, partial(tar.extractfile, member) if plain else lambda: None


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
