"""Requests to object storage through fsspec: tried again within bounds, with errors that a user can act on."""

from __future__ import annotations

import errno
import importlib
import itertools
import logging
import os
import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar, cast

from sightword.errors import SetupError, SightwordError
from sightword.machine import split_address
from sightword.messages import install_extra
from sightword.places.answers import STORE, OtherAnswerError, Use, check_answers, code, failed, is_final, refused, told

log = logging.getLogger(__name__)

FIRST_PATIENCE, PATIENCE = 15.0, 60.0
"""Seconds for which a request is tried again: before the store has ever answered, and later."""
TRIES = 3
"""The least number of tries."""
LONGEST_PAUSE = 5.0
"""Seconds between two tries, at most."""
CONNECT_SECONDS, READ_SECONDS = 5.0, 20.0
"""Seconds for a connection, and between two pieces of an answer."""

Result = TypeVar("Result")

_CHANCE = random.SystemRandom()  # the module's own generator may be seeded for a stage's results

WEB = ("https", "http")
"""Protocols whose servers list nothing."""

_INSTALL = {
    "s3": ("s3fs", install_extra("s3")),
    "gs": ("gcsfs", "Install it: pip install gcsfs."),
    "az": ("adlfs", "Install it: pip install adlfs."),
    **dict.fromkeys(WEB, ("aiohttp", "Install it: pip install aiohttp.")),
}
_ERRORS = {
    "s3": ("botocore.exceptions:BotoCoreError", "botocore.parsers:ResponseParserError", "aiohttp:ClientError"),
    "gs": ("gcsfs.retry:HttpError", "google.auth.exceptions:GoogleAuthError", "aiohttp:ClientError"),
    "az": ("azure.core.exceptions:AzureError", "aiohttp:ClientError"),
    **dict.fromkeys(WEB, ("aiohttp:ClientError",)),
}
"""Errors that are not OSErrors."""


@dataclass(frozen=True)
class Listed:
    """An object in a listing."""

    size: int
    changed: float | None
    """Time of the last change, in seconds since 1970."""
    version: str = ""
    """The server's name of these bytes: the ETag, without its quotes, or the time of the last change."""


class ChangedError(Exception):
    """An object has other bytes than when it was listed."""


