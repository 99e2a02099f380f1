"""Objects as files of a store, their download side by side, and copies of them on this machine."""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from sightword.io import group_files
from sightword.places.requests import Listed, Requests
from sightword.storage.segments import StoredFile

log = logging.getLogger(__name__)

AT_ONCE = 4
"""Objects that are downloaded side by side."""


class ObjectFile(StoredFile):
    """An object of a kind."""

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


class Copies:
    """A folder of copies, which may be deleted at any time; a folder that cannot be written keeps none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str, name_of: Callable[[bytes], str], download: Callable[[], bytes]) -> bytes:
        """Return the bytes of the file whose name is that of its bytes, from its copy or else downloaded.

        A damaged copy is replaced. Bytes that have another name after a second download are returned as they are and
        not kept. Errors of ``download`` are raised.
        """
        path = self._folder / name
        try:
            data = path.read_bytes()
            if name_of(data) == name:
                return data
            log.warning("%s: the copy is damaged and is downloaded again", path)
        except FileNotFoundError:
            pass
        except OSError as error:
            log.debug("%s: %s", path, error)
        data = download()
        if name_of(data) != name:
            data = download()
        if name_of(data) == name:
            try:
                group_files.write_new(path, data)
            except OSError as error:  # a full disk, or a folder of another user
                log.debug("%s: %s", path, error)
        return data
