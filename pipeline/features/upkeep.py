"""Looking after a store: what is in it, whether it is whole, and making room."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.errors import FileFormatError, StoreError
from pipeline.features.identity import name_of
from pipeline.features.segments import Array, read_segment, write_segment
from pipeline.features.store import IDENTITY, Store
from pipeline.files import read_json, read_text

log = logging.getLogger(__name__)

LEFTOVER_AGE = 24 * 3600.0
"""Seconds after which a temporary file is taken for what a killed process left."""
MERGED_BYTES = 1 << 25
"""Size of the segments that small ones are merged into."""
DAY = 24 * 3600.0


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
    """The folders of a store's kinds, those used last first.

    Args:
        store: the store.
        prefix: how their names begin.

    Raises:
        StoreError: the store cannot be read, or none begins like this.
    """
    try:
        found = [path for path in store.kinds.iterdir() if path.is_dir() and path.name.startswith(prefix)]
    except FileNotFoundError:
        found = []
    except OSError as error:
        raise StoreError(f"cannot be read ({error.strerror})", where=store.kinds) from None
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
        for path in store.segments(folder):
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


def prune(store: Store, *, prefix: str = "", unused_days: float | None = None, dry_run: bool = False) -> Pruned:
    """Make room: remove kinds that are no longer wanted, and put the rest in order.

    Putting in order merges small segments into large ones, each feature once, leaves
    damaged features out, and removes what killed processes left a day ago or more.
    Others may read and write meanwhile: what they miss they compute anew.

    Args:
        store: the store.
        prefix: remove the kinds whose name begins so.
        unused_days: remove the kinds that were neither read nor written for as many days.
        dry_run: only say what would be done.

    Raises:
        StoreError: the store cannot be changed.
    """
    pruned = Pruned()
    now = time.time()
    unwanted = set(kinds(store, prefix)) if prefix else set()
    try:
        for folder in kinds(store):
            if folder in unwanted or (unused_days is not None and now - _used(folder) > unused_days * DAY):
                pruned.kinds += 1
                pruned.bytes += sum(_size(path) for path in folder.iterdir())
                if not dry_run:
                    shutil.rmtree(folder)
                continue
            for path in folder.glob(".*"):
                if now - path.stat().st_mtime > LEFTOVER_AGE:
                    pruned.leftovers += 1
                    pruned.bytes += _size(path)
                    if not dry_run:
                        path.unlink(missing_ok=True)
            _merge(store, folder, pruned, dry_run=dry_run)
    except OSError as error:
        raise StoreError(f"cannot be changed ({error.strerror or error})", where=store.folder) from None
    return pruned


def _merge(store: Store, folder: Path, pruned: Pruned, *, dry_run: bool) -> None:
    """Small and damaged segments to large ones: the new are in place before the old go."""
    kind = _kind(folder)
    paths = [path for path in store.segments(folder) if _readable(path)]
    paths = [path for path in paths if _size(path) < MERGED_BYTES // 2 or not _whole(path, kind)]
    if not paths or (len(paths) == 1 and _whole(paths[0], kind)):
        return
    pruned.segments += len(paths)
    if dry_run:
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


def _readable(path: Path) -> bool:
    """Whether the file system gives a segment: one that it keeps back may be sound, and is left alone."""
    try:
        path.read_bytes()
    except OSError as error:
        log.warning("%s: left as it is (%s)", path, error.strerror)
        return False
    return True


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
        if name_of(read_text(path).strip()) == folder.name:
            kind.identity = read_json(path)
        else:
            kind.damaged.append(f"{path}: it is not what the folder's name says")
    except FileFormatError as error:
        kind.damaged.append(str(error))
    return kind


def _used(folder: Path) -> float:
    """The store touches a kind's ``identity.json`` whenever it reads or writes it."""
    path = folder / IDENTITY
    return (path if path.exists() else folder).stat().st_mtime


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