class Requests:
    """Requests below one address, such as ``s3://bucket/prefix``; the first one connects.

    Every method raises the error of ``use``, with what was wrong and what to do, and SetupError if the package for the
    protocol is not installed.

    Args:
        address: a bucket with or without a prefix; for pictures also ``https://host``.
        use: what the objects are used for.

    Raises:
        SetupError: the address is of another kind, or has credentials in it.
    """

    def __init__(self, address: str, use: Use = STORE) -> None:
        if use is not STORE and address.startswith(tuple(f"{protocol}://" for protocol in WEB)):
            self._protocol, self._path = address.partition(":")[0], address.rstrip("/")
            self.address = self._path
        else:
            self._protocol, self._path = split_address(address)
            self.address = f"{self._protocol}://{self._path}"
        self._use = use
        self._lock = threading.Lock()
        self._system: Any = None
        self._errors: tuple[type[Exception], ...] = (OSError, ValueError)
        self._answered = False

    def listing(self, below: str) -> dict[str, Listed]:
        """Return the objects of a folder by name, without those of folders within."""
        folder = self._full(below)
        found = self._ask("read", lambda system: system.find(folder, detail=True))
        names = ((path.removeprefix(f"{folder}/"), facts) for path, facts in found.items())
        return {name: _listed(facts) for name, facts in names if "/" not in name}

    def tree(self) -> dict[str, Listed]:
        """Return all objects below the address, by their names below the address."""
        found = self._ask("read", lambda system: system.find(self._path, detail=True))
        return {path.removeprefix(self._path).lstrip("/"): _listed(facts) for path, facts in found.items()}

    def folders(self, below: str) -> list[str]:
        """Return the names of the folders in a folder."""
        folder = self._full(below)
        try:
            found = self._ask("read", lambda system: system.ls(folder, detail=True))
        except FileNotFoundError:
            return []
        return sorted(facts["name"].rpartition("/")[2] for facts in found if facts["type"] == "directory")

    def info(self, name: str) -> Listed:
        """Return the size and time of an object; FileNotFoundError without it."""
        path = self._full(name)
        if self._protocol in WEB:
            return self._ask("read", lambda system: _sync(system, _web_info, path))
        return _listed(self._ask("read", lambda system: system.info(path)))

    def get(self, name: str) -> bytes:
        """Return the bytes of an object; FileNotFoundError without it."""
        return bytes(self._ask("read", lambda system: system.cat_file(self._full(name))))

    def get_range(self, name: str, start: int, end: int, version: str) -> bytes:
        """Return the bytes of an object from ``start`` to before ``end``.

        Raises:
            FileNotFoundError: there is no such object.
            ChangedError: the object has another version, or fewer bytes.
        """
        return self._ask("read", lambda system: self._range(system, self._full(name), start, end, version))

    def _range(self, system: Any, path: str, start: int, end: int, version: str) -> bytes:
        if start == end:
            return b""
        span, found = f"bytes={start}-{end - 1}", ""
        try:
            if self._protocol == "s3":
                data, found = _sync(system, _s3_range, path, span)
            elif self._protocol in WEB:
                data, found = _sync(system, _web_range, path, span)
            else:
                found, data = _listed(system.info(path)).version, bytes(system.cat_file(path, start, end))
        except self._errors as error:
            if code(error) == "InvalidRange" or getattr(error, "status", 0) == 416:
                raise ChangedError from None
            raise
        if version and found and found != version:
            raise ChangedError
        if len(data) > end - start:
            raise OtherAnswerError("the server sends the whole file in place of a range")
        if len(data) < end - start:
            raise OSError(errno.EIO, f"{len(data)} bytes of {end - start} came")
        return data

    def put(self, name: str, data: bytes) -> None:
        """Write an object, whole or not at all, in one request."""
        self._ask("written", lambda system: system.pipe_file(self._full(name), data))

    def put_and_compare(self, name: str, data: bytes) -> None:
        """Write an object and read it again; StoreError if other bytes come back."""
        self.put(name, data)
        try:
            found = f"{len(kept)} other bytes" if (kept := self.get(name)) != data else None
        except FileNotFoundError:
            found = "nothing"
        if found:
            what = f"the server does not keep what is written: {found} came back for {len(data)} bytes"
            raise self._use.error(what, where=f"{self.address}/{name}", todo=self._use.check)

    def remove(self, name: str) -> None:
        """Remove an object, if it is still there."""
        try:
            self._ask("changed", lambda system: system.rm_file(self._full(name)))
        except FileNotFoundError:
            log.debug("%s/%s: is gone already", self.address, name)

    def _full(self, below: str) -> str:
        return f"{self._path}/{below}"

    def _ask(self, done: str, ask: Callable[[Any], Result]) -> Result:
        """Return the answer to a request, which is tried again for a while if the server is slow or away."""
        system = self._connect()
        began = time.monotonic()
        for tried, pause in enumerate(_pauses(), start=1):
            try:
                if self._protocol == "s3":
                    check_answers(system.s3)
                answer = ask(system)
            except FileNotFoundError as error:
                if code(error) == "NoSuchBucket" or self._lacks_bucket(system):
                    raise self._no_bucket() from None
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None
            except PermissionError as error:
                raise refused(self._use, self.address, done, error) from None
            except self._errors as error:
                patience = PATIENCE if self._answered else FIRST_PATIENCE
                if is_final(error) or (tried >= TRIES and time.monotonic() + pause > began + patience):
                    seconds = time.monotonic() - began
                    raise failed(self._use, self.address, done, error, seconds, answered=self._answered) from None
                log.debug("%s: %s; the next try is in %.1f s", self.address, told(error), pause)
                time.sleep(pause)
            else:
                self._answered = True
                return answer
        raise AssertionError("the pauses never end")

    def _connect(self) -> Any:
        """Return fsspec's file system."""
        with self._lock:
            if self._system is None:
                package, todo = _INSTALL[self._protocol]
                try:
                    importlib.import_module(package)
                    import fsspec
                except ModuleNotFoundError as error:
                    what = f"{error.name} is not installed, without which nothing at {self._protocol}:// can be read"
                    raise SetupError(what, todo=todo) from None
                for library in ("botocore", "aiobotocore"):  # at DEBUG they log signed requests
                    logging.getLogger(library).setLevel(logging.WARNING)
                self._errors = (OSError, ValueError, *_loaded(self._protocol))
                try:
                    self._system = fsspec.filesystem(
                        self._protocol, use_listings_cache=False, **_options(self._protocol)
                    )
                except self._errors as error:
                    raise failed(self._use, self.address, "read", error) from None
                if self._protocol == "s3":
                    self._system.retries = 1
            return self._system

    def _lacks_bucket(self, system: Any) -> bool:
        """Return whether the server says that the bucket is not there."""
        if self._protocol in WEB:
            return False
        try:
            system.ls(self._path.partition("/")[0], detail=False)
        except FileNotFoundError:
            return True
        except self._errors as error:
            log.debug("%s: %s", self.address, told(error))
        return False

    def _no_bucket(self) -> SightwordError:
        todo = f"Make the bucket, or correct {self._use.setting}."
        return self._use.error(f"there is no bucket {self._path.partition('/')[0]}", where=self.address, todo=todo)


