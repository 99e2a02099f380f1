"""Readers of SentEval's own folder layout: STS12-16, sets of one's own in their shape, STS Benchmark, SICK.

The files are those of facebookresearch/SentEval after its download script, one line
a pair, tokens separated by spaces. Sentences come out as their tokens joined by
single spaces; one without tokens is ``.``, as in SentEval's own examples.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import SemanticsError

SUBTASKS = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),  # without SMT, whose licence forbids to pass it on
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
"""The published tasks and their subtasks, in SentEval's order. Other sets have the subtasks their folder has."""

AGGREGATES = ("mean", "weighted_mean", "all")
"""Names that stand beside the subtasks in the metrics, so no subtask may have them."""

_SUPERVISED = {
    "STSBenchmark": ("STS/STSBenchmark", ("sts-train.csv", "sts-dev.csv", "sts-test.csv")),
    "SICKRelatedness": ("SICK", ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt")),
}
_SICK_COLUMNS = ["pair_ID", "sentence_A", "sentence_B", "relatedness_score"]


@dataclass(frozen=True)
class Pairs:
    """Sentence pairs with people's scores, in the order of the file."""

    first: list[str]
    second: list[str]
    gold: NDArray[np.float64]
    """(N,) the higher, the closer in meaning."""

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class SimilarityTask:
    """A task that is judged by the cosine alone, with its subtasks."""

    name: str
    subtasks: dict[str, Pairs]


@dataclass(frozen=True)
class RelatednessTask:
    """A task with training pairs, for a trained head."""

    name: str
    train: Pairs
    dev: Pairs
    test: Pairs


def missing_file(name: str, data: Path) -> str | None:
    """The first file or folder the task needs and that is not there, relative to ``data``; None if all are.

    Raises:
        SemanticsError: there is no such task, or ``data`` holds no ``downstream``.
    """
    downstream = data / "downstream"
    if not downstream.is_dir():
        raise SemanticsError(
            "has no folder downstream",
            where=data,
            expected="the folder that holds SentEval's downstream/ (with STS/ and SICK/ in it)",
            todo="Point semantics.data at it; data/README.md tells where to get the files.",
        )
    for file in _files(name, downstream):
        if not file.exists():
            return file.relative_to(data).as_posix()
    return None


def read_task(name: str, data: Path) -> SimilarityTask | RelatednessTask:
    """Read one task.

    Args:
        name: ``STS12`` to ``STS16``, ``STSBenchmark``, ``SICKRelatedness``, or another
            ``STS...`` of which ``downstream/STS/NAME-en-test`` exists.
        data: the folder that holds SentEval's ``downstream/``.

    Raises:
        SemanticsError: no such task, a file that is missing or cannot be read, with
            file and line.
    """
    missing = missing_file(name, data)
    if missing is not None:
        raise SemanticsError(
            f"task {name}: does not exist",
            where=data / missing,
            todo="Get the data set, or leave the task out of semantics.tasks, or set semantics.missing to skip.",
        )
    downstream = data / "downstream"
    if name == "STSBenchmark":
        return RelatednessTask(name, *(_read_benchmark(file) for file in _files(name, downstream)))
    if name == "SICKRelatedness":
        return RelatednessTask(name, *(_read_sick(file) for file in _files(name, downstream)))
    folder = _folder(name, downstream)
    subtasks = {subtask: _read_subtask(folder, subtask) for subtask in SUBTASKS.get(name) or _found(folder)}
    return SimilarityTask(name, subtasks)


def _folder(name: str, downstream: Path) -> Path:
    if not re.fullmatch(r"STS[\w.-]+", name):
        raise SemanticsError(
            f"no such task: {name!r}",
            expected=f"{', '.join([*SUBTASKS, *_SUPERVISED])}, or the name of a set in downstream/STS/NAME-en-test",
        )
    return downstream / "STS" / f"{name}-en-test"


def _files(name: str, downstream: Path) -> list[Path]:
    """What must be there for a task."""
    if name in _SUPERVISED:
        folder, files = _SUPERVISED[name]
        return [downstream / folder / file for file in files]
    folder_path = _folder(name, downstream)
    if not folder_path.is_dir():
        return [folder_path]
    subtasks = SUBTASKS.get(name) or _found(folder_path)
    return [folder_path / f"STS.{kind}.{subtask}.txt" for subtask in subtasks for kind in ("input", "gs")]


def _found(folder: Path) -> list[str]:
    """The subtasks of a set of one's own: each ``STS.input.SUBTASK.txt``, sorted."""
    names = sorted(file.name[len("STS.input.") : -len(".txt")] for file in folder.glob("STS.input.*.txt"))
    if not names:
        raise SemanticsError("has no subtask", where=folder, expected="STS.input.SUBTASK.txt and STS.gs.SUBTASK.txt")
    if taken := [name for name in names if name in AGGREGATES]:
        raise SemanticsError(
            f"a subtask is called {taken[0]!r}, a name of the averages", where=folder, todo="Rename its two files."
        )
    return names


def _read_subtask(folder: Path, subtask: str) -> Pairs:
    input_file, gold_file = folder / f"STS.input.{subtask}.txt", folder / f"STS.gs.{subtask}.txt"
    lines, scores = _lines(input_file), _lines(gold_file)
    if len(lines) != len(scores):
        shorter = min(len(lines), len(scores))
        more = gold_file if len(scores) > shorter else input_file
        raise SemanticsError(
            f"has {_count(len(scores), 'line')} for the {len(lines)} of {input_file.name}; the first without a partner "
            f"is line {shorter + 1} of {more.name}",
            where=gold_file,
            expected="one line for each pair (blank where a pair has no score)",
        )
    rows = []
    for number, (line, score) in enumerate(zip(lines, scores, strict=True), start=1):
        columns = line.split("\t")
        if len(columns) != 2:
            raise SemanticsError(
                f"has {_count(len(columns), 'sentence')}",
                where=f"{input_file}, line {number}",
                expected="two, separated by a tab",
            )
        if score.strip():  # a blank score: not judged by people, left out (most of STS15 and STS16)
            rows.append((columns[0], columns[1], _number(score, f"{gold_file}, line {number}")))
    return _pairs(rows, gold_file)


def _read_benchmark(file: Path) -> Pairs:
    rows = []
    for number, line in enumerate(_lines(file), start=1):
        columns = line.split("\t")
        if len(columns) < 7:  # the original distribution has more columns on some lines
            raise SemanticsError(
                f"has {_count(len(columns), 'column')}",
                where=f"{file}, line {number}",
                expected="genre, file, year, id, score, two sentences, separated by tabs",
            )
        rows.append((columns[5], columns[6], _number(columns[4], f"{file}, line {number}", low=0)))
    return _pairs(rows, file)


def _read_sick(file: Path) -> Pairs:
    lines = _lines(file)
    header = lines[0].split("\t") if lines else []
    if header[:4] != _SICK_COLUMNS:
        raise SemanticsError(
            "has no header of SICK" if lines else "is empty",
            where=f"{file}, line 1",
            expected=f"{', '.join(_SICK_COLUMNS)}, entailment_judgment, separated by tabs",
        )
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        columns = line.split("\t")
        if len(columns) != len(header):
            raise SemanticsError(
                f"has {_count(len(columns), 'column')}", where=f"{file}, line {number}", expected=f"{len(header)}"
            )
        rows.append((columns[1], columns[2], _number(columns[3], f"{file}, line {number}", low=1)))
    return _pairs(rows, file)


def _pairs(rows: Sequence[tuple[str, str, float]], where: Path) -> Pairs:
    if not rows:
        raise SemanticsError("has no pair with a score", where=where)
    gold = np.array([score for _, _, score in rows], dtype=np.float64)
    if len(gold) > 1 and (gold == gold[0]).all():
        raise SemanticsError(
            f"all {len(gold)} scores are {gold[0]:g}: nothing can correlate with them",
            where=where,
            expected="scores that differ",
        )
    return Pairs([_sentence(first) for first, _, _ in rows], [_sentence(second) for _, second, _ in rows], gold)


def _sentence(text: str) -> str:
    return " ".join(text.split()) or "."


def _number(text: str, where: str, *, low: int | None = None) -> float:
    """A score; with ``low``, one between it and 5, as the classes of the trained head need."""
    expected = "a number" if low is None else f"a number from {low} to 5"
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or "_" in text or (low is not None and not low <= value <= 5):
        raise SemanticsError(f"the score is {text.strip()!r}", where=where, expected=expected)
    return value


def _lines(file: Path) -> list[str]:
    """The lines of a UTF-8 file; only line feeds end a line (texts hold other separators Python splits at)."""
    try:
        raw = file.read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        raise SemanticsError(f"cannot be read ({error.strerror or error})", where=file) from None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise SemanticsError(
            f"byte {raw[error.start]:#04x} is not UTF-8",
            where=f"{file}, line {line}",
            todo="Save the file as UTF-8.",
        ) from None
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if not lines[-1] else lines


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
