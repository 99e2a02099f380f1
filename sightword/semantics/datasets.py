"""Reads tasks in SentEval's own folder layout: STS12-16, custom sets in their layout, STS Benchmark, SICK, and the
classification tasks.

The files are those of facebookresearch/SentEval after its download script, with one pair a line and tokens separated by
spaces. Sentences are returned as tokens joined by single spaces; a sentence without tokens is ``.``, as in SentEval's
own examples.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sightword.errors import SemanticsError
from sightword.semantics.classification_data import FILES, ClassificationTask, Labelled, read_classification
from sightword.semantics.text_files import SICK_FILES, check_partners, count, read_lines, read_sick, sentence

__all__ = [
    "AGGREGATES",
    "SUBTASKS",
    "ClassificationTask",
    "Labelled",
    "Pairs",
    "RelatednessTask",
    "SimilarityTask",
    "missing_file",
    "read_task",
]

SUBTASKS = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),  # without SMT, whose licence forbids redistribution
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
"""The published tasks and their subtasks, in SentEval's order. Other sets have the subtasks of their folder."""

AGGREGATES = ("mean", "weighted_mean", "all")
"""The names beside the subtasks in the metrics, which subtasks may not use."""

_SUPERVISED = {
    "STSBenchmark": ("STS/STSBenchmark", ("sts-train.csv", "sts-dev.csv", "sts-test.csv")),
    "SICKRelatedness": ("SICK", SICK_FILES),
}


@dataclass(frozen=True)
class Pairs:
    """Sentence pairs with people's scores, in the order of the file."""

    first: list[str]
    second: list[str]
    gold: NDArray[np.float64]
    """(N,) scores; higher means more similar."""

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class SimilarityTask:
    """A task with subtasks that is evaluated only by the cosine."""

    name: str
    subtasks: dict[str, Pairs]


@dataclass(frozen=True)
class RelatednessTask:
    """A task with training pairs, for a trained head."""

    name: str
    train: Pairs
    """The training pairs in SentEval's order: by the token counts of both sentences, then by the score. The seeded
    batches of the trained head depend on the order. A sentence without tokens counts as 0, although it reads ``.``.
    """
    dev: Pairs
    test: Pairs


def missing_file(name: str, data: Path) -> str | None:
    """Return the first missing file or folder of a task, relative to ``data``; None if all exist.

    Raises:
        SemanticsError: the task is unknown, or ``data`` has no folder ``downstream``.
    """
    downstream = data / "downstream"
    if not downstream.is_dir():
        raise SemanticsError(
            "has no folder downstream",
            where=data,
            expected="the folder that holds SentEval's downstream/ (with STS/ and SICK/ in it)",
            todo="See data/README.md for where to get the files.",
        )
    for file in _files(name, downstream):
        if not file.exists():
            return file.relative_to(data).as_posix()
    return None


def read_task(name: str, data: Path) -> SimilarityTask | RelatednessTask | ClassificationTask:
    """Read one task.

    Args:
        name: ``STS12`` to ``STS16``, ``STSBenchmark``, ``SICKRelatedness``, a classification task, or another
            ``STS...`` with a folder ``downstream/STS/NAME-en-test``.
        data: the folder that holds SentEval's ``downstream/``.

    Raises:
        SemanticsError: the task is unknown, or a file is missing or cannot be read; the message names file and line.
    """
    missing = missing_file(name, data)
    if missing is not None:
        raise SemanticsError(
            f"task {name}: does not exist",
            where=data / missing,
            todo="Get the data set, or leave the task out of semantics.tasks, or set semantics.missing to skip.",
        )
    downstream = data / "downstream"
    if name in _SUPERVISED:
        read = _read_benchmark if name == "STSBenchmark" else _read_sick
        train, dev, test = _files(name, downstream)
        in_order = sorted(read(train), key=lambda row: (len(row[0].split()), len(row[1].split()), row[2]))
        return RelatednessTask(name, _pairs(in_order, train), _pairs(read(dev), dev), _pairs(read(test), test))
    if name in FILES:
        return read_classification(name, downstream)
    folder = _folder(name, downstream)
    subtasks = {subtask: _read_subtask(folder, subtask) for subtask in SUBTASKS.get(name) or _found(folder)}
    _check_distinct(folder, subtasks)
    return SimilarityTask(name, subtasks)


def _folder(name: str, downstream: Path) -> Path:
    if not re.fullmatch(r"STS[\w.-]+", name):
        raise SemanticsError(
            f"no such task: {name!r}",
            expected=f"{', '.join([*SUBTASKS, *_SUPERVISED, *FILES])}, "
            "or the name of a set in downstream/STS/NAME-en-test",
        )
    return downstream / "STS" / f"{name}-en-test"


