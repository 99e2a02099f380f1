"""One file from one address, gone on with where the last attempt was cut off.

pooch fetches, compares the hash and puts the file in its place; what it does not have is a
transfer that survives cut connections and killed processes, which is what stands here, as one
of its downloaders. What has come is kept beside the file as ``NAME.part``.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import time
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import requests
from tqdm import tqdm

from sightword import __version__
from sightword.errors import DownloadError
from sightword.files import FULL, require_regular, write_text

log = logging.getLogger(__name__)

CHUNK = 1 << 14  # bytes; what of a chunk has come when the line is cut is lost
LOCAL_CHUNK = 1 << 20
FOR_A_WHILE = (408, 425, 429, 500, 502, 503, 504)
LONGEST_WAIT = 60.0
"""Seconds that are waited before another attempt. A server that asks for more is left alone."""
OLD = 60.0
"""Seconds since the last change after which a date tells a file from its successor."""
MAKE_ROOM = "Make room and run it again: what has been downloaded so far is kept."


class UnreachableError(DownloadError):
    """This address does not give the file; another one may."""


class _CutError(Exception):
    """The transfer ended early and may be tried again, after ``wait`` seconds where the server says so.

    ``weight`` says how many attempts it counts for.
    """

    def __init__(self, why: str, wait: float | None = None, weight: int = 1) -> None:
        super().__init__(why)
        self.wait, self.weight = wait, weight


@dataclass(frozen=True)
class Patience:
    """How long to try."""

    tries: int = 4
    """Attempts in a row that bring nothing; where nobody answers, half as many, and once something came, twice."""
    wait: float = 1.0
    """Seconds before the second attempt, doubled at each further one."""
    timeout: float = 60.0
    """Seconds of silence that count as a cut."""


class Resuming:
    """A downloader for :func:`pooch.retrieve`.

    Args:
        part: the file in which the bytes are gathered; it stays after a failure, and after success until the caller
            removes it.
        size: the published size in bytes, where it is known.
        checked: the hash will be compared, so that parts may come from several addresses.
        progress: draw a bar on standard error.
        patience: how long to try.
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
        """Whether anything of an earlier attempt or process was used."""
        self._progress = progress
        self._notes = part.with_name(part.name + ".json")

    def __call__(self, url: str, output_file: str, _pooch: object) -> None:
        """Have the whole file as ``output_file``, as pooch wants it.

        Raises:
            UnreachableError: this address does not give it.
            DownloadError: there is no room for it.
        """
        self.fill(url)
        Path(output_file).unlink()
        try:
            # A second name: should the process die while pooch reads the file, nothing that has come is lost.
            os.link(self.part, output_file)
        except OSError:  # a file system without links
            os.replace(self.part, output_file)

    def discard(self) -> None:
        """Forget what has come."""
        self.part.unlink(missing_ok=True)
        self._notes.unlink(missing_ok=True)

    def fill(self, url: str) -> None:
        """Have the whole file as ``part``; raises as a call does."""
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
                # Further than ever, or a server that is cut and cannot go on is asked for ever.
                if self._have() > furthest:
                    failures, tries, furthest = 0, 2 * self.patience.tries, self._have()
                failures += cut.weight
                if failures >= tries:
                    raise UnreachableError(f"{cut}, again and again", where=url) from None
                wait = self.patience.wait * 2 ** (failures - 1) if cut.wait is None else cut.wait
                log.warning("%s: %s; trying again", url, cut)
                time.sleep(min(wait, LONGEST_WAIT))

    def _attempt(self, url: str) -> None:
        have, headers = self._begin(url)
        try:
            response = requests.get(
                url, stream=True, headers=headers, timeout=(min(20.0, self.patience.timeout), self.patience.timeout)
            )
        except (requests.ConnectionError, requests.Timeout) as error:
            if isinstance(error, requests.exceptions.SSLError):
                raise UnreachableError(f"the secure connection fails ({_reason(error)})", where=url) from None
            raise _CutError(f"no connection ({_reason(error)})", weight=2) from None
        except (requests.RequestException, ValueError) as error:  # ValueError: urllib3 of some addresses
            raise UnreachableError(_reason(error), where=url) from None
        with response:
            start, total = self._agree(url, response, have)
            if start == total:
                return
            tells = (self._noted(url) if start else None) or validator(response.headers)  # a part may name none
            with writing(self._notes):
                write_text(self._notes, json.dumps({"url": url, "validator": tells, "total": total}))
            self.resumed |= start > 0
            need_room(self.part.parent, None if total is None else total - start)
            self._write(_received(response), start, total)
        if total is not None and (have := self._have()) != total:
            if have > total:
                self.discard()
                raise UnreachableError(f"the file there has more than {total} bytes", where=url)
            raise _CutError(f"the connection was cut after {have} of {total} bytes")

    def _begin(self, url: str) -> tuple[int, dict[str, str]]:
        """How much is there that can be gone on from, and the headers that ask for the rest."""
        headers = {"Accept-Encoding": "identity", "User-Agent": f"sightword/{__version__}"}
        have, noted = self._have(), self._noted(url)
        if not have or not (noted or self.checked):
            return 0, headers
        headers["Range"] = f"bytes={have}-"
        if noted:
            headers["If-Range"] = noted
        return have, headers

    def _agree(self, url: str, response: requests.Response, have: int) -> tuple[int, int | None]:
        """From which byte on the answer goes, and how many the file has.

        Equal numbers say that all is there.
        """
        status, headers = response.status_code, response.headers
        span = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)", headers.get("Content-Range", ""))
        total = int(span.group(2)) if span and span.group(2) != "*" else None
        if status == 416 and have:
            known = self._read_notes().get("total")
            if total != have or (known and total != known) or not self._same(url, headers, absent=True):
                self.discard()
                raise _CutError("what has come does not fit the file; starting over")
        elif status in FOR_A_WHILE:
            wait = _retry_after(headers.get("Retry-After", ""))
            answer = f"the server answers {status} {response.reason}"
            if wait is not None and wait > LONGEST_WAIT:
                raise UnreachableError(f"{answer} and asks for {wait:,.0f} seconds of patience", where=url)
            raise _CutError(answer, wait)
        elif status not in (200, 206):
            raise UnreachableError(f"the server answers {status} {response.reason}", where=url)
        elif headers.get("Content-Encoding", "identity") != "identity":
            raise UnreachableError("the server sends it compressed, against its orders", where=url)
        elif headers.get("Content-Type", "").startswith("text/html"):
            raise UnreachableError("there is a web page instead of the file", where=url)
        elif status == 206:
            known = self.size or (self._read_notes().get("total") if have else None)
            fits = have and span is not None and span.group(1) == str(have) and (not known or total in (None, known))
            # Some servers and proxies ignore If-Range: the rest may be that of another file.
            if not fits or not self._same(url, headers, absent=self.checked):
                self.discard()
                raise _CutError("the rest does not fit what has come; starting over")
        else:
            have = 0
            length = headers.get("Content-Length", "")
            total = int(length) if length.isdecimal() else None
        if None not in (total, self.size) and total != self.size:
            raise UnreachableError(f"the file there has {total} bytes, not {self.size}", where=url)
        # Where the server says no size, the published one tells whether all has come.
        return have, self.size if total is None else total

    def _noted(self, url: str) -> str | None:
        """The validator of the file that has come in part, where this address sent that part."""
        notes = self._read_notes()
        return notes.get("validator") if notes.get("url") == url else None

    def _same(self, url: str, headers: Mapping[str, str], *, absent: bool) -> bool:
        """Whether an answer speaks of the file that has come in part (RFC 9110, section 15.3.7.3).

        Args:
            url: the address.
            headers: of the answer.
            absent: what to say where the answer names no validator, or none was noted.
        """
        noted = self._noted(url)
        found = headers.get("ETag" if noted and noted.startswith('"') else "Last-Modified")
        return absent if noted is None or found is None else found == noted

    def _copy(self, source: Path) -> None:
        """A file of this machine, such as a mirror on a shared disk."""
        try:
            require_regular(source)
            total = source.stat().st_size
        except OSError as error:
            raise UnreachableError(f"cannot be read ({error.strerror or error})", where=source) from None
        if self.size is not None and total != self.size:
            raise UnreachableError(f"has {total} bytes, not {self.size}", where=source)
        self.part.unlink(missing_ok=True)
        need_room(self.part.parent, total)
        self._write(_read(source), 0, total)

    def _write(self, chunks: Iterable[bytes], start: int, total: int | None) -> None:
        bar = tqdm(
            desc=self.part.stem, initial=start, total=total, unit="B", unit_scale=True, disable=not self._progress
        )
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
            notes = json.loads(self._notes.read_text())
        except (OSError, ValueError):
            return {}
        return notes if isinstance(notes, dict) else {}


