"""Maintenance of a store: survey its content, verify it, and make room.

In a store of several users, each maintains their own files.
"""

from __future__ import annotations

import errno
import json
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sightword.errors import StoreError
from sightword.io.files import canonical_json
from sightword.storage.kinds import KindFiles, kind_name
from sightword.storage.segments import Array, StoredFile, name_of, read_segment
from sightword.storage.store import Store

log = logging.getLogger(__name__)

DAY = 24 * 3600.0
LEFTOVER_AGE = DAY
"""Seconds after which a temporary file counts as left by a killed process."""
MERGED_BYTES = 1 << 25
"""Size of merged segments."""


@dataclass
class Kind:
    """The features of one kind in a store."""

    name: str
    identity: dict[str, Any]
    """Empty if ``identity.json`` cannot be read or belongs to another kind."""
    segments: int = 0
    features: int = 0
    bytes: int = 0
    used: float = 0.0
    """Time of the last read or write, in seconds since 1970."""
    damaged: list[str] = field(default_factory=list)
    """Descriptions of the damage."""


def kinds(store: Store, prefix: str = "") -> list[KindFiles]:
    """Return the kinds whose names begin with ``prefix``, most recently used first.

    Raises:
        StoreError: the store cannot be read, or no kind has this prefix.
    """
    found = [kind for kind in store.place.kinds() if kind.name.startswith(prefix)]
    if prefix and not found:
        what = f"no kind of feature begins with {prefix}"
        raise StoreError(what, where=store.place, todo="`sightword store stats` shows them.")
    return sorted(found, key=lambda kind: (-kind.used(), kind.name))


def survey(store: Store, prefix: str = "", *, read: bool = True) -> Iterator[Kind]:
    """Read every feature of a store, compare its checksum, and yield the counts of each kind.

    Without ``read``, features are counted and not read where the store knows them, in object storage.
    """
    for files in kinds(store, prefix):
        kind = Kind(files.name, {}, used=files.used())
        try:
            kind.identity = _identity(files)
        except ValueError as error:
            kind.damaged.append(f"{files.identity}: {error}")
        try:
            segments = files.segments()
            known = files.count(kind.damaged)
        except StoreError as error:  # of another user, closed to this user
            kind.damaged.append(str(error))
            segments, known = [], None
        if read or known is None:
            known = _count(files, segments, kind.damaged)
        kind.segments, kind.features, kind.bytes = len(segments), known, sum(segment.size() for segment in segments)
        yield kind


def _identity(files: KindFiles) -> dict[str, Any]:
    """Return what describes a kind; ValueError if that cannot be read or belongs to another kind."""
    try:
        identity = json.loads(files.identity.read())
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror or error})") from None
    except (ValueError, RecursionError):
        raise ValueError("is not valid JSON") from None
    if not isinstance(identity, dict) or kind_name(canonical_json(identity)) != files.name:
        raise ValueError("it is not what the folder's name says")
    return identity


def _count(files: KindFiles, segments: Sequence[StoredFile], damaged: list[str]) -> int:
    """Read all features of a kind, and return their number."""

    def complain(segment: StoredFile, lost: int, why: str) -> None:
        damaged.append(f"{segment}: {f'{lost} features' if lost else 'all or some features'} ({why})")

    keys: set[bytes] = set()
    for segment in files.ahead(segments):
        for found, _ in read_segment(segment, None, None, complain):
            keys.update(found)
    return len(keys)


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
    unwanted = [kind.name for kind in kinds(store, remove)] if remove else []
    if len(unwanted) > 1:
        names = ", ".join(name[:12] for name in unwanted[:5])
        raise StoreError(f"{len(unwanted)} kinds begin with {remove}: {names}", expected="more of the one name")
    try:
        for kind in kinds(store):
            if kind.is_closed():
                pruning.others += 1
            elif kind.name in unwanted or kind.used() < oldest:
                pruning.remove_kind(kind)
            else:
                old = [
                    file
                    for file in kind.leftovers()
                    if (now if (changed := file.changed()) is None else changed) < now - LEFTOVER_AGE
                ]
                pruning.leftovers += pruning.remove(old)
                pruning.merge(kind)
                kind.compact(dry_run=dry_run)
    except OSError as error:
        where = error.filename or store.place
        raise StoreError(f"cannot be changed ({error.strerror or error})", where=where) from None
    return pruning


def compact(store: Store, *, dry_run: bool = False) -> int:
    """Make features quick to find in object storage, and return how many manifests were replaced; 0 for a folder.

    Raises:
        StoreError: the store cannot be read or changed.
    """
    return sum(kind.compact(dry_run=dry_run) for kind in kinds(store))


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

    def remove(self, files: Iterable[StoredFile]) -> int:
        """Remove the user's own files, and return their number."""
        own = self._owned(files)
        for file in own:
            self.bytes += file.size()
            if not self._dry_run:
                file.remove()
        return len(own)

    def remove_kind(self, kind: KindFiles) -> None:
        """Remove a kind's own files; its name stays with files of others, its folder with any file."""
        files = list(kind.files())
        self.kinds += self.remove(files) == len(files) and self.remove([kind.identity]) == 1

    def merge(self, kind: KindFiles) -> None:
        """Replace small and damaged segments by large ones, which are in place before the old ones go."""
        own = self._owned(kind.segments())
        states = {segment.name: _state(segment) for segment in kind.ahead(own)}
        old = [segment for segment in own if states[segment.name] != "keep"]
        if not old or [states[segment.name] for segment in old] == ["small"]:
            return
        self.segments += len(old)
        if self._dry_run:
            return
        written: list[StoredFile] = []
        waiting: dict[bytes, Array] = {}
        size = 0
        for segment in kind.ahead(old):
            lost = partial(log.debug, "%s: %d features are lost (%s)")
            for keys, values in read_segment(segment, None, None, lost):
                fresh = {key: value for key, value in zip(keys, values, strict=True) if key not in waiting}
                waiting.update(fresh)
                size += sum(value.nbytes for value in fresh.values())
            if waiting and (size >= MERGED_BYTES or segment.name == old[-1].name):
                written.append(kind.write(waiting))
                waiting, size = {}, 0
        kind.finish()
        # A merged segment may have the name, and so the bytes, of an old one.
        names = {segment.name for segment in old}
        self.bytes -= sum(segment.size() for segment in written if segment.name not in names)
        kept = {segment.name for segment in written}
        self.remove(segment for segment in old if segment.name not in kept)

    def _owned(self, files: Iterable[StoredFile]) -> list[StoredFile]:
        """Return the user's own files, and count the others."""
        found = [(file, file.owns(others=self._others)) for file in files]
        self.others += sum(not own for _, own in found)
        return [file for file, own in found if own]


def _state(segment: StoredFile) -> str:
    """Return ``damaged``, ``small`` (and sound), or ``keep``.

    A segment that the file system withholds, or that does not fit in memory, may be sound, and is kept.
    """
    try:
        if name_of(segment.read()) != segment.name:
            return "damaged"
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EINVAL):  # a circular link, a pipe
            return "damaged"
        if error.errno != errno.ENOENT:
            log.warning("%s: left as it is (%s)", segment, error.strerror)
        return "keep"
    complaints: list[str] = []
    if segment.size() < MERGED_BYTES // 2:
        list(read_segment(segment, None, None, lambda _segment, _lost, why: complaints.append(why)))
        return "keep" if complaints else "small"
    return "keep"
