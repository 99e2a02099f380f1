"""The two sides of a comparison: runs of this project at some revision, other projects, or tables of pairs."""

from __future__ import annotations

import contextlib
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline import systems
from pipeline.comparison.correlations import PAIRS, pairs_file
from pipeline.lineage.files import WORKSPACE, Cache, take_out
from pipeline.lineage.lock import Lock, lock_here
from pipeline.lineage.repository import Commit, Repository
from pipeline.pipelines import LOCK
from sightword.errors import FileFormatError, LineageError, SightwordError

TOP = Path("data/retrieval/top.parquet")
METRICS = tuple(Path("metrics") / f"{name}.json" for name in ("retrieval", "semantics", "select", "train"))


@dataclass(frozen=True)
class Side:
    """One of the two runs: ``A`` or ``B``, the name that the user gave, and a description."""

    label: str
    name: str
    about: str
    folder: Path | None
    """The folder with the files at their places in a project; None if only a table of pairs was given."""
    pairs: Path | None
    """The table of pairs; None if there is none."""
    missing: list[str]
    """The paths of :func:`wanted` that the run does not have."""
    revision: str = ""
    """The commit, or ``workspace``; empty for other projects and files."""
    lock: Lock | None = None
    """DVC's record of the run, if there is one."""

    def file(self, path: Path) -> Path | None:
        """Return the place of one of :func:`wanted`; None if it is missing."""
        return None if self.folder is None or path.as_posix() in self.missing else self.folder / path


def wanted() -> list[Path]:
    """Return the files and folders of a run that can be compared."""
    return [*METRICS, PAIRS, TOP, *(one.path for one in systems.compared())]


@contextlib.contextmanager
def opened(a: str, b: str, project: Path | None) -> Iterator[tuple[Side, Side]]:
    """Open both sides; their files stay as long as the context.

    A side is an existing path, or else a commit, branch, tag or experiment of the project, or ``workspace``.

    Raises:
        FileFormatError: a folder has nothing to compare, or outside of any project a path does not exist.
        LineageError: there is no such revision, it was never run, or an object in DVC's cache is damaged.
    """
    with tempfile.TemporaryDirectory(prefix="sightword-compare-") as folder:
        names = {"A": a, "B": b}
        sides = [_side(label, name, project, Path(folder) / label) for label, name in names.items()]
        try:
            yield sides[0], sides[1]
        except SightwordError as error:
            # A file that was taken out lies in a folder that is soon gone: the message names the revision instead.
            for label, name in names.items():
                place = f"{Path(folder) / label}/"
                if error.where is not None and error.where.startswith(place):
                    where = f"{name}:{error.where.removeprefix(place)}"
                    raise type(error)(error.what, where=where, expected=error.expected, todo=error.todo) from None
            raise


def is_revision(*names: str) -> bool:
    """Return whether the user means a revision by one of the names: an existing path is always a path."""
    return any(not name or not Path(name).exists() for name in names)


def _side(label: str, name: str, project: Path | None, folder: Path) -> Side:
    if not is_revision(name):
        path = Path(name)
        here = project is not None and path.resolve() == project.resolve()
        if path.is_dir():
            return _of_folder(label, name, path, WORKSPACE if here else "")
        return Side(label, name, name, None, path, [one.as_posix() for one in wanted()])
    if project is None or not name:
        raise FileFormatError("does not exist", where=name or repr(name))
    if name == WORKSPACE:
        return _of_folder(label, name, project, WORKSPACE)
    try:
        repository = Repository(project)
    except LineageError as error:
        raise LineageError(f"is not a file or folder, and {error.what}", where=name, todo=error.todo) from None
    with repository:
        commit = repository.commit(name)
        lock = repository.lock(commit, name)
        missing = take_out(
            [path.as_posix() for path in wanted()],
            folder, lock=lock, commit=commit, cache=Cache(project), repository=repository,
        )  # fmt: skip
    if len(missing) == len(wanted()):
        raise LineageError("has no results", where=f"{name} ({commit.name})", todo="Was `dvc repro` run there?")
    pairs = None if PAIRS.as_posix() in missing else folder / PAIRS
    return Side(label, name, _about(commit), folder, pairs, missing, commit.sha, lock)


def _about(commit: Commit) -> str:
    if commit.experiment:
        return f"experiment, {commit.date[:10]}, on {(commit.baseline or '')[:7]}"
    return f"{commit.name}, {commit.date[:10]}: {textwrap.shorten(commit.subject, 72, placeholder=' ...')}"


def _of_folder(label: str, name: str, path: Path, revision: str) -> Side:
    missing = [one.as_posix() for one in wanted() if not (path / one).exists()]
    if len(missing) == len(wanted()):
        try:
            table = pairs_file(path)
        except FileFormatError as error:
            todo = f"{error.todo} An existing path is always a path: a branch of this name is refs/heads/{name}."
            raise FileFormatError("is a folder without results", where=path, todo=todo) from None
        return Side(label, name, str(table), None, table, missing)
    pairs = None if PAIRS.as_posix() in missing else path / PAIRS
    only_pairs = len(missing) == len(wanted()) - 1 and pairs is not None
    about = "the current files" if revision else str(pairs if only_pairs else path)
    lock = lock_here(path) if (path / LOCK).exists() else None
    return Side(label, name, about, path, pairs, missing, revision, lock)