def _files(name: str, downstream: Path) -> list[Path]:
    """Return the files that a task needs."""
    if name in _SUPERVISED or name in FILES:
        folder, files = (_SUPERVISED | FILES)[name]
        return [downstream / folder / file for file in files]
    folder_path = _folder(name, downstream)
    if not folder_path.is_dir():
        return [folder_path]
    subtasks = SUBTASKS.get(name) or _found(folder_path)
    return [folder_path / f"STS.{kind}.{subtask}.txt" for subtask in subtasks for kind in ("input", "gs")]


def _found(folder: Path) -> list[str]:
    """Return the sorted subtasks of a custom set, one for each ``STS.input.SUBTASK.txt``."""
    names = sorted(file.name[len("STS.input.") : -len(".txt")] for file in folder.glob("STS.input.*.txt"))
    if not names:
        raise SemanticsError("has no subtask", where=folder, expected="STS.input.SUBTASK.txt and STS.gs.SUBTASK.txt")
    if "" in names:
        raise SemanticsError("is of a subtask without a name", where=folder / "STS.input..txt", todo="Rename it.")
    if taken := [name for name in names if name in AGGREGATES]:
        raise SemanticsError(
            f"a subtask is called {taken[0]!r}, the name of an average", where=folder, todo="Rename its two files."
        )
    return names


def _check_distinct(folder: Path, subtasks: Mapping[str, Pairs]) -> None:
    """Refuse a subtask that repeats another under a new name, which would count twice in the averages."""
    before: dict[tuple[str, ...], str] = {}
    for name, pairs in subtasks.items():
        content = (*pairs.first, *pairs.second, *map(repr, pairs.gold.tolist()))
        twin = before.setdefault(content, name)
        if twin != name:
            raise SemanticsError(
                f"has the same pairs and scores as STS.input.{twin}.txt",
                where=folder / f"STS.input.{name}.txt",
                expected="each subtask once",
                todo="Remove one of the two, with its STS.gs file.",
            )


def _read_subtask(folder: Path, subtask: str) -> Pairs:
    input_file, gold_file = folder / f"STS.input.{subtask}.txt", folder / f"STS.gs.{subtask}.txt"
    lines, scores = read_lines(input_file), read_lines(gold_file)
    check_partners(
        gold_file, len(scores), input_file, len(lines), "one line for each pair (blank where a pair has no score)"
    )
    rows = []
    for number, (line, score) in enumerate(zip(lines, scores, strict=True), start=1):
        columns = line.split("\t")
        if len(columns) != 2:
            raise SemanticsError(
                f"has {count(len(columns), 'sentence')}",
                where=f"{input_file}, line {number}",
                expected="two, separated by a tab",
            )
        if score.strip():  # pairs without people's score are left out (most of STS15 and STS16)
            rows.append((columns[0], columns[1], _number(score, f"{gold_file}, line {number}")))
    return _pairs(rows, gold_file)


def _read_benchmark(file: Path) -> list[tuple[str, str, float]]:
    rows = []
    for number, line in enumerate(read_lines(file), start=1):
        columns = line.split("\t")
        if len(columns) < 7:  # the original distribution has more columns on some lines
            raise SemanticsError(
                f"has {count(len(columns), 'column')}",
                where=f"{file}, line {number}",
                expected="genre, file, year, id, score, two sentences, separated by tabs",
            )
        rows.append((columns[5], columns[6], _number(columns[4], f"{file}, line {number}", low=0)))
    return rows


def _read_sick(file: Path) -> list[tuple[str, str, float]]:
    return [
        (columns[1], columns[2], _number(columns[3], f"{file}, line {number}", low=1))
        for number, columns in read_sick(file, 4)
    ]


def _pairs(rows: Sequence[tuple[str, str, float]], where: Path) -> Pairs:
    if not rows:
        raise SemanticsError("has no pair with a score", where=where)
    gold = np.array([score for _, _, score in rows], dtype=np.float64)
    if len(gold) > 1 and (gold == gold[0]).all():
        raise SemanticsError(
            f"all {len(gold)} scores are {gold[0]:g}, so no correlation is defined",
            where=where,
            expected="scores that differ",
        )
    first = [sentence(text.split()) for text, _, _ in rows]
    second = [sentence(text.split()) for _, text, _ in rows]
    return Pairs(first, second, gold)


def _number(text: str, where: str, *, low: int | None = None) -> float:
    """Return a score; with ``low``, a score from ``low`` to 5, as the classes of the trained head need."""
    expected = "a number" if low is None else f"a number from {low} to 5"
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or "_" in text or (low is not None and not low <= value <= 5):
        raise SemanticsError(f"the score is {text.strip()!r}", where=where, expected=expected)
    return value
