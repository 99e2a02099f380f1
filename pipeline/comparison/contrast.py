"""Two runs compared: recalls, correlations, other numbers, and the causes of their difference."""

from __future__ import annotations

import contextlib
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pipeline import systems
from pipeline.comparison import recall
from pipeline.comparison.correlations import PAIRS, SAMPLES, SEED, Comparison, compare, pairs_file
from pipeline.comparison.parts import Accuracy, Measure
from pipeline.comparison.recall import Ranks, Recall
from pipeline.lineage.files import WORKSPACE, Cache, take_out
from pipeline.lineage.history import difference
from pipeline.lineage.lock import Lock, lock_here
from pipeline.lineage.repository import Commit, Repository
from pipeline.pipelines import LOCK
from pipeline.systems import Compared
from sightword.errors import FileFormatError, LineageError, ScoringError, SemanticsError, SightwordError
from sightword.evaluation.semantics.results import read_pairs
from sightword.io.files import read_json
from sightword.messages import flat
from sightword.report.gallery import first_right, headline_split, read_top
from sightword.report.number_formats import is_number

UNTESTED = ("r1", "r5", "r10", "median_rank", "mean_rank", "pearson", "accuracy", "ensemble_r10", "map", "first_right")
"""Scores in metrics files: means over queries or pairs, on which no test is possible."""
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


class Answers(NamedTuple):
    """The ranks of a run's ``depth`` best answers to each query of a split, by direction."""

    split: str
    depth: int
    ranks: Mapping[str, Ranks]


class Tested(NamedTuple):
    """What a system declares for comparisons, with the rows of its table."""

    compared: Compared
    rows: list[Accuracy] | list[Measure]


class Contrast(NamedTuple):
    """Two runs side by side."""

    a: Side
    b: Side
    recalls: list[Recall]
    semantics: Comparison | None
    """The correlations with tests; None if they cannot be compared."""
    tested: list[Tested]
    """The results that systems declare, as far as both runs have them."""
    numbers: list[tuple[str, float, float]]
    """Scores without tests: name, A's, B's."""
    because: list[str]
    """The causes of the difference, in words; empty if the two are not revisions of one project."""
    notes: list[str]
    """Each part that was not compared, with the reason."""
    samples: int
    seed: int