class writing:  # noqa: N801 - reads as a word in a with statement
    """While it lasts, an error of the disk is told in one sentence, with the file as it is.

    Args:
        path: what is being written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        """Nothing has to be done before."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # An error of the network is an OSError too, but has been told as one before.
        if isinstance(error, OSError) and not isinstance(error, requests.RequestException):
            if error.errno in FULL:
                raise DownloadError("the disk is full", where=self.path, todo=MAKE_ROOM) from None
            raise DownloadError(f"cannot be written ({error.strerror or error})", where=self.path) from None


def need_room(folder: Path, count: int | None) -> None:
    """Make sure that so many more bytes have room.

    Raises:
        DownloadError: they have not.
    """
    free = shutil.disk_usage(folder).free
    if count is not None and count > free:
        raise DownloadError(
            f"{count:,} bytes are to come, and the disk has room for {free:,}",
            where=folder,
            todo=MAKE_ROOM,
        )


def local_path(address: str) -> Path | None:
    """The path that an address names: ``file:///mirror/a.zip`` or just ``/mirror/a.zip``; None for other addresses.

    Raises:
        UnreachableError: it is no address at all.
    """
    try:
        parts = urllib.parse.urlsplit(address)
    except ValueError as error:
        raise UnreachableError(f"is no address ({error})", where=address) from None
    if parts.scheme == "file":
        return Path(urllib.request.url2pathname(parts.path))
    return None if "://" in address else Path(address)


