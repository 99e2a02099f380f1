"""Maintenance of a store: survey its content, verify it, and make room.

In a store of several users, each maintains their own files.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from sightword.errors import StoreError
from sightword.io.files import canonical_json, loads
from sightword.places.requests import Listed
from sightword.storage.store import DAY, IDENTITY, SEGMENT_NAME, Array, Store, kind_name, segments, write

log = logging.getLogger(__name__)

LEFTOVER = re.compile(r"\.([0-9a-f]{32}\.parquet|identity\.json|probe)\..*\.tmp")
"""Temporary files of processes; a day old, they count as left by a killed process."""
MERGED_BYTES = 1 << 25
"""Size of merged segments."""


@dataclass
class Kind:
    """The features of one kind in a store."""

    name: str
    identity: dict[str, Any] = field(default_factory=dict)
    """Empty if ``identity.json`` cannot be read or belongs to another kind."""
    segments: int = 0
    features: int = 0
    bytes: int = 0
    used: float = 0.0
    """Time of the last read or write, in seconds since 1970."""
    damaged: list[str] = field(default_factory=list)
    """Descriptions of the damage."""


@dataclass
class Pruning:
    """What :func:`prune` did, or would do."""

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


def survey(store: Store, *, read: bool = True) -> Iterator[Kind]:
    """Read every feature, compare the checksums, and yield the counts of each kind, most recently used first.

    Without ``read`` only the keys are read, and no checksums are compared.

    StoreError: the store cannot be read.
    """
    place, listings = store.place, list[tuple[Kind, dict[str, Listed]]]()
    for name in place.kinds():
        kind, files = Kind(name), dict[str, Listed]()
        try:
            kind.identity = _identity(store, name)
        except ValueError as error:
            kind.damaged.append(f"{place.where(f'{name}/{IDENTITY}')}: {error}")
        try:
            files = place.files(name)
        except StoreError as error:  # of another user, closed to this user
            kind.damaged.append(str(error))
        kind.used = _used(files)
        listings.append((kind, files))
    for kind, files in sorted(listings, key=lambda pair: (-pair[0].used, pair[0].name)):
        keys = set[bytes]()
        for segment in segments(place, kind.name, files, keys_only=not read):
            keys.update(segment.keys)
            if segment.why:
                where = place.where(f"{kind.name}/{segment.name}")
                kind.damaged.append(f"{where}: all or some features ({segment.why})")
        sizes = [listed.size for name, listed in files.items() if SEGMENT_NAME.fullmatch(name)]
        kind.segments, kind.bytes, kind.features = len(sizes), sum(sizes), len(keys)
        yield kind


def _used(files: dict[str, Listed]) -> float:
    """Return the time of a kind's last use: that of its description, without it that of its newest file."""
    return files[IDENTITY].changed if IDENTITY in files else max((file.changed for file in files.values()), default=0.0)


def _kinds(store: Store, prefix: str) -> list[str]:
    names = [name for name in store.place.kinds() if name.startswith(prefix)]
    if not names:
        what = f"no kind of feature begins with {prefix}"
        raise StoreError(what, where=store.place, todo="`sightword store stats` shows them.")
    return names


def _identity(store: Store, name: str) -> dict[str, Any]:
    """Return what describes a kind; ValueError if that cannot be read or belongs to another kind."""
    try:
        identity = loads(store.place.read(f"{name}/{IDENTITY}"))
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot be read ({getattr(error, 'strerror', None) or 'it is not valid JSON'})") from None
    if not isinstance(identity, dict) or kind_name(canonical_json(identity)) != name:
        raise ValueError("it is not what the folder's name says")
    return identity


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
    done, now = Pruning(), time.time()
    oldest = float("-inf") if unused_days is None else now - unused_days * DAY
    unwanted = _kinds(store, remove) if remove else []
    if len(unwanted) > 1:
        names = ", ".join(name[:12] for name in unwanted[:5])
        raise StoreError(f"{len(unwanted)} kinds begin with {remove}: {names}", expected="more of the one name")
    try:
        for name in store.place.kinds():
            if store.place.is_closed(name):
                done.others += 1
                continue
            kind = _Pruned(store, name, done, dry_run=dry_run, others=others)
            if name in unwanted or _used(kind.files) < oldest:
                kind.remove_all()
            else:
                old = [file for file, one in kind.files.items() if LEFTOVER.fullmatch(file) and one.changed < now - DAY]
                done.leftovers += kind.remove(kind.owned(old))
                kind.merge()
    except OSError as error:
        where = error.filename or store.place
        raise StoreError(f"cannot be changed ({error.strerror or error})", where=where) from None
    return done


class _Pruned:
    """The steps of :func:`prune` in one kind."""

    def __init__(self, store: Store, kind: str, done: Pruning, *, dry_run: bool, others: bool) -> None:
        self._place, self._kind, self._done, self._dry_run, self._others = store.place, kind, done, dry_run, others
        self.files = store.place.files(kind)

    def owned(self, names: Collection[str]) -> list[str]:
        """Return the user's own files, and count the others."""
        own = [name for name in names if self._place.owns(f"{self._kind}/{name}", others=self._others)]
        self._done.others += len(names) - len(own)
        return own

    def remove(self, names: Collection[str]) -> int:
        """Remove files, and return their number."""
        for name in names:
            self._done.bytes += self.files[name].size if name in self.files else 0
            if not self._dry_run:
                self._place.remove(f"{self._kind}/{name}")
        return len(names)

    def remove_all(self) -> None:
        """Remove the user's own files; the description stays with files of others, the folder with any file."""
        names = [name for name in self.files if SEGMENT_NAME.fullmatch(name) or LEFTOVER.fullmatch(name)]
        self._done.kinds += self.remove(self.owned(names)) == len(names) and self.remove(self.owned([IDENTITY])) == 1

    def merge(self) -> None:
        """Replace small and damaged segments by large ones, which are in place before the old ones go.

        A segment that the file system withholds, or that does not fit in memory, may be whole, and stays.
        """
        own = {name: self.files[name] for name in self.owned([n for n in self.files if SEGMENT_NAME.fullmatch(n)])}
        old, damaged = dict[str, Listed](), 0
        for segment in segments(self._place, self._kind, own):
            if segment.state == "withheld":
                log.warning("%s: left as it is (%s)", self._place.where(f"{self._kind}/{segment.name}"), segment.why)
            small = segment.state == "whole" and own[segment.name].size < MERGED_BYTES // 2
            damaged += segment.state == "damaged"
            if small or segment.state == "damaged":
                old[segment.name] = own[segment.name]
        if len(old) < 2 and not damaged:
            return
        self._done.segments += len(old)
        if self._dry_run:
            return
        written: list[str] = []
        kept: list[str] = []
        waiting: dict[bytes, Array] = {}
        for number, segment in enumerate(segments(self._place, self._kind, old), start=1):
            kept += [segment.name] * (segment.state == "withheld")  # since the first reading
            for key, value in zip(segment.keys, segment.values, strict=True):
                waiting.setdefault(key, value)
            if waiting and (number == len(old) or sum(value.nbytes for value in waiting.values()) >= MERGED_BYTES):
                written.append(write(self._place, self._kind, waiting))
                waiting = {}
        made = self._place.files(self._kind)
        # A merged segment may have the name, and so the bytes, of an old one.
        self._done.bytes -= sum(made[name].size for name in written if name not in old and name in made)
        self.remove([name for name in old if name not in [*written, *kept]])