def _pauses() -> Iterator[float]:
    """Yield seconds between tries, longer each time, and not the same in all processes."""
    for times in itertools.count():
        yield min(0.1 * 1.7**times, LONGEST_PAUSE) * _CHANCE.uniform(0.7, 1.3)


def _sync(system: Any, ask: Callable[..., Awaitable[Result]], *arguments: str) -> Result:
    """Return the answer of a coroutine, which runs in the thread of fsspec."""
    from fsspec.asyn import sync

    return cast("Result", sync(system.loop, ask, system, *arguments))


async def _s3_range(system: Any, path: str, span: str) -> tuple[bytes, str]:
    """Return a range of an object, and the object's version."""
    bucket, key, _ = system.split_path(path)
    answer = await system._call_s3("get_object", Bucket=bucket, Key=key, Range=span)
    try:
        return await answer["Body"].read(), _unquoted(answer.get("ETag", ""))
    finally:
        answer["Body"].close()


async def _web_info(system: Any, path: str) -> Listed:
    """Return the size and version of a file of a web server; to fsspec's own method any failure is a missing file."""
    session = await system.set_session()
    headers = {"Accept-Encoding": "identity"}
    async with session.head(system.encode_url(path), headers=headers, allow_redirects=True) as answer:
        if answer.status == 404:
            raise FileNotFoundError(path)
        answer.raise_for_status()
        if "Content-Length" not in answer.headers:
            raise OtherAnswerError("the server does not tell the size of the file")
        return Listed(int(answer.headers["Content-Length"]), None, _version(answer.headers))


async def _web_range(system: Any, path: str, span: str) -> tuple[bytes, str]:
    """Return a range of a file of a web server, and the file's version."""
    session = await system.set_session()
    headers = {"Range": span, "Accept-Encoding": "identity"}
    async with session.get(system.encode_url(path), headers=headers) as answer:
        if answer.status == 404:
            raise FileNotFoundError(path)
        answer.raise_for_status()
        if answer.status != 206:
            raise OtherAnswerError("the server sends the whole file in place of a range")
        return await answer.read(), _version(answer.headers)


def _options(protocol: str) -> dict[str, Any]:
    if protocol in WEB:
        aiohttp = importlib.import_module("aiohttp")
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=READ_SECONDS)
        return {"client_kwargs": {"timeout": timeout}}
    if protocol != "s3":
        return {}
    times = {"connect_timeout": CONNECT_SECONDS, "read_timeout": READ_SECONDS}
    # One request a call: s3fs would ask for the size before each read, and try in two layers of its own.
    once = {"retries": {"total_max_attempts": 1}}
    # The names of objects are checksums: a damaged object is no error of the server.
    unchecked = {"response_checksum_validation": "when_required"}
    return {"max_concurrency": 1, "config_kwargs": {**times, **once, **unchecked}}


def _loaded(protocol: str) -> Iterator[type[Exception]]:
    for name in _ERRORS[protocol]:
        module, _, kind = name.partition(":")
        yield getattr(importlib.import_module(module), kind)


def _listed(facts: dict[str, Any]) -> Listed:
    """Return the size and time of an object: each protocol names them in its own way."""
    names = ("LastModified", "mtime", "updated", "last_modified")
    changed = next((facts[name] for name in names if facts.get(name)), None)
    if isinstance(changed, str):
        changed = datetime.fromisoformat(changed)
    seconds = changed.timestamp() if isinstance(changed, datetime) else None
    return Listed(int(facts["size"] or 0), seconds, _version(facts))


def _version(facts: Mapping[str, Any]) -> str:
    """Return an object's version, in the words of any protocol."""
    names = ("ETag", "etag", "generation", "Last-Modified")
    return _unquoted(str(next((facts[name] for name in names if facts.get(name)), "")))


def _unquoted(version: str) -> str:
    return version.removeprefix("W/").strip('"')
