"""The store: every computed feature by its key, for all projects and machines that share a folder.

``FOLDER/features/KIND/`` holds the features of one kind: ``identity.json`` describes the kind, and immutable segments
hold the features. No file is changed in place: any number of writers and readers need no locks, also on network file
systems, and a killed writer leaves at most a temporary file.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from sightword import group_files
from sightword.errors import StoreError
from sightword.features.identity import Identity
from sightword.features.segments import SEGMENT_NAME, Array, read_segment, write_segment
from sightword.files import Pathish

log = logging.getLogger(__name__)

FIRST, LAST = 1.0, 120.0
"""The shortest and the longest time before a computed feature is written, in seconds."""
SHARE = 0.05
"""The most of a run's time that a killed process may lose, between these limits."""
SEGMENT_BYTES = 1 << 22
"""Features of this size are written at once, which takes about ten times as much memory."""
PROBE = 1 << 12
"""Bytes that the disk must take before anything is computed."""
IDENTITY = "identity.json"


class Store:
    """A folder of features, which is made by the first write."""

    def __init__(self, folder: Pathish) -> None:
        self.folder = Path(folder)
        self.kinds = self.folder / "features"

    def read(self, identity: Identity, dimension: int, keys: Collection[bytes]) -> Iterator[tuple[list[bytes], Array]]:
        """Yield keys and their features, float32 (n, D), as far as they are there, each checked and yielded once.

        Damaged features cause a warning.

        Raises:
            StoreError: the folder cannot be read.
        """
        wanted = set(keys)
        folder = self.kinds / identity.name
        for path in entries(folder, SEGMENT_NAME):
            if not wanted:
                break
            for found, values in read_segment(path, dimension, wanted, _warn):
                wanted.difference_update(found)
                if found:
                    yield found, values
        if len(wanted) < len(keys):
            try:
                _name(folder, identity)
            except OSError as error:  # a read-only store
                log.debug("%s: %s", folder, error)
            _touch(folder / IDENTITY)

    def writer(self, identity: Identity) -> Writer:
        """Return a context manager that writes features of one kind; StoreError if the folder cannot be written."""
        folder = self.kinds / identity.name
        try:
            group_files.make_folder(folder)
            group_files.check_writable(folder, bytes(PROBE))
            _name(folder, identity)
        except OSError as error:
            raise _unwritable(self.folder, error) from None
        _touch(folder / IDENTITY)
        return Writer(self.folder, folder, identity)


class Writer:
    """Collects features and writes them in segments, in a thread of its own; the rest at exit, after an error too."""

    def __init__(self, store: Path, folder: Path, identity: Identity) -> None:
        self.seconds = 0.0
        """Time spent writing."""
        self._store, self._folder, self._identity = store, folder, identity
        self._waiting: dict[bytes, Array] = {}
        self._bytes = 0
        self._started = self._written = time.monotonic()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._running: Future[None] | None = None

    def put(self, key: bytes, feature: Array) -> None:
        """Add a feature, float32 (D,); StoreError if an earlier feature could not be written."""
        self._waiting[key] = feature
        self._bytes += feature.nbytes
        now = time.monotonic()
        patience = min(max(FIRST, SHARE * (now - self._started)), LAST)
        if self._bytes >= SEGMENT_BYTES or now - self._written >= patience:
            self._flush()
            self._written = now

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        try:
            self._flush()
            self._wait()
        except StoreError as problem:
            if error is None:
                raise
            log.warning("%s", problem)  # the first error is raised
        finally:
            self._thread.shutdown()

    def _flush(self) -> None:
        try:
            self._wait()
        finally:  # also after an earlier segment failed
            if self._waiting:
                self._running = self._thread.submit(self._write, self._waiting)
                self._waiting, self._bytes = {}, 0

    def _wait(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            try:
                running.result()
            except OSError as error:
                raise _unwritable(self._store, error) from None

    def _write(self, features: dict[bytes, Array]) -> None:
        started = time.perf_counter()
        try:
            write_segment(self._folder, features)
        except FileNotFoundError:  # the kind was removed just now: write into a new folder
            write_segment(self._folder, features)
        _name(self._folder, self._identity)
        self.seconds += time.perf_counter() - started


def entries(folder: Path, name: re.Pattern[str]) -> list[Path]:
    """Return the entries of a folder whose names fit, sorted; StoreError if the folder cannot be read."""
    try:
        return sorted(path for path in folder.iterdir() if name.fullmatch(path.name))
    except FileNotFoundError:
        return []
    except OSError as error:
        what = f"cannot be read ({error.strerror})"
        raise StoreError(what, where=folder, todo="Set SIGHTWORD_STORE to another folder.") from None


def _unwritable(folder: Path, error: OSError) -> StoreError:
    todo = "Make room or give permission there, or name another folder (SIGHTWORD_STORE). Stored features stay, and "
    todo += "the next run continues with them."
    return StoreError(f"the store cannot be written ({error.strerror or error})", where=folder, todo=todo)


def _warn(path: Path, lost: int, why: str) -> None:
    what = f"{lost} features" if lost else "its features"
    todo = "`sightword store prune` removes them"
    if path.exists() and not os.access(path, os.R_OK):
        todo = "its owner must let the group read it (chmod g+r)"
    log.warning("%s: %s cannot be used and are ignored (%s); %s", path, what, why, todo)


def _name(folder: Path, identity: Identity) -> None:
    """Write a kind's ``identity.json`` if it is missing or damaged; raises OSError, except for a missing permission."""
    path, record = folder / IDENTITY, (identity.as_json() + "\n").encode()
    if path.is_file() and path.read_bytes() == record:
        return
    try:
        group_files.write_open(path, record)
    except PermissionError as error:  # another user's file in a folder with the sticky bit; segments do not need it
        log.debug("%s: %s", path, error)


def _touch(path: Path) -> None:
    """Set the time of a kind's last use, if that is permitted."""
    try:
        os.utime(path)
    except OSError as error:
        log.debug("%s: %s", path, error)