def _read(source: Path) -> Iterable[bytes]:
    try:
        with open(source, "rb") as file:
            while chunk := file.read(LOCAL_CHUNK):
                yield chunk
    except OSError as error:
        raise UnreachableError(f"cannot be read ({error.strerror or error})", where=source) from None


def _received(response: requests.Response) -> Iterable[bytes]:
    try:
        yield from response.iter_content(CHUNK)
    except requests.RequestException as error:
        # The bytes that came are written: the length tells whether any are lacking.
        why = "" if "IncompleteRead" in str(error) else f" ({_reason(error)})"
        raise _CutError(f"the connection was cut{why}") from None


def validator(headers: Mapping[str, str]) -> str | None:
    """What tells whether the file is still the same, to the byte; None where nothing does (RFC 9110, section 13.1.5).

    A strong ETag does. Without an ETag Last-Modified does, where the file was older than a minute when it was sent: a
    file may change twice within a second, and clocks differ (section 8.8.2.2).
    """
    tag, modified = headers.get("ETag"), headers.get("Last-Modified")
    if tag is not None:
        return tag if tag.startswith('"') else None
    try:
        age = parsedate_to_datetime(headers.get("Date", "")) - parsedate_to_datetime(modified or "")
    except (TypeError, ValueError):  # no date, a wrong one, or one without and one with a time zone
        return None
    return modified if age.total_seconds() >= OLD else None


def _retry_after(value: str) -> float | None:
    """The seconds that a server asks to wait, as a number or a date (RFC 9110, section 10.2.3); None without one."""
    if value.isdecimal():
        return float(value)
    try:
        date = parsedate_to_datetime(value)
        return max(0.0, date.timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _reason(error: Exception) -> str:
    """The innermost cause, which is what a person wants to know."""
    text = str(error)
    found = re.findall(r"\[Errno -?\d+\] ([^'\")\\]+)|(timed out)|(certificate verify failed)", text)
    return next(filter(None, found[-1])) if found else (text.splitlines() or [type(error).__name__])[0][:200]
