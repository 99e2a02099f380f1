"""The locks of all pipelines of a project, read as one, in the workspace or in a commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.lineage.cache import Cache
from pipeline.lineage.lock import Entry, Lock, read_lock
from pipeline.lineage.repository import Commit, Repository
from pipeline.pipelines import DVC_YAML, LOCK, pipelines
from sightword.errors import LineageError
from sightword.io.files import read_text

WORKSPACE = "workspace"
"""The name of the files that lie here, committed or not."""


@dataclass(frozen=True)
class Snapshot:
    """The lock and the files of a commit or of the workspace."""

    project: Path
    lock: Lock
    commit: Commit | None = None
    """None for the workspace."""
    repository: Repository | None = None

    def read(self, path: str) -> bytes | None:
        """Return a file; None where it is absent or cannot be read."""
        if self.commit is not None and self.repository is not None:
            return self.repository.read(self.commit.sha, path)
        try:
            return (self.project / path).read_bytes()
        except OSError:
            return None

    def edited(self, path: str, cache: Cache) -> bool:
        """Return whether a file is known to differ from the one that its stage wrote."""
        text, maker = self.read(path), self.lock.producer(path)
        return text is not None and maker is not None and cache.edited(text, maker, path)


def snapshot(name: str, project: Path, repository: Repository) -> Snapshot:
    """Return the snapshot of a commit, branch or experiment; of the workspace for ``workspace`` or an empty name.

    Raises:
        LineageError: there is no such revision, or its lock cannot be read.
    """
    if name in ("", WORKSPACE):
        return Snapshot(project, lock_here(project))
    commit = repository.commit(name)
    return Snapshot(project, lock_at(repository, commit, name), commit, repository)


def lock_here(project: Path) -> Lock:
    """Return the locks in a project's folder.

    Raises:
        LineageError: there is none, or one is not a lock file.
        FileFormatError: one cannot be read.
    """
    paths = [one.lock for one in pipelines(project) if (project / one.lock).exists()]
    if not paths:
        todo = "`dvc repro` makes it."
        raise LineageError("does not exist: nothing was run here yet", where=project / LOCK, todo=todo)
    return _joined({path: read_text(project / path) for path in paths})


def lock_at(repository: Repository, commit: Commit, name: str) -> Lock:
    """Return the locks of a commit, which the user called ``name``, with the errors of :func:`lock_here`."""
    texts = _texts(repository, commit)
    if not texts:
        raise LineageError("nothing has run at this commit (`dvc repro`, then commit)", where=name)
    return _joined(texts, of=f" of {commit.name}")


def lock_of(repository: Repository, commit: Commit) -> Lock | None:
    """Return the locks of a commit that can be read; None without one."""
    found = _joined(_texts(repository, commit), lenient=True)
    return found if found.entries else None


def _joined(texts: Mapping[str, str], *, of: str = "", lenient: bool = False) -> Lock:
    """Return one lock from the texts of several by their paths; ``lenient`` leaves out those that cannot be read."""
    found: dict[str, Entry] = {}
    for path, text in texts.items():
        folder = path.rpartition("/")[0]
        try:
            found |= read_lock(text, f"{path}{of}", f"{folder}/{DVC_YAML}:" if folder else "").entries
        except LineageError:
            if not lenient:
                raise
    return Lock(found)


def _texts(repository: Repository, commit: Commit) -> dict[str, str]:
    """Return the text of each lock of a commit, by path."""
    texts = {path: repository.read(commit.sha, path) for path in repository.locks}
    return {path: text.decode(errors="replace") for path, text in texts.items() if text is not None}
