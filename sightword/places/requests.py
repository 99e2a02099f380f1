"""Objects of buckets and files of web servers, by obstore: one client of S3, Google, Azure and HTTP.

Failed requests are repeated with growing pauses. Messages have the service's code and text, and no credentials.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import logging
import os
import re
import shutil
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from datetime import UTC, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from sightword.errors import PictureError, SetupError, SightwordError, StoreError
from sightword.io.files import loads, write_text
from sightword.machine import CREDENTIALS, split_address
from sightword.messages import install_extra, plural, quote, short, without_credentials

log = logging.getLogger(__name__)

TRIES, PATIENCE = 10, 60.0
"""The most repetitions of a request, and the seconds for them."""
CONNECT_SECONDS, READ_SECONDS = 5.0, 20.0
"""Seconds for a connection, and between two pieces of an answer."""
PAGE, KEPT = 1000, 86_400
"""Objects of a page of a listing, and the most seconds that a page is kept for the next try."""
WEB = ("https", "http")
"""Protocols whose servers list nothing."""

_CAUSES = (
    ("RequestTimeTooSkewed", "the clock of this machine is wrong", "Set the clock."),
    ("Expired|InvalidToken", "the credentials have expired", "Renew them: AWS_SESSION_TOKEN, or AWS_PROFILE."),
    ("HeaderMalformed|Redirect$|IllegalLocation|configured region", "the bucket is in another region",
     "Set AWS_DEFAULT_REGION to the region of the bucket."),
    ("Quota", "the quota of the bucket is used up", "Make room in the bucket."),
    ("with invalid path", "the key of an object cannot be used", "Rename the object, or list a folder without it."),
)  # fmt: skip
"""Codes and texts of refusals, with the cause and what to do."""


class Use(NamedTuple):
    """What objects are used for, in the words of messages."""

    name: str
    setting: str
    """The setting with the address."""
    error: type[SightwordError]
    remedy: str
    """What to do after a failure in the middle."""


STORE = Use("the store", "SIGHTWORD_STORE", StoreError, "Stored features stay, and the next run continues with them.")
PICTURES = Use("the pictures", "corpus.pictures", PictureError, "Run the command again later: it goes on.")


@dataclass(frozen=True)
class Listed:
    """A file in a listing."""

    size: int
    changed: float
    """Time of the last change, in seconds since 1970."""
    version: str = ""
    """The server's name of these bytes: the ETag without its quotes, else the time of the last change."""


