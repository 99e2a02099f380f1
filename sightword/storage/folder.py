"""A store in a folder, which several users and machines may share: no file is changed in place, and nothing is locked.

A killed writer leaves at most a temporary file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from sightword.errors import StoreError
from sightword.io import group_files
from sightword.io.opening import require_regular
from sightword.storage.kinds import IDENTITY, KIND_NAME, KindFiles
from sightword.storage.segments import Array, StoredFile, name_of, pack

log = logging.getLogger(__name__)

PROBE = 1 << 12
"""Bytes that the disk must take before anything is computed."""
MARKS = 8
"""Names that are tried if damaged files of other users have them."""


class FolderPlace:
    """A store in a folder, which is made by the first write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __str__(self) -> str:
        return str(self.folder)

    def exists(self) -> bool:
        """Return whether there are features."""
        return (self.folder / "features").is_dir()

    def kind(self, name: str) -> KindFiles:
        """Return the files of a kind, whether or not there are some."""
        return FolderKind(self.folder / "features" / name)

    def kinds(self) -> list[KindFiles]:
        """Return the kinds that are there, by name; StoreError if the store cannot be read."""
        return [FolderKind(path) for path in entries(self.folder / "features", KIND_NAME) if path.is_dir()]


class FolderKind(KindFiles):
    """The files of one kind, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.name, self._folder = folder.name, folder
        self._record = b""
        """The description, after :meth:`prepare`."""

    def __str__(self) -> str:
        return str(self._folder)

    def names(self) -> list[str]:
        """Return the names of all files; StoreError if the folder cannot be read."""
        return [path.name for path in entries(self._folder)]

    def file(self, name: str) -> FolderFile:
        """Return a file, whether or not the file exists."""
        return FolderFile(self._folder / name)

    def prepare(self, record: bytes) -> None:
        """Make the folder, find out that a file can be written, and describe the kind."""
        group_files.make_folder(self._folder)
        group_files.check_writable(self._folder, bytes(PROBE))
        self._describe(record)
        self._touch()
        self._record = record

    def _describe(self, record: bytes) -> None:
        """Write ``identity.json`` if it is missing or damaged; raises OSError, except for a missing permission."""
        path = self._folder / IDENTITY
        if path.is_file() and path.read_bytes() == record:
            return
        try:
            group_files.write_open(path, record)
        except PermissionError as error:  # another user's file in a folder with the sticky bit; segments do not need it
            log.debug("%s: %s", path, error)

    def mark_used(self, record: bytes) -> None:
        """Set the time of the last use, and describe the kind where that was lost."""
        try:
            self._describe(record)
        except OSError as error:  # a read-only store
            log.debug("%s: %s", self._folder, error)
        self._touch()

    def used(self) -> float:
        """Return the time of the last use, in seconds since 1970; 0 if it is unknown."""
        changed = self.identity.changed()
        return (FolderFile(self._folder).changed() if changed is None else changed) or 0.0

    def write(self, features: Mapping[bytes, Array]) -> StoredFile:
        """Write features, float32 (D,) by key, as a read-only segment, whole or not at all."""
        try:
            written = self._write(features)
        except FileNotFoundError:  # the kind was removed just now: write into a new folder
            written = self._write(features)
        if self._record:
            self._describe(self._record)  # the kind may have been removed meanwhile
        return written

    def is_closed(self) -> bool:
        """Return whether the folder is another user's, who gave no permission to look into it."""
        return not os.access(self._folder, os.R_OK | os.X_OK) and not FolderFile(self._folder).owns(others=False)

    def _write(self, features: Mapping[bytes, Array]) -> FolderFile:
        """Write a segment.

        Two writers of the same features do not conflict. If a damaged segment of another user has the name and cannot
        be replaced, a mark changes the bytes and the name.
        """
        for mark in range(MARKS):
            data = pack(features, mark)
            path = self._folder / name_of(data)
            try:
                group_files.write_new(path, data)
                break
            except PermissionError:
                if mark == MARKS - 1 or not path.exists():
                    raise
        return FolderFile(path)

    def _touch(self) -> None:
        """Set the time of the last use, if that is permitted."""
        try:
            os.utime(self._folder / IDENTITY)
        except OSError as error:
            log.debug("%s: %s", self._folder / IDENTITY, error)


class FolderFile(StoredFile):
    """A file in a folder."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    @property
    def name(self) -> str:
        """The name within the kind."""
        return self._path.name

    def size(self) -> int:
        """Return the size in bytes; 0 if it is unknown."""
        try:
            return self._path.stat().st_size
        except OSError:  # gone, or a circular link
            return 0

    def changed(self) -> float | None:
        """Return the time of the last change, in seconds since 1970; None if it is unknown."""
        try:
            return self._path.stat().st_mtime
        except OSError:  # gone, or in a folder that is closed to this user
            return None

    def read(self) -> bytes:
        """Return the bytes; OSError for a pipe too, which would wait."""
        require_regular(self._path)
        return self._path.read_bytes()

    def open(self) -> Path:
        """Return the path, whose parts Parquet reads; OSError for a pipe too, which would wait."""
        require_regular(self._path)
        return self._path

    def remedy(self) -> str:
        """Return what can be done if the features cannot be used."""
        if self._path.exists() and not os.access(self._path, os.R_OK):
            return "its owner must let the group read it (chmod g+r)"
        return super().remedy()

    def owns(self, *, others: bool) -> bool:
        """Return whether the user, or with ``others`` the group, may remove the file, or the file is gone already."""
        user = os.geteuid()
        try:
            if user in (0, self._path.lstat().st_uid):
                return True
            # The sticky bit protects each file from all but its owner, here also from the owner of the folder.
            return others and not self._path.parent.stat().st_mode & stat.S_ISVTX
        except FileNotFoundError:
            return True

    def remove(self) -> None:
        """Remove the file, if it is still there; the folder goes with its description, if nothing else is there."""
        self._path.unlink(missing_ok=True)
        if self.name == IDENTITY:
            with contextlib.suppress(OSError):  # another file, or a writer's new segment
                self._path.parent.rmdir()


def entries(folder: Path, name: re.Pattern[str] = re.compile(".*")) -> list[Path]:
    """Return the entries of a folder whose names fit, sorted; StoreError if the folder cannot be read."""
    try:
        return sorted(path for path in folder.iterdir() if name.fullmatch(path.name))
    except FileNotFoundError:
        return []
    except OSError as error:
        what = f"cannot be read ({error.strerror})"
        raise StoreError(what, where=folder, todo="Set SIGHTWORD_STORE to another folder.") from None
