"""Looking after a store: what is in it, whether it is whole, and making room.

In a store that several share, each looks after what they made themselves.
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
from pathlib import Path
from typing import Any

from sightword.errors import FileFormatError, StoreError
from sightword.features import identity as identities
from sightword.features.segments import SEGMENT_NAME, Array, name_of, read_segment, write_segment
from sightword.features.store import IDENTITY, Store
from sightword.files import read_json, read_text, require_regular

log = logging.getLogger(__name__)

LEFTOVER_AGE = 24 * 3600.0
"""Seconds after which a temporary file is taken for what a killed process left."""
MERGED_BYTES = 1 << 25
"""Size of the segments that small ones are merged into."""
DAY = 24 * 3600.0

_KIND = re.compile(r"[0-9a-f]{32}")
_LEFTOVER = re.compile(r"\.([0-9a-f]{32}\.parquet|identity\.json|probe)\..*\.tmp")


@dataclass
class Kind:
    """The features of one kind in a store."""

    folder: Path
    identity: dict[str, Any]
    """Empty where ``identity.json`` cannot be read or is another kind's."""
    segments: int = 0
    features: int = 0
    bytes: int = 0
    used: float = 0.0
    """When it was last read or written, in seconds since 1970."""
    damaged: list[str] = field(default_factory=list)
    """What cannot be used, in words."""

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.name


def kinds(store: Store, prefix: str = "") -> list[Path]:
    """The folders of a store's kinds, those used last first; what is not a kind's is passed over.

    Args:
        store: the store.
        prefix: how their names begin.

    Raises:
        StoreError: the store cannot be read, or none begins like this.
    """
    try:
        found = [path for path in store.kinds.iterdir() if _KIND.fullmatch(path.name) and path.is_dir()]
    except FileNotFoundError:
        found = []
    except OSError as error:
        raise StoreError(f"cannot be read ({error.strerror})", where=store.kinds) from None
    found = [path for path in found if path.name.startswith(prefix)]
    if prefix and not found:
        raise StoreError(
            f"no kind of feature begins with {prefix}", where=store.folder, todo="`sightword store stats` shows them."
        )
    return sorted(found, key=lambda path: (-_used(path), path.name))


def survey(store: Store, prefix: str = "") -> Iterator[Kind]:
    """Read every feature of a store, compare its checksum, and count, kind by kind."""
    for folder in kinds(store, prefix):
        kind = _kind(folder)
        keys: set[bytes] = set()
        try:
            segments = store.segments(folder)
        except StoreError as error:  # another user's, closed to this one
            kind.damaged.append(str(error))
            segments = []
        for path in segments:
            for found, _ in _read(path, kind):
                keys.update(found)
            kind.segments += 1
            kind.bytes += _size(path)
        kind.features = len(keys)
        yield kind


@dataclass
class Pruned:
    """What :func:`prune` did, or would do."""

    kinds: int = 0
    """Removed whole."""
    segments: int = 0
    """Merged into others, or damaged."""
    leftovers: int = 0
    """Temporary files of killed processes."""
    bytes: int = 0
    """Freed."""
    others: int = 0
    """Files that were left as they are because other users made them."""


@dataclass
class _Rule:
    """What may be touched."""

    dry_run: bool
    others: bool

    def own(self, path: Path) -> bool:
        """Whether a file is this user's to merge or remove; what is gone already counts as that."""
        user = os.geteuid()
        try:
            if user in (0, path.lstat().st_uid):
                return True
            # The sticky bit says whose each file is, also to the owner of the folder, whom it would not hold back.
            return self.others and not path.parent.stat().st_mode & stat.S_ISVTX
        except FileNotFoundError:
            return True

    def sort(self, paths: Iterable[Path], pruned: Pruned) -> list[Path]:
        """Those that may be touched; the others are counted."""
        sorted_out = [(path, self.own(path)) for path in paths]
        pruned.others += sum(not own for _, own in sorted_out)
        return [path for path, own in sorted_out if own]


def prune(
    store: Store,
    *,
    remove: str = "",
    unused_days: float | None = None,
    dry_run: bool = False,
    others: bool = False,
) -> Pruned:
    """Make room: remove kinds that are no longer wanted, and put the rest in order.

    Putting in order merges small segments into large ones, leaves damaged features
    out, and removes what killed processes left a day ago or more. Only files that the
    store made are touched, and of those only this user's (root's are all). Others may
    read and write meanwhile: what they miss they compute anew.

    Args:
        store: the store.
        remove: remove the one kind whose name begins so.
        unused_days: remove the kinds that were neither read nor written for as many days.
        dry_run: only say what would be done.
        others: touch what other users made too, but where a folder has the sticky bit.

    Raises:
        StoreError: the store cannot be changed, or ``remove`` fits none or several kinds.
    """
    pruned, rule = Pruned(), _Rule(dry_run, others)
    now = time.time()
    unwanted = kinds(store, remove) if remove else []
    if len(unwanted) > 1:
        names = ", ".join(path.name[:12] for path in unwanted[:5])
        raise StoreError(f"{len(unwanted)} kinds begin with {remove}: {names}", expected="more of the one name")
    try:
        for folder in kinds(store):
            if not os.access(folder, os.R_OK | os.X_OK) and not rule.own(folder):
                pruned.others += 1
                continue
            if folder in unwanted or (unused_days is not None and now - _used(folder) > unused_days * DAY):
                _remove(folder, pruned, rule)
                continue
            left = [path for path in folder.iterdir() if _LEFTOVER.fullmatch(path.name)]
            for path in rule.sort([path for path in left if now - _changed(path, now) > LEFTOVER_AGE], pruned):
                pruned.leftovers += 1
                pruned.bytes += _size(path)
                if not dry_run:
                    path.unlink(missing_ok=True)
            _merge(store, folder, pruned, rule)
    except OSError as error:
        where = error.filename or store.folder
        raise StoreError(f"cannot be changed ({error.strerror or error})", where=where) from None
    return pruned


