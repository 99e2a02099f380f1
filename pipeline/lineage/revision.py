"""A revision's files as they were, out of git and DVC's cache: nothing is checked out, nothing is computed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.lineage.cache import Cache
from pipeline.lineage.lock import Artefact, Lock, within
from pipeline.lineage.repository import Commit, Repository
from sightword.errors import LineageError

CHECKED = 1 << 26
"""Bytes: larger objects are not hashed again; the readers of such files have sums of their own."""


def take_out(
    wanted: Sequence[str], folder: Path, *, lock: Lock, commit: Commit, cache: Cache, repository: Repository
) -> list[str]:
    """Put some of a commit's files and folders into a folder, at their paths; what the cache has is linked.

    Args:
        wanted: paths from the project's folder.
        folder: where they go.
        lock: of the commit.
        commit: it.
        cache: DVC's.
        repository: git's.

    Returns:
        Those of the wanted that neither git nor the cache has; of a folder, nothing or all of it is put there.

    Raises:
        LineageError: an object of the cache does not have its hash.
    """
    missing = []
    for path in wanted:
        text = repository.read(commit.sha, path)
        if text is not None:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
        elif not _link(path, folder, lock, cache, commit):
            missing.append(path)
    return missing


def _link(path: str, folder: Path, lock: Lock, cache: Cache, commit: Commit) -> bool:
    """Link a file or folder; false where the cache has not all of it."""
    files = _files(path, lock, cache)
    objects = {name: cache.file(md5) for name, md5 in files.items()}
    if not files or not all(objects.values()):
        return False
    for name, found in objects.items():
        assert found is not None
        if found.stat().st_size <= CHECKED and cache.sound(files[name]) is None:
            raise LineageError(
                f"is damaged in DVC's cache: {found} has other bytes than its name says",
                where=f"{name} of {commit.name}",
                todo="Remove that object; `dvc fetch` or `dvc repro` brings it back.",
            )
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(found.absolute())
    return True


def _files(path: str, lock: Lock, cache: Cache) -> dict[str, str]:
    """The MD5 of each file at or below a path; empty where the lock or the cache does not list them."""
    outs: list[Artefact] = [out for entry in lock.entries.values() for out in entry.outs]
    found: dict[str, str] = {}
    for out in outs:
        if not within(path, out.path) and not within(out.path, path):
            continue
        if not out.folder:
            found[out.path] = out.md5
            continue
        listing = cache.listing(out)
        if not listing:
            return {}
        found |= {f"{out.path}/{name}": md5 for name, md5 in listing.items()}
    return {name: md5 for name, md5 in found.items() if within(name, path)}
