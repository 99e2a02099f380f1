"""Download of one file, resumed where the last attempt was cut off, and safe unpacking of archives.

A transfer survives cut connections and killed processes: received bytes are kept beside the file as ``NAME.part``. Of
zip, tar and tar.gz only plain files are made, in a folder of the caller's. tarfile's data filter judges the members:
links out of the folder and devices are refused; so are names that are absolute or have ``..``, and archives that unpack
to more bytes than their size can account for.
"""

from __future__ import annotations

import contextlib
import copy
import gzip
import json
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
from typing import IO, Any

import requests
from filelock import FileLock
from tqdm import tqdm
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, ProxyError

from sightword import __version__
from sightword.errors import DownloadError
from sightword.io.files import FULL, loads, sha256_file, write_text
from sightword.io.opening import is_inside, reading, require_regular
from sightword.messages import first_line, quote, without_credentials

log = logging.getLogger(__name__)

CHUNK = 1 << 14  # bytes; a chunk that is cut is lost
LOCAL_CHUNK = 1 << 20
TEMPORARY = (408, 425, 429, 500, 502, 503, 504)
LONGEST_WAIT = 60.0
"""Seconds before another attempt at most; a server that asks for more is not asked again."""
MAKE_ROOM = "Make room and run the command again: the bytes downloaded so far are kept."

RATIO, ALLOWANCE = 100, 1 << 24
"""Unpacked bytes for each byte of an archive at most, and beyond that of any; texts reach 10, pictures 1."""
MOST_MEMBERS = 2_000_000
_LONGEST_LINK = 4096

# Errors of zipfile and tarfile on damaged files and other formats. RuntimeError: encrypted, or (NotImplementedError)
# compressed in an unknown way; RecursionError; OSError: gzip's and bz2's, since errors of writing are converted before.
_DAMAGED = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError),
    *(ValueError, RuntimeError, OverflowError, LookupError, MemoryError),
)

Member = tuple[tarfile.TarInfo, Callable[[], IO[bytes] | None]]
"""A member of any archive as tarfile describes it, and the function that opens it."""


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
    from several addresses.
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
        self._notes = part.with_name(part.name + ".json")

    def discard(self) -> None:
        """Delete the received bytes."""
        self.part.unlink(missing_ok=True)
        self._notes.unlink(missing_ok=True)

    def fill(self, url: str) -> None:
        """Download the whole file to ``part``; UnreachableError without the file, DownloadError without room for it."""
        local = local_path(url)
        if local is not None:
            self._copy(local)
            return
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
        have, noted = self._have(), self._noted(url)
        if not (noted or self.checked):
            have = 0
        if have:
            headers |= {"Range": f"bytes={have}-"} | ({"If-Range": noted} if noted else {})
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
            if start == total:
                return
            identity = (self._noted(url) if start else None) or _validator(response.headers)  # a part may have none
            with writing(self._notes):
                write_text(self._notes, json.dumps({"url": url, "validator": identity, "total": total}))
            self.resumed |= start > 0
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
        known = self._read_notes().get("total") if have else None
        if status == 416 and have:
            if total != have or (known and total != known) or not self._same(url, headers, absent=True):
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
            known = self.size or known
            fits = have and span is not None and span.group(1) == str(have) and (not known or total in (None, known))
            # Some servers and proxies ignore If-Range: the rest may belong to another file.
            if not fits or not self._same(url, headers, absent=self.checked):
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

    def _noted(self, url: str) -> str | None:
        """Return the validator of the received part, if this address sent it."""
        notes = self._read_notes()
        return notes.get("validator") if notes.get("url") == url else None

    def _same(self, url: str, headers: Mapping[str, str], *, absent: bool) -> bool:
        """Compare the validators of an answer and the received part (RFC 9110, 15.3.7.3); ``absent`` without both."""
        noted, tag = self._noted(url), headers.get("ETag")
        return absent if noted is None or tag is None else tag == noted

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

    def _read_notes(self) -> dict[str, Any]:
        try:
            notes = loads(self._notes.read_text())
        except (OSError, ValueError):
            return {}
        return notes if isinstance(notes, dict) else {}


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
    """Unpack the wanted members of an archive, whose first bytes show the format; return the number of files.

    Args:
        archive: the file.
        into: an empty folder.
        wanted: folders below ``into`` by the patterns of the members that go there. ``a/**`` keeps the folders
            below ``a``, any other pattern the last part of the name only.

    DownloadError if the archive is damaged or unsafe; ``into`` may then hold a part.
    """
    limit = RATIO * archive.stat().st_size + ALLOWANCE
    try:
        with open(archive, "rb") as file:
            members = _zip_members(file) if file.read(2) == b"PK" else _tar_members(file, archive, limit)
            return _unpack_members(members, into, wanted, archive, limit)
    except _DAMAGED as error:
        what = f"is not a whole archive ({first_line(error)})"
        raise DownloadError(what, where=archive, todo="Delete it and fetch it again.") from None


def _unpack_members(members: Iterable[Member], into: Path, wanted: Mapping[str, str], archive: Path, limit: int) -> int:
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
            left -= _write_member(source, into / goal, left, archive, limit)
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


def _write_member(source: IO[bytes], path: Path, left: int, archive: Path, limit: int) -> int:
    count = 0
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "xb")  # noqa: SIM115 - closed below; errors of reading are not errors of writing
    try:
        while chunk := source.read(LOCAL_CHUNK):
            count += len(chunk)
            if count > left:
                raise _too_large(archive, limit)
            with writing(path):
                file.write(chunk)
        with writing(path):
            file.close()
    except BaseException:
        with contextlib.suppress(OSError):  # what is left in the buffer cannot be written either
            file.close()
        raise
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


def _zip_members(file: IO[bytes]) -> Iterator[Member]:
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


def _tar_members(file: IO[bytes], archive: Path, limit: int) -> Iterator[Member]:
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
