"""The files of a store: in a folder, which several users and machines may share, or objects of a bucket.

No file is changed in place, and nothing is locked. A killed writer leaves at most a temporary file in a folder.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sightword import machine
from sightword.errors import StoreError
from sightword.io import group_files
from sightword.io.opening import require_regular
from sightword.places.requests import Listed, Requests

log = logging.getLogger(__name__)

IDENTITY = "identity.json"
"""The file that describes a kind."""
KIND_NAME = re.compile(r"[0-9a-f]{32}")
DAY = 24 * 3600.0
"""Seconds after which the description of a kind in a bucket is written again: its time is the last use."""
PROBE = 1 << 12
"""Bytes that the disk must take before anything is computed."""


class Place:
    """The files of a store by names such as ``KIND/SEGMENT.parquet``; the text is the folder or the address.

    Methods raise OSError of the file system, or StoreError.
    """

    def __init__(self, where: str) -> None:
        self._objects = Requests(where) if machine.is_address(where) else None
        self.folder = machine.current().cache if self._objects else Path(where).expanduser()
        """A folder for files beside the features: the store's own, or one of copies on this machine."""

    def __str__(self) -> str:
        return self._objects.address if self._objects else str(self.folder)

    def where(self, name: str) -> str:
        """Return the place of a file, for messages."""
        return f"{self}/features/{name}"

    def kinds(self) -> list[str]:
        """Return the names of the kinds, sorted."""
        if self._objects:
            names = self._objects.folders("features")
        else:
            names = [path.name for path in self._entries("") if path.is_dir()]
        return [name for name in names if KIND_NAME.fullmatch(name)]

    def files(self, kind: str) -> dict[str, Listed]:
        """Return all files of a kind by name, also foreign ones, sorted; StoreError if the kind cannot be read."""
        if self._objects:
            return dict(sorted(self._objects.tree(f"features/{kind}").items()))
        found = {}
        for path in self._entries(kind):
            with contextlib.suppress(FileNotFoundError):
                state = path.lstat()
                found[path.name] = Listed(state.st_size, state.st_mtime)
        return found

    def used(self, kind: str, files: dict[str, Listed]) -> float:
        """Return the time of the last use of a kind, in seconds since 1970; 0 if it is unknown."""
        if IDENTITY in files:
            return files[IDENTITY].changed
        try:
            return 0.0 if self._objects else self._path(kind).stat().st_mtime
        except OSError:
            return 0.0

    def open(self, name: str, listed: Listed) -> Any:
        """Return what Parquet reads parts of: a file, the copy of an object, or the object."""
        if self._objects and not self._copy(name).is_file():
            return self._objects.open(f"features/{name}", listed)
        path = self._copy(name) if self._objects else self._path(name)
        require_regular(path)  # to open a pipe would wait for ever
        return path

    def read(self, name: str, is_whole: Callable[[bytes], bool] | None = None) -> bytes:
        """Return the bytes of a file; of an object its copy on this machine, if the copy is whole, and keep a copy."""
        if self._objects:
            with contextlib.suppress(OSError):
                if is_whole and is_whole(data := self._copy(name).read_bytes()):
                    return data
            data = self._objects.get(f"features/{name}")
            if is_whole and is_whole(data):
                with contextlib.suppress(OSError):  # a full disk, or a folder of another user
                    group_files.write_new(self._copy(name), data)
            return data
        require_regular(self._path(name))
        return self._path(name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        """Write a file that never changes, whole or not at all."""
        if self._objects:
            self._objects.put(f"features/{name}", data)
        else:
            group_files.write_new(self._path(name), data)

    def prepare(self, kind: str, record: bytes) -> None:
        """Find out that features can be written, before any are computed, and describe the kind."""
        if self._objects:
            self._objects.put_and_compare(f"features/{kind}/{IDENTITY}", record)
            return
        group_files.make_folder(self._path(kind))
        group_files.check_writable(self._path(kind), bytes(PROBE))
        self.describe(kind, record)

    def describe(self, kind: str, record: bytes, there: Listed | None = None, *, written: bool = False) -> None:
        """Describe a kind where that was lost; the time of that is the last use.

        ``there`` is the description of a bucket as listed, which is written again after a day, and not for each
        segment that is ``written``.
        """
        if self._objects:
            if written:
                return
            if not there or there.size != len(record) or there.changed < time.time() - DAY:
                self._objects.put(f"features/{kind}/{IDENTITY}", record)
            return
        path = self._path(f"{kind}/{IDENTITY}")
        try:
            if not path.is_file() or path.read_bytes() != record:
                group_files.write_open(path, record)
            os.utime(path)
        except PermissionError as error:  # another user's file in a folder with the sticky bit; segments do not need it
            log.debug("%s: %s", path, error)

    def remove(self, name: str) -> None:
        """Remove a file, if it is still there; a folder goes with its description, if nothing else is there."""
        if self._objects:
            self._objects.remove(f"features/{name}")
            return
        path = self._path(name)
        path.unlink(missing_ok=True)
        if path.name == IDENTITY:
            with contextlib.suppress(OSError):  # another file, or a writer's new segment
                path.parent.rmdir()

    def owns(self, name: str, *, others: bool) -> bool:
        """Return whether the user, or with ``others`` the group, may remove a file, or the file is gone already.

        A bucket has no users of its own, and says itself who may remove objects.
        """
        try:
            if self._objects or os.geteuid() in (0, self._path(name).lstat().st_uid):
                return True
            # The sticky bit protects each file from all but its owner, here also from the owner of the folder.
            return others and not self._path(name).parent.stat().st_mode & stat.S_ISVTX
        except FileNotFoundError:
            return True

    def is_closed(self, kind: str) -> bool:
        """Return whether a folder is another user's, who gave no permission to look into it."""
        path = self._path(kind)
        return not self._objects and not os.access(path, os.R_OK | os.X_OK) and not self.owns(kind, others=False)

    def _path(self, name: str) -> Path:
        return self.folder / "features" / name

    def _copy(self, name: str) -> Path:
        return self.folder / "segments" / name.rpartition("/")[2]

    def _entries(self, name: str) -> list[Path]:
        try:
            return sorted(self._path(name).iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            todo = "Set SIGHTWORD_STORE to another folder."
            raise StoreError(f"cannot be read ({error.strerror})", where=self._path(name), todo=todo) from None
