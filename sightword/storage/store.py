"""The store: every computed feature by its key, for all projects and machines that share a folder or a bucket.

``STORE/features/KIND/`` holds the features of one kind: ``identity.json`` describes the kind, and immutable segments
hold the features. No file is changed in place: any number of writers and readers need no locks, also on network file
systems and in object storage.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from sightword.errors import StoreError
from sightword.io.files import Pathish
from sightword.machine import expanded, is_address
from sightword.storage.folder import FolderPlace
from sightword.storage.kinds import KindFiles, KindIdentity, Place
from sightword.storage.segments import Array, StoredFile, read_segment

log = logging.getLogger(__name__)

FIRST, LAST = 1.0, 120.0
"""The shortest and the longest time before a computed feature is written, in seconds."""
SHARE = 0.05
"""The most of a run's time that a killed process may lose, between these limits."""
SEGMENT_BYTES = 1 << 22
"""Features of this size are written at once, which takes about ten times as much memory."""


class Store:
    """A store of features in a folder, or at an address such as ``s3://bucket/prefix``; the first write makes it.

    Args:
        where: the folder or the address.

    Raises:
        SetupError: an address of another kind, or one with credentials in it.
    """

    def __init__(self, where: Pathish) -> None:
        self.place = _place(str(where))

    def read(
        self, identity: KindIdentity, dimension: int, keys: Collection[bytes]
    ) -> Iterator[tuple[list[bytes], Array]]:
        """Yield keys and their features, float32 (n, D), as far as they are there, each checked and yielded once.

        Damaged features cause a warning.

        Raises:
            StoreError: the store cannot be read.
        """
        wanted = set(keys)
        kind = self.place.kind(identity.name)
        with contextlib.closing(kind.find(wanted)) as segments:
            for segment in segments:
                for found, values in read_segment(segment, dimension, wanted, _warn):
                    wanted.difference_update(found)
                    if found:
                        yield found, values
                if not wanted:
                    break
        if len(wanted) < len(keys):
            kind.mark_used(_record(identity))

    def writer(self, identity: KindIdentity) -> Writer:
        """Return a context manager that writes features of one kind; StoreError if the store cannot be written."""
        kind = self.place.kind(identity.name)
        try:
            kind.prepare(_record(identity))
        except OSError as error:
            raise _unwritable(self.place, error) from None
        return Writer(self.place, kind)


class Writer:
    """Collects features and writes them in segments, in a thread of its own; the rest at exit, after an error too."""

    def __init__(self, place: Place, kind: KindFiles) -> None:
        self.seconds = 0.0
        """Time spent writing."""
        self._place, self._kind = place, kind
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

    @contextlib.contextmanager
    def flushed(self) -> Iterator[None]:
        """Flush at the end of the block, also after an error."""
        try:
            yield
        except BaseException:
            try:
                self.flush()
            except StoreError as problem:
                log.warning("%s", problem)  # the first error is raised
            raise
        self.flush()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        try:
            self.flush()
            self._kind.finish()
        except StoreError as problem:
            if error is None:
                raise
            log.warning("%s", problem)  # the first error is raised
        finally:
            self._thread.shutdown()

    def flush(self) -> None:
        """Write what was put, and wait until it is in the store; StoreError if it could not be written."""
        self._flush()
        self._wait()
        self._written = time.monotonic()

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
                raise _unwritable(self._place, error) from None

    def _write(self, features: dict[bytes, Array]) -> None:
        started = time.perf_counter()
        self._kind.write(features)
        self.seconds += time.perf_counter() - started


def _place(where: str) -> Place:
    if is_address(where):
        from sightword.storage.objects import ObjectPlace

        return ObjectPlace(where)
    return FolderPlace(expanded(where))


def _record(identity: KindIdentity) -> bytes:
    return (identity.as_json() + "\n").encode()


def _unwritable(place: Place, error: OSError) -> StoreError:
    todo = "Make room or give permission there, or name another folder (SIGHTWORD_STORE). Stored features stay, and "
    todo += "the next run continues with them."
    return StoreError(f"the store cannot be written ({error.strerror or error})", where=place, todo=todo)


def _warn(segment: StoredFile, lost: int, why: str) -> None:
    what = f"{lost} features" if lost else "its features"
    log.warning("%s: %s cannot be used and are ignored (%s); %s", segment, what, why, segment.remedy())
