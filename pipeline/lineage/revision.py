"""A revision's files as they were, out of git and DVC's cache: nothing is checked out, nothing is computed."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.lineage.cache import Cache
from pipeline.lineage.lock import Lock, within
from pipeline.lineage.repository import Commit, Repository
from sightword.errors import LineageError

CHECKED = 1 << 26
"""Bytes: larger objects are not hashed again; the readers of such files have sums of their own."""


def take_out(
    wanted: Sequence[str], folder: Path, *, lock: Lock, commit: Commit, cache: Cache, repository: Repository
) -> list[str]:
    """Put some of a commit's files and folders into a folder, at their paths; objects of the cache are linked.

    A folder is put there whole or not at all.

    Returns:
        The paths that neither git nor the cache has.

    Raises:
        LineageError: an object of the cache does not have its hash.
    """
    missing = []
    for path in wanted:
        text = repository.read(commit.sha, path)
        found = {path: text} if text is not None else _cached(path, lock, cache, commit)
        put(found, folder)
        missing += [] if found else [path]
    return missing


def put(files: Mapping[str, Path | bytes], folder: Path) -> None:
    """Write texts and link files at their paths in a folder; an empty path is the folder's own.

    Code is copied, since Python may write beside it.
    """
    for name, source in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, bytes):
            target.write_bytes(source)
        elif target.suffix == ".py":
            shutil.copyfile(source, target)
        else:
            target.symlink_to(source.resolve())


def _cached(path: str, lock: Lock, cache: Cache, commit: Commit) -> dict[str, Path]:
    """Return the objects of the files at or below a path; empty where the cache does not have all of them."""
    found: dict[str, Path] = {}
    for out in (out for entry in lock.entries.values() for out in entry.outs):
        if not within(path, out.path) and not within(out.path, path):
            continue
        files = {f"{out.path}/{name}".rstrip("/"): md5 for name, md5 in cache.files(out).items()}
        for name, md5 in files.items():
            if not within(name, path):
                continue
            if (place := cache.file(md5)) is None:
                return {}
            if place.stat().st_size <= CHECKED and cache.sound(md5) is None:
                raise LineageError(
                    f"is damaged in DVC's cache: {place} has other bytes than its name says",
                    where=f"{name} of {commit.name}",
                    todo="Remove that object; `dvc fetch` or `dvc repro` brings it back.",
                )
            found[name] = place
        if not files:
            return {}
    return found
