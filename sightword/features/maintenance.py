"""Maintenance of a store: survey its content, verify it, and make room.

In a store of several users, each maintains their own files.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sightword.errors import FileFormatError, StoreError
from sightword.features.identity import name_of as name_of_identity
from sightword.features.segments import SEGMENT_NAME, Array, name_of, read_segment, write_segment
from sightword.features.store import IDENTITY, Store, entries
from sightword.files import canonical_json, read_json, require_regular

log = logging.getLogger(__name__)

DAY = 24 * 3600.0
LEFTOVER_AGE = DAY
"""Seconds after which a temporary file counts as left by a killed process."""
MERGED_BYTES = 1 << 25
"""Size of merged segments."""

_KIND = re.compile(r"[0-9a-f]{32}")
_LEFTOVER = re.compile(r"\.([0-9a-f]{32}\.parquet|identity\.json|probe)\..*\.tmp")


@dataclass
class Kind:
    """The features of one kind in a store."""

    folder: Path
    identity: dict[str, Any]
    """Empty if ``identity.json`` cannot be read or belongs to another kind."""
    segments: int = 0
    features: int = 0
    bytes: int = 0
    used: float = 0.0
    """Time of the last read or write, in seconds since 1970."""
    damaged: list[str] = field(default_factory=list)
    """Descriptions of the damage."""

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.name


def kinds(store: Store, prefix: str = "") -> list[Path]:
    """Return the folders of the kinds whose names begin with ``prefix``, most recently used first.

    Raises:
        StoreError: the store cannot be read, or no kind has this prefix.
    """
    found = [path for path in entries(store.kinds, _KIND) if path.name.startswith(prefix) and path.is_dir()]
    if prefix and not found:
        what = f"no kind of feature begins with {prefix}"
        raise StoreError(what, where=store.folder, todo="`sightword store stats` shows them.")
    return sorted(found, key=lambda path: (-_used(path), path.name))


def survey(store: Store, prefix: str = "") -> Iterator[Kind]:
    """Read every feature of a store, compare its checksum, and yield the counts of each kind."""
    for folder in kinds(store, prefix):
        kind = Kind(folder, {}, used=_used(folder))
        try:
            identity = read_json(folder / IDENTITY)
            if name_of_identity(canonical_json(identity)) == folder.name:
                kind.identity = identity
            else:
                kind.damaged.append(f"{folder / IDENTITY}: it is not what the folder's name says")
        except FileFormatError as error:
            kind.damaged.append(str(error))

        def complain(path: Path, lost: int, why: str, damaged: list[str] = kind.damaged) -> None:
            damaged.append(f"{path}: {f'{lost} features' if lost else 'all or some features'} ({why})")

        try:
            segments = entries(folder, SEGMENT_NAME)
        except StoreError as error:  # of another user, closed to this user
            kind.damaged.append(str(error))
            segments = []
        keys: set[bytes] = set()
        for path in segments:
            for found, _ in read_segment(path, None, None, complain):
                keys.update(found)
        kind.segments, kind.features, kind.bytes = len(segments), len(keys), sum(map(_size, segments))
        yield kind


def prune(
    store: Store,
    *,
    remove: str = "",
    unused_days: float | None = None,
    dry_run: bool = False,
    others: bool = False,
) -> Pruning:
    """Remove unwanted kinds; in the others merge small segments, and drop damaged features and old temporary files.

    Only files of the store are touched, and of these only the user's own (for root: all). Others may read and write at
    the same time: they compute missing features again.

    Args:
        store: the store of features.
        remove: remove the one kind whose name begins so.
        unused_days: remove the kinds without a read or write in these days.
        dry_run: count, and change nothing.
        others: touch files of other users too, except in a folder with the sticky bit.

    Raises:
        StoreError: the store cannot be changed, or ``remove`` fits no kind or several.
    """
    pruning = Pruning(dry_run, others)
    now = time.time()
    oldest = float("-inf") if unused_days is None else now - unused_days * DAY
    unwanted = kinds(store, remove) if remove else []
    if len(unwanted) > 1:
        names = ", ".join(path.name[:12] for path in unwanted[:5])
        raise StoreError(f"{len(unwanted)} kinds begin with {remove}: {names}", expected="more of the one name")
    try:
        for folder in kinds(store):
            if not os.access(folder, os.R_OK | os.X_OK) and not pruning.owns(folder):
                pruning.others += 1
            elif folder in unwanted or _used(folder) < oldest:
                pruning.remove_kind(folder)
            else:
                leftovers = [path for path in entries(folder, _LEFTOVER) if _changed(path, now) < now - LEFTOVER_AGE]
                pruning.leftovers += pruning.remove(leftovers)
                pruning.merge(folder)
    except OSError as error:
        where = error.filename or store.folder
        raise StoreError(f"cannot be changed ({error.strerror or error})", where=where) from None
    return pruning


@dataclass
class Pruning:
    """The steps of :func:`prune`, with their counts."""

    _dry_run: bool = False
    _others: bool = False
    kinds: int = 0
    """Kinds removed entirely."""
    segments: int = 0
    """Segments that were merged, or damaged."""
    leftovers: int = 0
    """Temporary files of killed processes."""
    bytes: int = 0
    """Bytes freed."""
    others: int = 0
    """Files of other users, which stay."""

    def owns(self, path: Path) -> bool:
        """Return whether a file is the user's to merge or remove, or gone already."""
        user = os.geteuid()
        try:
            if user in (0, path.lstat().st_uid):
                return True
            # The sticky bit protects each file from all but its owner, here also from the owner of the folder.
            return self._others and not path.parent.stat().st_mode & stat.S_ISVTX
        except FileNotFoundError:
            return True

    def remove(self, paths: Iterable[Path]) -> int:
        """Remove the user's own files, and return their number."""
        own = self._owned(paths)
        for path in own:
            self.bytes += _size(path)
            if not self._dry_run:
                path.unlink(missing_ok=True)
        return len(own)

    def remove_kind(self, folder: Path) -> None:
        """Remove a kind's own files; its name stays with files of others, its folder with any file."""
        files = entries(folder, SEGMENT_NAME) + entries(folder, _LEFTOVER)
        self.kinds += self.remove(files) == len(files) and self.remove([folder / IDENTITY]) == 1
        if not self._dry_run:
            with contextlib.suppress(OSError):  # another file, or a writer's new segment
                folder.rmdir()

    def merge(self, folder: Path) -> None:
        """Replace small and damaged segments by large ones, which are in place before the old ones go."""
        states = {path: _state(path) for path in self._owned(entries(folder, SEGMENT_NAME))}
        old = [path for path, state in states.items() if state != "keep"]
        if not old or [states[path] for path in old] == ["small"]:
            return
        self.segments += len(old)
        if self._dry_run:
            return
        written: list[Path] = []
        waiting: dict[bytes, Array] = {}
        size = 0
        for path in old:
            for keys, values in read_segment(path, None, None, partial(log.debug, "%s: %d features are lost (%s)")):
                fresh = {key: value for key, value in zip(keys, values, strict=True) if key not in waiting}
                waiting.update(fresh)
                size += sum(value.nbytes for value in fresh.values())
            if waiting and (size >= MERGED_BYTES or path is old[-1]):
                written.append(write_segment(folder, waiting))
                waiting, size = {}, 0
        # A merged segment may have the name, and so the bytes, of an old one.
        self.bytes -= sum(_size(path) for path in written if path not in old)
        self.remove(path for path in old if path not in written)

    def _owned(self, paths: Iterable[Path]) -> list[Path]:
        """Return the user's own files, and count the others."""
        found = [(path, self.owns(path)) for path in paths]
        self.others += sum(not own for _, own in found)
        return [path for path, own in found if own]


def _state(path: Path) -> str:
    """Return ``damaged``, ``small`` (and sound), or ``keep``.

    A segment that the file system withholds, or that does not fit in memory, may be sound, and is kept.
    """
    try:
        require_regular(path)
        if name_of(path.read_bytes()) != path.name:
            return "damaged"
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EINVAL):  # a circular link, a pipe
            return "damaged"
        if error.errno != errno.ENOENT:
            log.warning("%s: left as it is (%s)", path, error.strerror)
        return "keep"
    complaints: list[str] = []
    if _size(path) < MERGED_BYTES // 2:
        list(read_segment(path, None, None, lambda _path, _lost, why: complaints.append(why)))
        return "keep" if complaints else "small"
    return "keep"


def _used(folder: Path) -> float:
    """Return the time of the last use: each read or write of a kind touches its ``identity.json``."""
    return _changed(folder / IDENTITY, _changed(folder, 0.0))


def _changed(path: Path, otherwise: float) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # gone, or in a folder that is closed to this user
        return otherwise


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # gone, or a circular link
        return 0