def _remove(folder: Path, pruned: Pruned, rule: _Rule) -> None:
    """A kind's own files, and its folder if nothing else is in it; its name stays with what others made."""
    files = [path for path in folder.iterdir() if path.name != IDENTITY and _is_own(path.name)]
    own = rule.sort(files, pruned)
    if len(own) == len(files):
        own += rule.sort([folder / IDENTITY], pruned)
    pruned.kinds += len(own) > len(files)
    pruned.bytes += sum(map(_size, own))
    if rule.dry_run:
        return
    for path in own:
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # somebody's file, or a writer's new segment
        folder.rmdir()


def _merge(store: Store, folder: Path, pruned: Pruned, rule: _Rule) -> None:
    """Small and damaged segments to large ones: the new are in place before the old go."""
    kind = _kind(folder)
    paths = [path for path in rule.sort(store.segments(folder), pruned) if _mergeable(path, kind)]
    if not paths or (len(paths) == 1 and _settled(paths[0])):
        return
    pruned.segments += len(paths)
    if rule.dry_run:
        return
    before = sum(map(_size, paths))
    written: set[Path] = set()
    waiting: dict[bytes, Array] = {}
    size = 0
    for path in paths:
        for keys, values in _read(path, kind):
            fresh = {key: value for key, value in zip(keys, values, strict=True) if key not in waiting}
            waiting.update(fresh)
            size += sum(value.nbytes for value in fresh.values())
        if size >= MERGED_BYTES:
            written.add(write_segment(folder, waiting))
            waiting, size = {}, 0
    if waiting:
        written.add(write_segment(folder, waiting))
    for path in set(paths) - written:
        path.unlink(missing_ok=True)
    pruned.bytes += before - sum(map(_size, written))


def _mergeable(path: Path, kind: Kind) -> bool:
    """Whether a segment may be replaced: small and readable, or damaged for certain.

    One that the file system keeps back, or that memory does not suffice for, may be sound.
    """
    try:
        if not _intact(path):
            return True
    except OSError as error:
        if error.errno != errno.ENOENT:
            log.warning("%s: left as it is (%s)", path, error.strerror)
        return False
    return _size(path) < MERGED_BYTES // 2 and _whole(path, kind)


def _settled(path: Path) -> bool:
    """Whether there is nothing to do for a segment that is alone: it is sound, or another has just merged it away."""
    try:
        return _intact(path)
    except FileNotFoundError:
        return True


def _intact(path: Path) -> bool:
    """Whether a segment has the bytes that its name stands for; a pipe or a circular link has none."""
    try:
        require_regular(path)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EINVAL):
            return False
        raise
    return name_of(path.read_bytes()) == path.name


def _is_own(name: str) -> bool:
    return name == IDENTITY or bool(SEGMENT_NAME.fullmatch(name) or _LEFTOVER.fullmatch(name))


def _changed(path: Path, otherwise: float) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # gone, or in a folder that is closed to this user
        return otherwise


def _whole(path: Path, kind: Kind) -> bool:
    before = len(kind.damaged)
    for _ in _read(path, kind):
        pass
    return len(kind.damaged) == before


def _read(path: Path, kind: Kind) -> Iterator[tuple[list[bytes], Array]]:
    def complain(path: Path, lost: int, why: str) -> None:
        kind.damaged.append(f"{path}: {f'{lost} features' if lost else 'all or some features'} ({why})")

    yield from read_segment(path, None, None, complain)


def _kind(folder: Path) -> Kind:
    """A kind by its ``identity.json``, which must hash to the folder's name, and be whole."""
    path = folder / IDENTITY
    kind = Kind(folder, {}, used=_used(folder))
    try:
        if path.exists() and not path.is_file():
            kind.damaged.append(f"{path}: it is not a regular file")
        elif identities.name_of(read_text(path).strip()) == folder.name:
            kind.identity = read_json(path)
        else:
            kind.damaged.append(f"{path}: it is not what the folder's name says")
    except FileFormatError as error:
        kind.damaged.append(str(error))
    return kind


def _used(folder: Path) -> float:
    """The store touches a kind's ``identity.json`` whenever it reads or writes it."""
    return _changed(folder / IDENTITY, _changed(folder, 0.0))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # gone, or a link that leads in a circle
        return 0
