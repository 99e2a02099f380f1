"""Reads tasks in SentEval's own folder layout: STS12-16, custom sets in their layout, STS Benchmark, SICK, and the
classification tasks.

The files are those of facebookresearch/SentEval after its download script. Sentences are returned as tokens joined by
single spaces; a sentence without tokens is ``.``, as in SentEval's own examples.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sightword.errors import SemanticsError
from sightword.evaluation.semantics.classification_data import (
    BENCHMARK,
    FILES,
    SICK,
    SICK_FILES,
    ClassificationTask,
    check_partners,
    read_classification,
    sentence,
)
from sightword.evaluation.semantics.settings import languages_of
from sightword.io.opening import lines
from sightword.io.tables import Table, check_bare, number
from sightword.messages import plural, quote

_Row = tuple[str, str, float]
"""Both sentences as in the file, and the score."""

FOLDER = "STS/STSBenchmark-multi"
_PARTS = ("train", "dev", "test")
_TABLE = Table(
    ("sentence1", "sentence2", "score"),
    SemanticsError,
    header=False,
    separator=",",
    quotes=True,
)


def of_languages(name: str) -> tuple[str, str] | None:
    """Return the languages of the first and of the second sentences of a task; None for one without a language, and
    SemanticsError for an unknown language.
    """
    try:
        return languages_of(name)
    except ValueError as error:
        raise SemanticsError(str(error), where=f"the task {name}") from None


def language_files(name: str, downstream: Path) -> list[Path]:
    """Return the files of a task: train, dev and test of the first language, and then of the second, if it is another;
    each with the ending ``.csv``, or ``.csv.gz`` where only that is there.
    """
    languages = of_languages(name) or ()
    plain = [downstream / FOLDER / f"stsb-{one}-{part}.csv" for one in dict.fromkeys(languages) for part in _PARTS]
    packed = [file.with_name(f"{file.name}.gz") for file in plain]
    return [gz if gz.is_file() and not file.is_file() else file for file, gz in zip(plain, packed, strict=True)]


def read_languages(name: str, downstream: Path) -> list[list[_Row]]:
    """Read train, dev and test of a task: both sentences as in the file, and the score from 0 to 5.

    SemanticsError if the files of two languages have unequal numbers of rows, or other scores in a row.
    """
    files = language_files(name, downstream)
    firsts, seconds = files[: len(_PARTS)], files[-len(_PARTS) :]
    if firsts == seconds:
        return [[(first, second, score) for _, first, second, score in _read(file)] for file in firsts]
    return [_across(first, second) for first, second in zip(firsts, seconds, strict=True)]


def _across(file: Path, other: Path) -> list[_Row]:
    """Return the first sentences of a file with the second ones of another."""
    rows, others = _read(file), _read(other)
    expected = "the same rows in the same order in both languages"
    todo = "Fetch the data set stsb-multi-mt again."
    if len(rows) != len(others):
        what = f"has {plural(len(others), 'row')} for the {len(rows)} of {file.name}"
        raise SemanticsError(what, where=other, expected=expected, todo=todo)
    for (_, _, _, score), (where, _, _, other_score) in zip(rows, others, strict=True):
        if score != other_score:
            what = f"has the score {other_score:g} where {file.name} has {score:g}"
            raise SemanticsError(what, where=where, expected=expected, todo=todo)
    return [(first, second, score) for (_, first, _, score), (_, _, second, _) in zip(rows, others, strict=True)]


def _read(file: Path) -> list[tuple[str, str, str, float]]:
    """Return the place, both sentences and the score of each row."""
    return [
        (where, first, second, number(score, where, "the score", SemanticsError, low=0, high=5))
        for where, (first, second, score) in _TABLE.rows(file)
    ]


SUBTASKS = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),  # without SMT, whose licence forbids redistribution
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
"""The published tasks and their subtasks, in SentEval's order. Other sets have the subtasks of their folder."""

