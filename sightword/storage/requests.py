"""Requests to object storage through fsspec: tried again within bounds, with errors that a user can act on.

No message has credentials: of an error, the code and a text without addresses and keys is told.
"""

from __future__ import annotations

import errno
import importlib
import itertools
import logging
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from sightword.errors import SetupError, StoreError
from sightword.machine import CREDENTIALS, split_address
from sightword.messages import first_line

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

_INSTALL = {
    "s3": ("s3fs", "Install the extra: pip install 'sightword[s3]'."),
    "gs": ("gcsfs", "Install it: pip install gcsfs."),
    "az": ("adlfs", "Install it: pip install adlfs."),
}
_ERRORS = {
    "s3": ("botocore.exceptions:BotoCoreError", "aiohttp:ClientError"),
    "gs": ("gcsfs.retry:HttpError", "google.auth.exceptions:GoogleAuthError", "aiohttp:ClientError"),
    "az": ("azure.core.exceptions:AzureError", "aiohttp:ClientError"),
}
"""Errors that are not OSErrors."""
_UNKNOWN_KEYS = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "InvalidClientTokenId")
_NO_KEYS = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "ProfileNotFound")
_FINAL = (errno.EINVAL, errno.EPERM, errno.ENOSYS, getattr(errno, "EREMCHG", errno.ENOENT))
"""Errors of a request that no other try mends."""


@dataclass(frozen=True)
class Listed:
    """An object in a listing."""

    size: int
    changed: float | None
    """Time of the last change, in seconds since 1970."""


class Requests:
    """Requests below one address, such as ``s3://bucket/prefix``; the first one connects.

    Every method raises StoreError, with what was wrong and what to do, and SetupError if the package for the protocol
    is not installed.

    Raises:
        SetupError: the address is of another kind, or has credentials in it.
    """

    def __init__(self, address: str) -> None:
        self._protocol, self._path = split_address(address)
        self.address = f"{self._protocol}://{self._path}"
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
        return _listed(self._ask("read", lambda system: system.info(self._full(name))))

    def get(self, name: str) -> bytes:
        """Return the bytes of an object; FileNotFoundError without it."""
        return bytes(self._ask("read", lambda system: system.cat_file(self._full(name))))

    def put(self, name: str, data: bytes) -> None:
        """Write an object, whole or not at all, in one request."""
        self._ask("written", lambda system: system.pipe_file(self._full(name), data))

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
                answer = ask(system)
            except FileNotFoundError as error:
                if _code(error) == "NoSuchBucket" or self._lacks_bucket(system):
                    raise self._no_bucket() from None
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None
            except PermissionError as error:
                raise self._refused(done, error) from None
            except self._errors as error:
                patience = PATIENCE if self._answered else FIRST_PATIENCE
                if _is_final(error) or (tried >= TRIES and time.monotonic() + pause > began + patience):
                    raise self._failed(done, error, time.monotonic() - began) from None
                log.debug("%s: %s; the next try is in %.1f s", self.address, self._told(error), pause)
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
                    what = f"{error.name} is not installed, which a store at {self._protocol}:// needs"
                    raise SetupError(what, todo=todo) from None
                for library in ("botocore", "aiobotocore"):  # at DEBUG they log signed requests
                    logging.getLogger(library).setLevel(logging.WARNING)
                self._errors = (OSError, ValueError, *_loaded(self._protocol))
                try:
                    self._system = fsspec.filesystem(
                        self._protocol, use_listings_cache=False, **_options(self._protocol)
                    )
                except self._errors as error:
                    raise self._failed("read", error, 0.0) from None
                if self._protocol == "s3":
                    self._system.retries = 1
            return self._system

    def _lacks_bucket(self, system: Any) -> bool:
        """Return whether the server says that the bucket is not there."""
        try:
            system.ls(self._path.partition("/")[0], detail=False)
        except FileNotFoundError:
            return True
        except self._errors as error:
            log.debug("%s: %s", self.address, self._told(error))
        return False

    def _no_bucket(self) -> StoreError:
        todo = "Make the bucket, or correct SIGHTWORD_STORE."
        return StoreError(f"there is no bucket {self._path.partition('/')[0]}", where=self.address, todo=todo)

    def _refused(self, done: str, error: PermissionError) -> StoreError:
        code = _code(error) or "access denied"
        todo = f"Check {CREDENTIALS[self._protocol]}."
        if code in _UNKNOWN_KEYS:
            return StoreError(f"the server does not accept the credentials ({code})", where=self.address, todo=todo)
        todo = f"Ask for the permission, or give other credentials: {CREDENTIALS[self._protocol]}."
        return StoreError(f"the store may not be {done} with these credentials ({code})", where=self.address, todo=todo)

    def _failed(self, done: str, error: Exception, seconds: float) -> StoreError:
        if type(error).__name__ in _NO_KEYS:
            todo = f"Set {CREDENTIALS[self._protocol]}."
            return StoreError("there are no credentials for the store", where=self.address, todo=todo)
        tried = f", tried for {seconds:.0f} s" if seconds >= 1 else ""
        what = f"the store cannot be {done} ({self._told(error)}{tried})"
        todo = "Check the address (SIGHTWORD_STORE, AWS_ENDPOINT_URL) and the network."
        if self._answered:
            todo = "Stored features stay, and the next run continues with them."
        return StoreError(what, where=self.address, todo=todo)

    def _told(self, error: Exception) -> str:
        """Return what an error says, without credentials."""
        text = without_credentials(first_line(getattr(error, "strerror", None) or error)).rstrip(".")
        code = _code(error)
        return f"{code}: {text}" if code and code not in text else text


def without_credentials(text: str) -> str:
    """Return a text without the credentials in addresses and in this process's variables."""
    text = re.sub(r"(\w+://)[^/@\s]*@", r"\1***@", text)
    text = re.sub(r"(\w+://[^\s?]*)\?[^\s\"']*", r"\1", text)
    secret = re.compile(r"(ACCESS_KEY|SECRET|TOKEN|PASSWORD|ACCOUNT_KEY|CONNECTION_STRING)")
    for name, value in os.environ.items():
        if len(value) > 3 and secret.search(name):
            text = text.replace(value, "***")
    return text


def _pauses() -> Iterator[float]:
    """Yield seconds between tries, longer each time, and not the same in all processes."""
    for times in itertools.count():
        yield min(0.1 * 1.7**times, LONGEST_PAUSE) * _CHANCE.uniform(0.7, 1.3)


def _is_final(error: Exception) -> bool:
    """Return whether no other try mends a request; ValueErrors are of the settings, such as the server's address."""
    wrong = isinstance(error, ValueError) or (isinstance(error, OSError) and error.errno in _FINAL)
    return wrong or type(error).__name__ in _NO_KEYS


def _code(error: BaseException) -> str:
    """Return the service's code of an error, such as ``AccessDenied``; empty without one."""
    response = getattr(error.__cause__, "response", None) or getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


def _options(protocol: str) -> dict[str, Any]:
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
    return Listed(int(facts["size"] or 0), changed.timestamp() if isinstance(changed, datetime) else None)