class Requests:
    """Requests below an address such as ``s3://bucket/prefix``, for pictures also ``https://host``.

    Every method raises the error of ``use``, and SetupError without obstore.

    SetupError: the address is of another kind, or has credentials in it.
    """

    def __init__(self, address: str, use: Use = STORE) -> None:
        self._web = use is not STORE and address.startswith(tuple(f"{protocol}://" for protocol in WEB))
        self._protocol, path = address.rstrip("/").split("://", 1) if self._web else split_address(address)
        self.address, self._use = f"{self._protocol}://{path}", use

    def tree(self, below: str = "", pages: Path | None = None) -> dict[str, Listed]:
        """Return all objects of a folder, by their names below; ``pages`` keeps those of a listing that broke off."""
        objects = _read_pages(pages) if pages else {}
        last: str | None = next(reversed(objects), "")
        if objects:
            log.info("list: goes on behind %s, which an earlier try listed", plural(len(objects), "object"))

        def ask() -> None:
            nonlocal last
            if last is None:  # without an order nothing tells what is behind the last page
                objects.clear()
            for part in self._store.list(below or None, offset=last or None, chunk_size=PAGE):
                page = {facts["path"]: _listed(facts) for facts in part if facts["size"] or not pages}
                if twice := page.keys() & objects.keys():
                    shutil.rmtree(pages or "", ignore_errors=True)
                    what = f"the server lists {quote(min(twice))} twice: it repeats a page"
                    raise self._use.error(what, where=self.address, todo=f"Check {self._settings}.")
                objects.update(page)
                ordered = last is not None and [last, *page] == sorted({last, *page})
                if ordered and pages:
                    rows = [[name, *astuple(listed)] for name, listed in page.items()]
                    with contextlib.suppress(OSError):  # a full disk, or a cache of another user
                        write_text(pages / f"{len(objects):012d}.json", json.dumps([last, rows]))
                last = next(reversed(page), last) if ordered else None

        self._list(ask)
        shutil.rmtree(pages or "", ignore_errors=True)
        return {name.removeprefix(below).lstrip("/"): listed for name, listed in objects.items()}

    def folders(self, below: str) -> list[str]:
        """Return the names of the folders in a folder."""
        names = self._list(lambda: self._store.list_with_delimiter(below)["common_prefixes"])
        return sorted(name.rpartition("/")[2] for name in names)

    def _list(self, ask: Callable[[], Any]) -> Any:
        """Return a listing; an answer that breaks off, which obstore does not repeat, is asked for again."""
        failures = 0
        while True:
            try:
                with self._asked("read"):
                    return ask()
            except SightwordError as error:
                failures += 1
                if "list response" not in error.what or failures > TRIES:
                    raise

    def info(self, name: str) -> Listed:
        """Return the size and version of an object; FileNotFoundError without the object."""
        with self._asked("read"):  # the first byte, since some servers have no answer to HEAD
            return _listed(self._get(name, range=(0, 1)).meta)

    def get(self, name: str) -> bytes:
        """Return the bytes of an object; FileNotFoundError without the object."""
        with self._asked("read"):
            return bytes(self._get(name).bytes())

    def get_range(self, name: str, start: int, end: int, version: str) -> bytes:
        """Return the bytes of an object from ``start`` to before ``end``.

        FileNotFoundError without the object; an error if it has another version, or fewer bytes.
        """
        if start == end:
            return b""
        todo = "List it again by `sightword fetch`, and then `dvc repro`: its pictures are read anew."
        changed = self._use.error("changed since it was listed", where=f"{self.address}/{name}", todo=todo)
        try:
            with self._asked("read"):
                answer = self._get(name, range=(start, end))
                if version and (now := _listed(answer.meta).version) and now != version:
                    raise changed
                data = bytes(answer.bytes())
        except SightwordError as error:
            raise changed if re.search("InvalidRange|status code: 416", error.what) else error from None
        if len(data) < end - start:
            raise changed
        return data

    def open(self, name: str, listed: Listed) -> BinaryIO:
        """Return an object as a file that is read range by range."""
        return cast("BinaryIO", io.BufferedReader(_ObjectFile(self, name, listed), 1 << 16))

    def put(self, name: str, data: bytes) -> None:
        """Write an object, whole or not at all, in one request."""
        with self._asked("written"):
            self._store.put(name, data, use_multipart=False)

    def put_and_compare(self, name: str, data: bytes) -> None:
        """Write an object and read it again; an error if other bytes come back."""
        self.put(name, data)
        with contextlib.suppress(FileNotFoundError):
            if self.get(name) == data:
                return
        what = "the server does not keep what is written"
        raise self._use.error(what, where=f"{self.address}/{name}", todo=f"Check {self._settings}.")

    def remove(self, name: str) -> None:
        """Remove an object, if it is still there."""
        with self._asked("changed"), contextlib.suppress(FileNotFoundError):
            self._store.delete(name)

    def _get(self, name: str, **options: Any) -> Any:
        return self._store.get(urllib.parse.unquote(name) if self._web else name, options=options)

    @property
    def _settings(self) -> str:
        return f"the address ({self._use.setting}, AWS_ENDPOINT_URL), AWS_DEFAULT_REGION and the network"

    @cached_property
    def _store(self) -> Any:
        import obstore.store

        connect: Any = obstore.store.from_url
        client = {
            "allow_http": True,
            "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
            "read_timeout": timedelta(seconds=READ_SECONDS),
        }
        pauses = {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=5), "base": 2}
        retry = {"max_retries": TRIES, "retry_timeout": timedelta(seconds=PATIENCE), "backoff": pauses}
        more = {"disable_bulk_delete": True} | self._profile() if self._protocol == "s3" else {}
        for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT") if self._protocol == "s3" else ():
            if not re.match("https?://[^/]|$", value := os.environ.get(name, "")):  # obstore would panic
                what = f"{name} is {quote(without_credentials(value))}"
                raise self._use.error(what, where=self.address, expected="an address such as https://HOST:PORT")
        with self._asked("read"):
            return connect(self.address, client_options=client, retry_config=retry, **more)

    def _profile(self) -> dict[str, Any]:
        """Return the region and the credentials of a profile or a role, as boto3 finds and renews them."""
        if "AWS_ACCESS_KEY_ID" in os.environ or os.environ.get("AWS_SKIP_SIGNATURE"):
            return {}
        try:
            from botocore.exceptions import BotoCoreError
            from obstore.auth.boto3 import Boto3CredentialProvider
        except ModuleNotFoundError:
            return {}
        try:
            return {"credential_provider": Boto3CredentialProvider(ttl=timedelta(minutes=5))}
        except (ValueError, BotoCoreError):
            todo = f"Set {CREDENTIALS['s3']}; AWS_SKIP_SIGNATURE=true for a public bucket."
            what = f"there are no credentials for {self._use.name}"
            raise self._use.error(what, where=self.address, todo=todo) from None

    @contextlib.contextmanager
    def _asked(self, done: str) -> Iterator[None]:
        """Turn errors of obstore into messages."""
        try:
            from obstore.exceptions import BaseError, NotSupportedError
        except ModuleNotFoundError:
            what = f"obstore is not installed, without which nothing at {self._protocol}:// can be read"
            raise SetupError(what, todo=install_extra("s3")) from None
        try:
            yield
        except NotSupportedError:
            what, todo = "the server sends the whole file in place of a range", "Download the files instead."
            raise self._use.error(what, where=self.address, todo=todo) from None
        except (BaseError, FileNotFoundError, ValueError) as error:
            text = str(error)
            code = "".join(re.findall(r"<Code>([^<]*)</Code>", text)[:1])
            if code == "NoSuchBucket":
                what = f"there is no bucket {self.address.split('/')[2]}"
                todo = f"Make the bucket, or correct {self._use.setting}."
                raise self._use.error(what, where=self.address, todo=todo) from None
            if isinstance(error, FileNotFoundError):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None
            raise self._error(done, code, text) from None

    def _error(self, done: str, code: str, text: str) -> SightwordError:
        keys = CREDENTIALS.get(self._protocol, "an address that needs no credentials")
        said = code or re.sub(r"\w+://\S+", "", _said(code, text))  # a name may say Expired
        causes = ((cause, todo) for pattern, cause, todo in _CAUSES if re.search(pattern, said))
        cause, todo = next(causes, ("", f"Check {self._settings}. {self._use.remedy}"))
        what = f"{self._use.name} cannot be {done}{cause and ': '}{cause} ({_said(code, text)})"
        if not cause and re.search("status code: 40[13]", text):
            what = f"{self._use.name} may not be {done} with these credentials ({code or 'access denied'})"
            todo = f"Ask for the permission, or give other credentials: {keys}."
        return self._use.error(what, where=self.address, todo=todo)


