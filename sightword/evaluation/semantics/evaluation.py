"""Evaluates any sentence encoder by SentEval's protocol (facebookresearch/SentEval, commit 5d6dc117)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightword.errors import SemanticsError
from sightword.evaluation.semantics.classification_data import ClassificationTask
from sightword.evaluation.semantics.classifier import check_folds, classify
from sightword.evaluation.semantics.datasets import (
    RelatednessTask,
    Rows,
    SimilarityTask,
    missing_file,
    read_task,
    tested,
)
from sightword.evaluation.semantics.encoding import Embeddings, Encode, embed, inputs_of
from sightword.evaluation.semantics.relatedness import TfIdf, cosine, train_head
from sightword.evaluation.semantics.results import Entry, Judged, Seen, aggregate, judge_pairs
from sightword.io.saved import as_folder
from sightword.messages import quote
from sightword.settings import MAX_SEED

Control = Encode | TfIdf
"""An encoder, or the cosine of weighted n-grams."""
Brief = dict[str, float | dict[str, float | None]]
LEFT_OUT = ("weighted_mean", "all")


def brief(metrics: Mapping[str, Any]) -> Brief:
    """Return Pearson's r by task and subtask, with the mean of the subtasks, and the accuracy of tasks with classes."""
    return {
        task: entry["accuracy"]
        if "accuracy" in entry
        else {name: one["pearson"] for name, one in entry.items() if name not in LEFT_OUT}
        for task, entry in metrics.items()
    }


def chance(task: ClassificationTask) -> float:
    """Return the accuracy in percent of naming the most frequent class for each test example."""
    counts = np.bincount((task.train if task.test is None else task.test).labels)
    return round(100 * float(counts.max() / counts.sum()), 2)


UNCHOSEN = "the trained head gives every dev pair the same score, so there is none to choose"

Task = SimilarityTask | RelatednessTask | ClassificationTask


class Evaluation(dict[str, Any]):
    """The metrics of an evaluation by task, the content of ``metrics/semantics.json``."""

    def __init__(self) -> None:
        super().__init__()
        self.judged: list[Judged] = []
        """The rows of all subtasks with correlations, in the order of the tasks, with the score of each pair."""
        self.accuracies: dict[str, Entry] = {}
        """The metrics of each task with accuracies."""
        self.tested: dict[str, Rows] = {}
        """The tested rows of each task."""

    @property
    def metrics(self) -> dict[str, Any]:
        """The metrics without the rows."""
        return dict(self)