def contrast(
    a: Side,
    b: Side,
    *,
    project: Path | None = None,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> Contrast:
    """Compare two runs as far as their files allow.

    Args:
        a: the first run.
        b: the second run.
        project: the project of both, if the runs are its revisions.
        samples: the number of resamples of the bootstraps.
        seed: the seed of their draws.

    Raises:
        SemanticsError: the tables are of other pairs.
        FileFormatError: a file is damaged, or the runs have nothing in common.
    """
    notes: list[str] = []
    draws = {"samples": samples, "seed": seed}
    semantics = _semantics(a, b, notes, **draws)
    recalls = _retrieval(a, b, notes, **draws)
    tested = [Tested(one, rows) for one in systems.compared() if (rows := _tested(a, b, notes, one, **draws))]
    numbers = _numbers(a, b, recalls, with_pearson=semantics is None)
    if semantics is None and not any((recalls, tested, numbers)):
        what = f"nothing can be compared: {' '.join(notes).removesuffix('.')}"
        raise FileFormatError(what, where=f"{a.name} and {b.name}")
    because: list[str] = []
    if project is not None and a.revision and b.revision:
        changed = difference(a.revision, b.revision, project)
        because, notes = changed.because, notes + changed.doubts
    return Contrast(a, b, recalls, semantics, tested, numbers, because, notes, samples, seed)


def _semantics(a: Side, b: Side, notes: list[str], *, samples: int, seed: int) -> Comparison | None:
    if a.pairs is None or b.pairs is None:
        lacking = _lacking([one for one in (a, b) if one.pairs is None], PAIRS)
        notes.append(f"Sentence similarity is not tested: {lacking}.")
        return None
    tables = read_pairs(a.pairs), read_pairs(b.pairs)
    two_runs = a.folder is not None and b.folder is not None
    if two_runs and not tables[0].subtasks.keys() & tables[1].subtasks.keys():
        if tables[0].subtasks or tables[1].subtasks:
            notes.append("Sentence similarity is not compared: the two were judged on other data sets.")
        return None
    try:
        return compare(*tables, samples=samples, seed=seed)
    except SemanticsError as error:
        if not two_runs:
            raise
        notes.append(f"Sentence similarity is not compared: {error}")
        return None


def _retrieval(a: Side, b: Side, notes: list[str], *, samples: int, seed: int) -> list[Recall]:
    if a.folder is None or b.folder is None:
        return []  # a table of pairs was given: no note, since nobody expects recalls
    files = a.file(TOP), b.file(TOP)
    if files[0] is None or files[1] is None:
        notes.append(f"Retrieval is not tested: {_lacking([one for one in (a, b) if one.file(TOP) is None], TOP)}.")
        return []
    ours, theirs = _answers(files[0]), _answers(files[1])
    if ours.split != theirs.split:
        notes.append(f"Retrieval is not tested: A was judged on {ours.split}, B on {theirs.split}.")
        return []
    try:
        depth = min(ours.depth, theirs.depth)
        return recall.compare(ours.ranks, theirs.ranks, depth=depth, samples=samples, seed=seed)
    except ScoringError as error:
        notes.append(f"Retrieval is not tested: {error}.")
        return []


def _tested(a: Side, b: Side, notes: list[str], wanted: Compared, **draws: int) -> list[Accuracy] | list[Measure]:
    """Compare a declared result of both sides; a note says why where one side lacks it or the two are unlike."""
    if a.folder is None or b.folder is None:
        return []
    ours, theirs = a.file(wanted.path), b.file(wanted.path)
    if ours is None or theirs is None:
        if ours is not None or theirs is not None:
            notes.append(f"{wanted.title} could not be tested: {_lacking([a if ours is None else b], wanted.path)}.")
        return []
    try:
        return wanted.compare(ours, theirs, **draws)
    except ScoringError as error:
        notes.append(f"{wanted.title} could not be tested: {error}.")
        return []


def _answers(path: Path) -> Answers:
    table = read_top(path)
    split = headline_split(set(table["split"]))
    here = table[table["split"] == split]
    ranks = {str(name): first_right(rows) for name, rows in here.groupby("direction")}
    return Answers(split, int(here["position"].max()) if len(here) else 0, ranks)


def _lacking(sides: Sequence[Side], path: Path) -> str:
    """Name the sides without a file, each with the remedy."""
    lacking = []
    for side in sides:
        text = f"{side.label} has no {path}"
        if side.lock is not None and side.revision and side.lock.producer(path.as_posix()):
            remedy = f"else run {side.name} again and commit the run, or compare `workspace`"
            text += f" in DVC's cache (`dvc fetch --all-commits` brings what was pushed; {remedy})"
        lacking.append(text)
    return ", ".join(lacking)


def _numbers(a: Side, b: Side, recalls: Sequence[Recall], *, with_pearson: bool) -> list[tuple[str, float, float]]:
    """Return the scores in the metrics of both that were not compared otherwise."""
    tested = {f"{row.direction}.r{row.depth}" for row in recalls}
    numbers = []
    for path in METRICS:
        ours, theirs = _flat(a.file(path)), _flat(b.file(path))
        for name, value in ours.items():
            last, other = name.rpartition(".")[2], theirs.get(name)
            if last not in UNTESTED or name.partition(".full.")[2] in tested:
                continue
            if path.stem == "semantics" and last == "pearson" and not with_pearson:
                continue
            if is_number(value) and is_number(other):
                numbers.append((f"{path.stem} {name}", float(value), float(other)))
    return numbers


def _flat(path: Path | None) -> dict[str, Any]:
    values = None if path is None else read_json(path)
    return flat(values) if isinstance(values, dict) else {}