class _ObjectFile(io.RawIOBase):
    """An object as a file that is read range by range."""

    def __init__(self, requests: Requests, name: str, listed: Listed) -> None:
        self._requests, self._name, self._listed, self._at = requests, name, listed, 0

    def seekable(self) -> bool:
        return True

    readable = seekable

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._listed.size}[whence]
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        end = max(min(self._at + len(buffer), self._listed.size), self._at)
        data = self._requests.get_range(self._name, self._at, end, self._listed.version)
        buffer[: len(data)] = data
        self._at = end
        return len(data)


def _read_pages(folder: Path) -> dict[str, Listed]:
    """Return the objects of kept pages, up to a page that is damaged, old, or not behind the one before."""
    objects: dict[str, Listed] = {}
    with contextlib.suppress(OSError, ValueError, TypeError):
        for file in sorted(folder.glob("*.json")):
            before, rows = loads(file.read_bytes())
            if before != next(reversed(objects), "") or abs(time.time() - file.stat().st_mtime) > KEPT:
                break
            objects |= {name: Listed(*facts) for name, *facts in rows}
    return objects


def _said(code: str, text: str) -> str:
    """Return the service's code and message, else the first line of an error; without credentials."""
    message = re.search(r"<Message>(.*?)</Message>", text, re.DOTALL)
    said = f"{code}: {message[1] if message else ''}" if code else text.partition("\n")[0].rpartition(" - ")[2]
    return short(without_credentials(said), 200).rstrip(".: ")


def _listed(facts: Any) -> Listed:
    changed = facts["last_modified"]
    tag = (facts["e_tag"] or "").removeprefix("W/").strip('"')
    seconds = changed.timestamp()  # 0 from a web server that does not tell
    return Listed(facts["size"], seconds, tag or (changed.astimezone(UTC).isoformat() if seconds else ""))
