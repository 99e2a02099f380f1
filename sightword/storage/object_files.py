"""Objects as files of a store, and their download side by side."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from sightword.storage.requests import Listed, Requests

AT_ONCE = 4
"""Objects that are downloaded side by side."""


class ObjectFile:
    """An object of a kind: a segment, or another one (:class:`sightword.storage.segments.Segment`)."""

    def __init__(self, requests: Requests, path: str, listed: Listed | None) -> None:
        self._requests, self._path, self._listed = requests, path, listed
        self._read: Future[bytes] | None = None

    def __str__(self) -> str:
        return f"{self._requests.address}/{self._path}"

    @property
    def name(self) -> str:
        """The name within the kind."""
        return self._path.rpartition("/")[2]

    def size(self) -> int:
        """Return the size in bytes; 0 if it is gone."""
        info = self._info()
        return info.size if info else 0

    def changed(self) -> float | None:
        """Return the time of the last change, in seconds since 1970; None if it is unknown."""
        info = self._info()
        return info.changed if info else None

    def read(self) -> bytes:
        """Return the bytes; FileNotFoundError if it is gone, StoreError if the server does not give them."""
        return self._read.result() if self._read else self._requests.get(self._path)

    def open(self) -> pa.BufferReader:
        """Return the bytes as Parquet reads them."""
        return pa.BufferReader(self.read())

    def remedy(self) -> str:
        """Return what can be done if the features cannot be used."""
        return "`sightword store prune` removes them"

    def owns(self, *, others: bool) -> bool:
        """Return True: a bucket has no users of its own, and says itself who may remove objects."""
        del others
        return True

    def remove(self) -> None:
        """Remove the object, if it is still there; StoreError without the permission."""
        self._requests.remove(self._path)

    def being_read(self, read: Future[bytes]) -> ObjectFile:
        """Return the object with bytes that are on their way."""
        file = ObjectFile(self._requests, self._path, self._listed)
        file._read = read
        return file

    def _info(self) -> Listed | None:
        if self._listed is None:
            with contextlib.suppress(FileNotFoundError):
                self._listed = self._requests.info(self._path)
        return self._listed


def ahead(files: Sequence[ObjectFile], read: Callable[[ObjectFile], bytes]) -> Generator[ObjectFile, None, None]:
    """Yield files whose bytes are there or on their way."""
    waiting: deque[ObjectFile] = deque()
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="store") as pool:
        try:
            for file in files:
                waiting.append(file.being_read(pool.submit(read, file)))
                if len(waiting) > AT_ONCE:
                    yield waiting.popleft()
            while waiting:
                yield waiting.popleft()
        finally:
            pool.shutdown(cancel_futures=True)
