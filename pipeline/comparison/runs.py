"""What is compared: two runs of this project at some revision, of other projects, or tables of pairs alone."""

from __future__ import annotations

import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipeline.comparison.systems import PAIRS, pairs_file
from pipeline.lineage.cache import Cache
from pipeline.lineage.lock import Lock
from pipeline.lineage.locks import WORKSPACE, lock_at, lock_here
from pipeline.lineage.repository import Commit, Repository
from pipeline.lineage.revision import take_out
from pipeline.pipelines import LOCK
from sightword.errors import FileFormatError, LineageError, SightwordError

TOP = Path("data/retrieval/top.parquet")
CAPTIONS = Path("data/captions/captions.parquet")
RESIZED = Path("data/resized")
ENCODER = Path("models/encoder")
METRICS = tuple(Path("metrics") / f"{name}.json" for name in ("retrieval", "semantics", "select", "train"))
CURVES = tuple(Path("plots/train") / f"{name}.tsv" for name in ("loss", "recall"))
WANTED = (*METRICS, PAIRS, TOP, CAPTIONS, *CURVES, RESIZED, ENCODER)
"""What a run has that can be set beside another's."""


@dataclass(frozen=True)
class Side:
    """One of the two.

    Attributes:
        label: ``A`` or ``B``.
        name: as the user called it.
        about: what it is, in words.
        folder: with its files at their places in a project; None where only a table of pairs was given.
        pairs: the table of pairs; None where there is none.
        missing: of :data:`WANTED`, what it does not have.
        revision: the commit, or ``workspace``; empty for other projects and files.
        lock: what DVC recorded of it, where that is known.
    """

    label: str
    name: str
    about: str
    folder: Path | None
    pairs: Path | None
    missing: list[str]
    revision: str = ""
    lock: Lock | None = None

    def file(self, path: Path) -> Path | None:
        """One of :data:`WANTED`; None where it is not there."""
        return None if self.folder is None or path.as_posix() in self.missing else self.folder / path


@contextmanager
def opened(a: str, b: str, project: Path | None) -> Iterator[tuple[Side, Side]]:
    """Both sides, with files that stay as long as the context.

    Args:
        a: a path that exists, else a commit, branch, tag or experiment of the project, or ``workspace``.
        b: the same.
        project: the folder with ``dvc.lock``; None where the user is in no project.

    Raises:
        FileFormatError: a folder without anything to compare, or a path that does not exist, outside of any project.
        LineageError: there is no such revision, it was never run, or an object of DVC's cache is damaged.
    """
    with tempfile.TemporaryDirectory(prefix="sightword-compare-") as folder:
        places = {"A": Path(folder) / "a", "B": Path(folder) / "b"}
        sides = [_side(label, name, project, places[label]) for label, name in (("A", a), ("B", b))]
        try:
            yield sides[0], sides[1]
        except SightwordError as error:
            raise _told(error, {places[side.label]: side.name for side in sides}) from None


def _told(error: SightwordError, names: Mapping[Path, str]) -> SightwordError:
    """An error about a file that was taken out, with the revision in the place of a folder that is soon gone."""
    for folder, name in names.items():
        if error.where is not None and error.where.startswith(f"{folder}/"):
            where = f"{name}:{error.where.removeprefix(f'{folder}/')}"
            return type(error)(error.what, where=where, expected=error.expected, todo=error.todo)
    return error


def is_revision(*names: str) -> bool:
    """Whether a user means a revision by one of them: what lies there is always taken for a path."""
    return any(not name or not Path(name).exists() for name in names)


def _side(label: str, name: str, project: Path | None, folder: Path) -> Side:
    if not is_revision(name):
        path = Path(name)
        here = project is not None and path.resolve() == project.resolve()
        return _of_folder(label, name, path, WORKSPACE if here else "") if path.is_dir() else _of_file(label, name)
    if project is None or not name:
        raise FileFormatError("does not exist", where=name or repr(name))
    if name == WORKSPACE:
        return _of_folder(label, name, project, WORKSPACE)
    with _repository(name, project) as repository:
        try:
            commit = repository.commit(name)
        except LineageError as error:
            raise LineageError(f"is not a file or folder, and {error.what}", where=name, todo=error.todo) from None
        lock = lock_at(repository, commit)
        missing = take_out(
            [path.as_posix() for path in WANTED],
            folder, lock=lock, commit=commit, cache=Cache(project), repository=repository,
        )  # fmt: skip
    if len(missing) == len(WANTED):
        raise LineageError("has no results", where=f"{name} ({commit.name})", todo="Was `dvc repro` run there?")
    pairs = None if PAIRS.as_posix() in missing else folder / PAIRS
    about = _about(commit)
    return Side(label, name, about, folder, pairs, missing, commit.sha, lock)


def _about(commit: Commit) -> str:
    if commit.experiment:
        return f"experiment, {commit.date[:10]}, on {(commit.baseline or '')[:7]}"
    return f"{commit.name}, {commit.date[:10]}: {textwrap.shorten(commit.subject, 72, placeholder=' ...')}"


def _repository(name: str, project: Path) -> Repository:
    try:
        return Repository(project)
    except LineageError as error:
        raise LineageError(f"is not a file or folder, and {error.what}", where=name, todo=error.todo) from None


def _of_folder(label: str, name: str, path: Path, revision: str) -> Side:
    missing = [wanted.as_posix() for wanted in WANTED if not (path / wanted).exists()]
    if len(missing) == len(WANTED):
        try:
            table = pairs_file(path)
        except FileFormatError as error:
            todo = f"{error.todo} What exists is taken for a path: a branch of this name is refs/heads/{name}."
            raise FileFormatError("is a folder without results", where=path, todo=todo) from None
        return Side(label, name, str(table), None, table, missing)
    pairs = None if PAIRS.as_posix() in missing else path / PAIRS
    only_pairs = len(missing) == len(WANTED) - 1 and pairs is not None
    about = "what lies here" if revision else str(pairs if only_pairs else path)
    return Side(label, name, about, path, pairs, missing, revision, _lock(path))


def _of_file(label: str, name: str) -> Side:
    return Side(label, name, name, None, Path(name), [path.as_posix() for path in WANTED])


def _lock(path: Path) -> Lock | None:
    return lock_here(path) if (path / LOCK).exists() else None
