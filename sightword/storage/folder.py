"""A store in a folder, which several users and machines may share: no file is changed in place, and nothing is locked.

A killed writer leaves at most a temporary file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import stat
from collections.abc import Generator, Iterator, Mapping, Sequence, Set
from pathlib import Path

from sightword.errors import StoreError
from sightword.io import group_files
from sightword.io.opening import require_regular
from sightword.storage.kinds import IDENTITY, KIND_NAME, KindFiles
from sightword.storage.segments import SEGMENT_NAME, Array, Segment, StoredFile, name_of, pack

log = logging.getLogger(__name__)

PROBE = 1 << 12
"""Bytes that the disk must take before anything is computed."""
MARKS = 8
"""Names that are tried if damaged files of other users have them."""

_LEFTOVER = re.compile(r"\.([0-9a-f]{32}\.parquet|identity\.json|probe)\..*\.tmp")


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


class FolderKind:
    """The files of one kind, in a folder of their own (:class:`sightword.storage.kinds.KindFiles`)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __str__(self) -> str:
        return str(self._folder)

    @property
    def name(self) -> str:
        """The kind's name, 32 hex digits."""
        return self._folder.name

    @property
    def identity(self) -> StoredFile:
        """The file that describes the kind."""
        return FolderFile(self._folder / IDENTITY)

    def prepare(self, record: bytes) -> None:
        """Make the folder, find out that a file can be written, and describe the kind."""
        group_files.make_folder(self._folder)
        group_files.check_writable(self._folder, bytes(PROBE))
        self.describe(record)
        self._touch()

    def describe(self, record: bytes) -> None:
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
            self.describe(record)
        except OSError as error:  # a read-only store
            log.debug("%s: %s", self._folder, error)
        self._touch()

    def used(self) -> float:
        """Return the time of the last use, in seconds since 1970; 0 if it is unknown."""
        changed = self.identity.changed()
        return (FolderFile(self._folder).changed() if changed is None else changed) or 0.0

    def find(self, wanted: Set[bytes]) -> Generator[Segment, None, None]:
        """Yield all segments: each has its own list of keys; StoreError if the folder cannot be read."""
        del wanted
        yield from self.segments()

    def segments(self) -> list[Segment]:
        """Return all segments by name; StoreError if the folder cannot be read."""
        return [FolderFile(path) for path in entries(self._folder, SEGMENT_NAME)]

    def ahead(self, segments: Sequence[Segment]) -> Iterator[Segment]:
        """Return an iterator over the segments."""
        return iter(segments)

    def features(self) -> int | None:
        """Return None: only reading them tells."""
        return None

    def damage(self) -> list[str]:
        """Return nothing: there is nothing else."""
        return []

    def write(self, features: Mapping[bytes, Array]) -> Segment:
        """Write features, float32 (D,) by key, as a read-only segment, whole or not at all."""
        try:
            written = self._write(features)
        except FileNotFoundError:  # the kind was removed just now: write into a new folder
            written = self._write(features)
        return FolderFile(written)

    def finish(self) -> None:
        """Do nothing: each segment has its own list of keys."""

    def compact(self, *, dry_run: bool) -> int:
        """Return 0: each segment has its own list of keys."""
        del dry_run
        return 0

    def leftovers(self) -> list[StoredFile]:
        """Return the temporary files of processes."""
        return [FolderFile(path) for path in entries(self._folder, _LEFTOVER)]

    def files(self) -> list[StoredFile]:
        """Return all files of the kind but the one that describes it."""
        return [*self.segments(), *self.leftovers()]

    def is_closed(self) -> bool:
        """Return whether the folder is another user's, who gave no permission to look into it."""
        return not os.access(self._folder, os.R_OK | os.X_OK) and not FolderFile(self._folder).owns(others=False)

    def vacate(self) -> None:
        """Remove the folder, if it is empty."""
        with contextlib.suppress(OSError):  # another file, or a writer's new segment
            self._folder.rmdir()

    def _write(self, features: Mapping[bytes, Array]) -> Path:
        """Write a segment and return its path.

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
        return path

    def _touch(self) -> None:
        """Set the time of the last use, if that is permitted."""
        try:
            os.utime(self._folder / IDENTITY)
        except OSError as error:
            log.debug("%s: %s", self._folder / IDENTITY, error)


class FolderFile:
    """A file in a folder: a segment, or another one (:class:`sightword.storage.segments.Segment`)."""

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
        return "`sightword store prune` removes them"

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
        """Remove the file, if it is still there."""
        self._path.unlink(missing_ok=True)


def entries(folder: Path, name: re.Pattern[str]) -> list[Path]:
    """Return the entries of a folder whose names fit, sorted; StoreError if the folder cannot be read."""
    try:
        return sorted(path for path in folder.iterdir() if name.fullmatch(path.name))
    except FileNotFoundError:
        return []
    except OSError as error:
        what = f"cannot be read ({error.strerror})"
        raise StoreError(what, where=folder, todo="Set SIGHTWORD_STORE to another folder.") from None