def evaluate(
    encode: Encode,
    tasks: Sequence[str],
    data: str | os.PathLike[str],
    training_captions: Iterable[str] | None = None,
    *,
    trained_head: bool = True,
    seed: int = 1111,
    kfold: int = 5,
    missing: Literal["error", "skip"] = "error",
    controls: Mapping[str, Control] = MappingProxyType({}),
    progress: bool = False,
) -> Evaluation:
    """Evaluate an encoder by SentEval's tasks.

    Args:
        encode: maps a list of N sentences (the file's tokens joined by single spaces) to an array (N, D) of finite
            numbers. The encoder receives each distinct sentence of all tasks once, at most 2048 at a time and of
            similar length. An optional method ``prepare`` receives all of them first.
        tasks: ``STS12`` to ``STS16``, ``STSBenchmark``, ``SICKRelatedness``, ``SICKEntailment``, the transfer tasks
            ``MR``, ``CR``, ``SUBJ``, ``MPQA``, ``SST2``, ``TREC``, ``MRPC``, ``SNLI``, and custom sets.
        data: the folder that holds SentEval's ``downstream/``.
        training_captions: the encoder's training captions, to measure the share of test sentences seen in training.
        trained_head: evaluate STSBenchmark and SICKRelatedness also by SentEval's trained head.
        seed: the seed of the head and of the classifiers.
        kfold: folds of the cross-validations.
        missing: "skip" leaves out tasks with missing files, perhaps all, and lists them under ``skipped``.
        controls: by name other encoders, evaluated in the same way but for the trained head, or :class:`TfIdf`,
            evaluated by its cosines.
        progress: show a progress bar on a terminal.

    Returns:
        The metrics of each task, and the score of each pair in ``judged``. A task has its subtasks, each with the
        correlations of :func:`sightword.evaluation.semantics.results.judge_pairs`, and the aggregates ``mean``,
        ``weighted_mean`` (by pairs) and ``all`` (one correlation over all pairs together), each ``{pearson,
        spearman}``. STSBenchmark and SICKRelatedness instead have ``cosine`` and ``trained``, on their test pairs;
        ``trained`` also has ``dev_pearson``. Tasks with classes have ``accuracy`` and ``dev_accuracy``
        (:func:`sightword.evaluation.semantics.classifier.classify`). ``zero_vectors`` counts a set's sentences with a
        vector of zeros, if any. If all pairs have the same score, the correlations and their aggregates are None, and
        ``undefined`` gives the reason. ``controls`` has Pearson's r, or the accuracy, of each control by task, and
        under ``chance`` the accuracies of the most frequent class.

    Raises:
        SemanticsError: a task is unknown, data cannot be read (the message names file and line), or the encoder's
            result cannot be evaluated.
    """
    training = None if training_captions is None else _texts(training_captions)
    _check(seed, kfold, missing)
    read, skipped = _read(tasks, as_folder(data, SemanticsError), missing)
    for task in read:
        if isinstance(task, ClassificationTask):
            check_folds(task, kfold)
    how = _How(trained_head, seed, kfold, progress)
    seen = None if training is None else Seen(training)
    evaluated = _evaluated(encode, read, seen, how) if read else Evaluation()
    evaluated.tested = {task.name: tested(task) for task in read}
    if skipped:
        evaluated["skipped"] = skipped
    if controls and read:
        how = how._replace(trained_head=False)
        entries = {name: brief(_evaluated(control, read, None, how)) for name, control in controls.items()}
        by_chance = {task.name: chance(task) for task in read if isinstance(task, ClassificationTask)}
        evaluated["controls"] = entries | ({"chance": by_chance} if by_chance else {})
    return evaluated


class _How(NamedTuple):
    """The arguments of :func:`evaluate` that controls share."""

    trained_head: bool
    seed: int
    kfold: int
    progress: bool


def _evaluated(encode: Control, read: Sequence[Task], seen: Seen | None, how: _How) -> Evaluation:
    """Return the metrics of an encoder, or those of the cosines of :class:`TfIdf`."""
    if isinstance(encode, TfIdf):
        of_pairs = [task for task in read if not isinstance(task, ClassificationTask)]
        if of_pairs:
            encode.prepare([text for task in of_pairs for text in _sentences(task, trained_head=False)])
        vectors, cosines = None, encode.cosines
    else:
        texts = (text for task in read for text in _sentences(task, how.trained_head))
        vectors = embed(encode, texts, progress=how.progress)
        cosines = partial(_cosines, vectors)
    evaluation = Evaluation()
    for task in read:
        if isinstance(task, ClassificationTask):
            if vectors is not None:
                evaluation[task.name] = evaluation.accuracies[task.name] = _accuracy(task, vectors, seen, how)
            continue
        rows = []
        for name, pairs in (task.subtasks if isinstance(task, SimilarityTask) else {"cosine": task.test}).items():
            rows.append(judge_pairs(task.name, name, pairs, cosines(pairs.first, pairs.second), seen))
        if vectors is not None:
            if isinstance(task, RelatednessTask) and how.trained_head:
                rows.append(_trained(task, vectors, how.seed, seen))
            for row in rows:
                row.entry.update(_zeros(vectors, [*row.pairs.first, *row.pairs.second]))
        evaluation[task.name] = {row.subtask: row.entry for row in rows}
        if isinstance(task, SimilarityTask):
            evaluation[task.name] |= aggregate(rows)
        evaluation.judged.extend(rows)
    return evaluation