AGGREGATES = {"mean": "mean", "weighted_mean": "mean weighted by pairs", "all": "pooled"}
"""The names beside the subtasks in the metrics, which subtasks may not use, and their words for people."""

_FETCH = "`sightword fetch senteval` brings the files; data/README.md lists them."
_SUPERVISED = {
    "STSBenchmark": ("STS/STSBenchmark", ("sts-train.csv", "sts-dev.csv", "sts-test.csv")),
    "SICKRelatedness": ("SICK", SICK_FILES),
}
_SUBTASK = Table(
    ("first sentence", "second sentence"),
    SemanticsError,
    header=False,
    empty=("first sentence", "second sentence"),
    separator="\t",
)


@dataclass(frozen=True)
class RatedPairs:
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
    subtasks: dict[str, RatedPairs]


@dataclass(frozen=True)
class RelatednessTask:
    """A task with training pairs, for a trained head."""

    name: str
    train: RatedPairs
    """By the token counts of both sentences, 0 for ``.``, then by the score: the order of SentEval's batches."""
    dev: RatedPairs
    test: RatedPairs


def missing_file(name: str, data: Path) -> str | None:
    """Return the first missing file or folder of a task, relative to ``data``; None if all exist.

    SemanticsError if the task is unknown, or ``data`` has no folder ``downstream``.
    """
    downstream = data / "downstream"
    if not downstream.is_dir():
        expected = "the folder that holds SentEval's downstream/ (with STS/ and SICK/ in it)"
        raise SemanticsError("has no folder downstream", where=data, expected=expected, todo=_FETCH)
    gone = (file.relative_to(data).as_posix() for file in files_of(name, downstream) if not file.exists())
    return next(gone, None)


def read_task(name: str, data: Path) -> SimilarityTask | RelatednessTask | ClassificationTask:
    """Read a published task or a set of one's own in ``downstream/STS/NAME-en-test``, below the folder ``data``.

    SemanticsError, with file and line, if the task is unknown, or a file is missing or cannot be read.
    """
    if missing := missing_file(name, data):
        todo = "Fetch it (`sightword fetch senteval`), or leave the task out, or set missing to skip."
        raise SemanticsError(f"task {name}: does not exist", where=data / missing, todo=todo)
    downstream = data / "downstream"
    if name in FILES:
        return read_classification(name, downstream)
    files = files_of(name, downstream)
    if name in _SUPERVISED or of_languages(name):
        if name in _SUPERVISED:
            train, dev, test = map(_read_benchmark if name == "STSBenchmark" else _read_relatedness, files)
        else:
            train, dev, test = read_languages(name, downstream)
        train.sort(key=lambda row: (len(row[0].split()), len(row[1].split()), row[2]))
        return RelatednessTask(name, *map(_pairs, (train, dev, test), files[-3:]))
    subtasks: dict[str, RatedPairs] = {}
    before: dict[tuple[str, ...], Path] = {}
    for inputs, gold in zip(files[::2], files[1::2], strict=True):
        subtasks[_subtask(inputs)] = pairs = _read_subtask(inputs, gold)
        # A subtask that repeats another one under a new name would count twice in the averages.
        twin = before.setdefault((*pairs.first, *pairs.second, *map(repr, pairs.gold.tolist())), inputs)
        if twin != inputs:
            what, todo = f"has the same pairs and scores as {twin.name}", "Remove one of the two, with its STS.gs file."
            raise SemanticsError(what, where=inputs, expected="each subtask once", todo=todo)
    return SimilarityTask(name, subtasks)


