"""The locks of all pipelines of a project, read as one: their paths are all from the project's folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipeline.lineage.lock import Entry, Lock, read_lock
from pipeline.lineage.repository import Commit, Repository
from pipeline.pipelines import LOCK, pipelines
from sightword.errors import LineageError


def lock_here(project: Path) -> Lock:
    """Return the locks that lie in a project's folder.

    Raises:
        LineageError: there is none, one cannot be read, or two have a stage of the same name.
    """
    texts = {}
    for path in (one.lock for one in pipelines(project)):
        try:
            texts[path] = (project / path).read_text(encoding="utf-8")
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            raise LineageError(f"cannot be read ({error})", where=project / path) from None
    if not texts:
        raise LineageError(
            "does not exist: nothing was run here yet", where=project / LOCK, todo="`dvc repro` makes it."
        )
    return merged({path: read_lock(text, path) for path, text in texts.items()})


def lock_at(repository: Repository, commit: Commit) -> Lock:
    """Return the locks of a commit.

    Raises:
        LineageError: there is none, one cannot be read, or two have a stage of the same name.
    """
    texts = _texts(repository, commit)
    if not texts:
        raise LineageError(f"has no {LOCK}", where=commit.name)
    return merged({path: read_lock(text, f"{path} of {commit.name}") for path, text in texts.items()})


def lock_of(repository: Repository, commit: Commit) -> Lock | None:
    """Return the locks of a commit that can be read; None without one."""
    found = {}
    for path, text in _texts(repository, commit).items():
        try:
            found[path] = read_lock(text, path)
            merged(found)
        except LineageError:
            found.pop(path, None)
    return merged(found) if found else None


def merged(locks: Mapping[str, Lock]) -> Lock:
    """Return one lock with the entries of several, which are given by their paths.

    Raises:
        LineageError: two have a stage of the same name.
    """
    found: dict[str, Entry] = {}
    for path, lock in locks.items():
        if twice := found.keys() & lock.entries:
            raise LineageError(f"has the stage {min(twice)}, and so has the lock of another pipeline", where=path)
        found |= lock.entries
    return Lock(found)


def _texts(repository: Repository, commit: Commit) -> dict[str, str]:
    """The text of each lock of a commit, by path."""
    folders = [f"{name}/" for name in repository.folders(commit.sha) if not name.startswith(".")]
    texts = {f"{folder}{LOCK}": repository.read(commit.sha, f"{folder}{LOCK}") for folder in ("", *folders)}
    return {path: text.decode(errors="replace") for path, text in texts.items() if text is not None}