def _cosines(vectors: Embeddings, first: Sequence[str], second: Sequence[str]) -> NDArray[np.float64]:
    return cosine(vectors.of(first), vectors.of(second))


def _accuracy(task: ClassificationTask, vectors: Embeddings, seen: Seen | None, how: _How) -> Entry:
    entry, _ = classify(task, vectors, kfold=how.kfold, seed=how.seed, progress=how.progress)
    if seen is not None:
        entry["seen_in_training"] = float(seen.mask(task.test_sentences()).mean())
    return entry | {"kfold": how.kfold} | _zeros(vectors, task.test_sentences())


def _texts(captions: Iterable[str]) -> list[str]:
    if isinstance(captions, str):
        raise SemanticsError("the training captions are one text", expected="a list of captions, or None")
    texts = list(captions)
    if wrong := [place for place, caption in enumerate(texts) if not isinstance(caption, str)]:
        raise SemanticsError(f"training caption {wrong[0]} is not a text but {type(texts[wrong[0]]).__name__}")
    return texts


def _check(seed: int, kfold: int, missing: str) -> None:
    """Check the arguments, since callers of the library may pass anything."""
    if missing not in ("error", "skip"):
        raise SemanticsError(f"missing is {missing!r}", expected="'error' or 'skip'")
    for name, number, least in (("seed", seed, 0), ("kfold", kfold, 2)):
        if type(number) is not int or not least <= number <= MAX_SEED:
            raise SemanticsError(f"{name} is {number!r}", expected=f"a whole number from {least} to {MAX_SEED}")


def _read(tasks: Sequence[str], data: Path, missing: Literal["error", "skip"]) -> tuple[list[Task], dict[str, str]]:
    if isinstance(tasks, str) or not all(isinstance(name, str) for name in tasks):
        raise SemanticsError(f"the tasks are {quote(tasks)}", expected="a list of names")
    if twice := sorted({name for name in tasks if list(tasks).count(name) > 1}):
        raise SemanticsError(f"task {twice[0]} is named twice", expected="each task once")
    gone = {name: missing_file(name, data) for name in tasks} if missing == "skip" else {}
    skipped = {name: f"{file} does not exist" for name, file in gone.items() if file is not None}
    read = [read_task(name, data) for name in tasks if name not in skipped]
    if not read and missing == "error":
        what = f"no task to evaluate: none of the {len(tasks)} tasks has its files"
        raise SemanticsError(what, where=data, todo="Get at least one data set.")
    return read, skipped


def _sentences(task: Task, trained_head: bool) -> Iterable[str]:
    if isinstance(task, ClassificationTask):
        return task.sentences()
    if isinstance(task, SimilarityTask):
        parts = list(task.subtasks.values())
    else:
        parts = [task.train, task.dev, task.test] if trained_head else [task.test]
    return [text for pairs in parts for text in (*pairs.first, *pairs.second)]


def _zeros(vectors: Embeddings, sentences: Sequence[str]) -> Entry:
    """Return the number of sentences with a vector of zeros, if any; their cosine counts as 0, as in SentEval."""
    count = int((~vectors.of(sentences).any(axis=1)).sum())
    return {"zero_vectors": count} if count else {}


def _trained(task: RelatednessTask, vectors: Embeddings, seed: int, seen: Seen | None) -> Judged:
    parts = (task.train, task.dev, task.test)
    train, dev, test = (inputs_of(vectors, "compared", part.first, part.second, part.gold) for part in parts)
    head = train_head(train, dev, test, seed=seed)
    scores = np.zeros(len(task.test)) if head is None else head.predicted
    row = judge_pairs(task.name, "trained", task.test, scores, seen)
    row.entry["dev_pearson"] = None if head is None else head.dev_pearson
    if head is None:
        row.entry["undefined"] = UNCHOSEN
    return row
