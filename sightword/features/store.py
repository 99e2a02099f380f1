"""The store: each feature that was ever computed, by its key, for all projects and machines that share a folder.

``FOLDER/features/KIND/`` holds the features of one kind (:mod:`sightword.features.identity`):
``identity.json`` says which, and immutable segments hold them. A segment is
written under a temporary name and renamed, and nothing is ever changed in place, so that any
number of writers and readers get along without locks, on network file systems too; a killed
writer leaves at most a temporary file. In a folder with the setgid bit all of it is the group's
(:mod:`sightword.group_files`).
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from sightword import group_files
from sightword.errors import StoreError
from sightword.features.identity import Identity
from sightword.features.segments import SEGMENT_NAME, Array, read_segment, write_segment
from sightword.files import Pathish

log = logging.getLogger(__name__)

FIRST, LAST = 1.0, 120.0
"""Seconds a finished feature may wait to be written: early in a run and late in a long one."""
SHARE = 0.05
"""Between those, the part of a run's time that a killed process may lose at most."""
SEGMENT_BYTES = 1 << 22
"""Features of this size are written at once; about ten times as much memory is in use for it."""
PROBE = 1 << 12
"""Bytes that must find room before anything is computed."""
IDENTITY = "identity.json"


class Store:
    """A folder of features.

    Args:
        folder: made when something is written.
    """

    def __init__(self, folder: Pathish) -> None:
        self.folder = Path(folder)
        self.kinds = self.folder / "features"

    def read(self, identity: Identity, dimension: int, keys: Collection[bytes]) -> Iterator[tuple[list[bytes], Array]]:
        """Those features of some keys that are there, each checked and given once.

        Args:
            identity: the kind.
            dimension: D.
            keys: the keys wanted.

        Yields:
            Keys and their float32 (n, D).

        Raises:
            StoreError: the folder cannot be read. Damaged features are only warned of.
        """
        wanted = set(keys)
        folder = self.kinds / identity.name
        for path in self.segments(folder):
            if not wanted:
                break
            for found, values in read_segment(path, dimension, wanted, _warn):
                wanted.difference_update(found)
                if found:
                    yield found, values
        if len(wanted) < len(keys):
            try:
                _name(folder, identity)
            except OSError as error:  # a store that may only be read
                log.debug("%s: %s", folder, error)
            _touch(folder / IDENTITY)

    def segments(self, folder: Path) -> list[Path]:
        """The segments in the folder of a kind.

        Raises:
            StoreError: the folder cannot be read.
        """
        try:
            return sorted(path for path in folder.iterdir() if SEGMENT_NAME.fullmatch(path.name))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(
                f"cannot be read ({error.strerror})", where=folder, todo="Set SIGHTWORD_STORE to another folder."
            ) from None

    def writer(self, identity: Identity) -> Writer:
        """Write features of one kind, as a context manager.

        Raises:
            StoreError: the folder cannot be written; found out before anything is computed.
        """
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
    """Takes features one by one and writes them in segments, beside the work, in a thread of its own.

    On leaving the context what was taken is written, whatever the reason for leaving.
    """

    def __init__(self, store: Path, folder: Path, identity: Identity) -> None:
        self.seconds = 0.0
        """Spent writing."""
        self._store, self._folder, self._identity = store, folder, identity
        self._waiting: dict[bytes, Array] = {}
        self._bytes = 0
        self._started = self._written = time.monotonic()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._running: Future[None] | None = None

    def put(self, key: bytes, feature: Array) -> None:
        """Take a feature, float32 (D,).

        Raises:
            StoreError: an earlier one could not be written.
        """
        self._waiting[key] = feature
        self._bytes += feature.nbytes
        now = time.monotonic()
        patience = min(max(FIRST, SHARE * (now - self._started)), LAST)
        if self._bytes >= SEGMENT_BYTES or now - self._written >= patience:
            self._flush()
            self._written = now

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._flush()
            self._wait()
        except StoreError as problem:
            if error is None:
                raise
            log.warning("%s", problem)  # the first error is the one to tell
        finally:
            self._thread.shutdown()

    def _flush(self) -> None:
        try:
            self._wait()
        finally:  # that an earlier segment failed is no reason to lose this one
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
        except FileNotFoundError:  # the kind was removed just now: once more, into a new folder
            write_segment(self._folder, features)
        _name(self._folder, self._identity)
        self.seconds += time.perf_counter() - started


def _unwritable(folder: Path, error: OSError) -> StoreError:
    return StoreError(
        f"the store cannot be written ({error.strerror or error})",
        where=folder,
        todo="Make room or give permission there, or name another folder (SIGHTWORD_STORE). What was stored before "
        "stays, and the next run goes on from it.",
    )


def _warn(path: Path, lost: int, why: str) -> None:
    what = f"{lost} features" if lost else "its features"
    todo = "`sightword store prune` takes them away"
    if path.exists() and not os.access(path, os.R_OK):
        todo = "whoever made it must let the group read it (chmod g+r)"
    log.warning("%s: %s cannot be used and are left out (%s); %s", path, what, why, todo)


def _name(folder: Path, identity: Identity) -> None:
    """Say which kind a folder holds, where that is not said, or was lost and may be mended.

    Raises:
        OSError: what the file system says, but for a permission that lacks.
    """
    path, record = folder / IDENTITY, (identity.as_json() + "\n").encode()
    if path.is_file() and path.read_bytes() == record:
        return
    try:
        group_files.write_open(path, record)
    except PermissionError as error:  # another user's, in a folder with the sticky bit: the segments do without it
        log.debug("%s: %s", path, error)


def _touch(path: Path) -> None:
    """Note when a kind was last used, where that is permitted."""
    try:
        os.utime(path)
    except OSError as error:
        log.debug("%s: %s", path, error)