def files_of(name: str, downstream: Path) -> list[Path]:
    """Return the files that a task needs, for STS input and gold of each subtask; or the missing folder of a set.

    SemanticsError if the task is unknown, or its folder holds no subtask or one with a wrong name.
    """
    supervised = _SUPERVISED | FILES
    if name in supervised:
        folder_name, files = supervised[name]
        return [downstream / folder_name / file for file in files]
    if of_languages(name):
        return language_files(name, downstream)
    if not re.fullmatch(r"STS[\w.-]+", name):
        known = ", ".join([*SUBTASKS, *_SUPERVISED, *FILES])
        expected = f"{known}, or the name of a set in downstream/STS/NAME-en-test"
        raise SemanticsError(f"no such task: {quote(name)}", expected=expected)
    folder = downstream / "STS" / f"{name}-en-test"
    if not folder.is_dir():
        return [folder]
    subtasks = SUBTASKS.get(name) or sorted(map(_subtask, folder.glob("STS.input.*.txt")))
    if not subtasks:
        raise SemanticsError("has no subtask", where=folder, expected="STS.input.SUBTASK.txt and STS.gs.SUBTASK.txt")
    if taken := [subtask for subtask in subtasks if subtask in ("", *AGGREGATES)]:
        what = f"a subtask is called {quote(taken[0])}" if taken[0] else "has a subtask without a name"
        todo = "Rename its two files."
        raise SemanticsError(what, where=folder, expected="a name that is not empty or that of an average", todo=todo)
    return [folder / f"STS.{kind}.{subtask}.txt" for subtask in subtasks for kind in ("input", "gs")]


def _subtask(inputs: Path) -> str:
    return inputs.name.removeprefix("STS.input.").removesuffix(".txt")


def _read_subtask(inputs: Path, gold: Path) -> RatedPairs:
    rows = list(_SUBTASK.rows(inputs))
    scores = list(lines(gold, SemanticsError))
    check_partners(gold, len(scores), inputs, len(rows), "one line for each pair (blank where a pair has no score)")
    rated = [
        (first, second, number(score.strip(), f"{gold}, line {line}", "the score", SemanticsError))
        for (_, (first, second)), (line, score) in zip(rows, scores, strict=True)
        if score.strip()  # pairs without people's score are left out (most of STS15 and STS16)
    ]
    return _pairs(rated, gold)


def _read_benchmark(file: Path) -> list[_Row]:
    # The classes of the trained head need scores from 0 to 5.
    return [
        (first, second, number(score, where, "the score", SemanticsError, low=0, high=5))
        for where, (*_, score, first, second) in BENCHMARK.rows(file)
    ]


def _read_relatedness(file: Path) -> list[_Row]:
    return [
        (first, second, number(score, where, "the score", SemanticsError, low=1, high=5))
        for where, (_, first, second, score, _) in SICK.rows(file)
    ]


def _pairs(rows: Sequence[_Row], where: Path) -> RatedPairs:
    if not rows:
        raise SemanticsError("has no pair with a score", where=where)
    check_bare((text for row in rows for text in row[:2]), where, SemanticsError)
    gold = np.array([score for _, _, score in rows], dtype=np.float64)
    if len(gold) > 1 and (gold == gold[0]).all():
        what = f"all {len(gold)} scores are {gold[0]:g}, so no correlation is defined"
        raise SemanticsError(what, where=where, expected="scores that differ")
    first = [sentence(text.split()) for text, _, _ in rows]
    return RatedPairs(first, [sentence(text.split()) for _, text, _ in rows], gold)


Rows = list[tuple[object, ...]]


def tested(task: SimilarityTask | RelatednessTask | ClassificationTask) -> Rows:
    """Return the rows of a task's test part: both sentences and the score, or one or two sentences and the class.

    A task without a test part is tested on all its examples by cross-validation.
    """
    if isinstance(task, ClassificationTask):
        part = task.test or task.train
        sides = [part.first] if part.second is None else [part.first, part.second]
        return list(zip(*sides, part.labels.tolist(), strict=True))
    if isinstance(task, RelatednessTask):
        return rated(task.test)
    return [row for pairs in task.subtasks.values() for row in rated(pairs)]


def rated(pairs: RatedPairs) -> Rows:
    """Return both sentences and the score of each pair."""
    return list(zip(pairs.first, pairs.second, pairs.gold.tolist(), strict=True))
