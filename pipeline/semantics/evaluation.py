"""Judge any sentence encoder by SentEval's protocol (facebookresearch/SentEval, commit 5d6dc117)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import SemanticsError
from pipeline.semantics.contamination import Seen
from pipeline.semantics.datasets import Pairs, RelatednessTask, SimilarityTask, missing_file, read_task
from pipeline.semantics.encoding import Embeddings, Encode, embed
from pipeline.semantics.relatedness import Examples, cosine, train_head
from pipeline.statistics import fisher_interval, pearson, spearman

Entry = dict[str, Any]

CONSTANT = "the encoder gives every pair the same score, so there is no correlation"


@dataclass(frozen=True)
class Judged:
    """One row of the table: a subtask, or a way of judging a task without subtasks."""

    task: str
    subtask: str
    """SentEval's file name, such as ``surprise.OnWN``; ``cosine`` or ``trained`` for STSBenchmark and SICK."""
    pairs: Pairs
    scores: NDArray[np.float64]
    """(N,) what the encoder says of each pair."""
    entry: Entry
    """What stands in the metrics."""


@dataclass(frozen=True)
class Evaluation:
    """All that came out of judging an encoder."""

    metrics: dict[str, Any]
    """The content of ``metrics/semantics.json``."""
    judged: list[Judged]
    """Its rows, in the order of the tasks, with the score of each pair."""


def evaluate(
    encode: Encode,
    tasks: Sequence[str],
    data: str | os.PathLike[str],
    training_captions: Iterable[str] | None = None,
    *,
    trained_head: bool = True,
    seed: int = 1111,
    missing: Literal["error", "skip"] = "error",
    progress: bool = False,
) -> dict[str, Any]:
    """Judge an encoder by how its vectors agree with people's scores of sentence pairs.

    Args:
        encode: from a list of N sentences (the file's tokens joined by single spaces) to
            an array (N, D) of finite numbers. Each distinct sentence of all tasks is
            given to it once, at most 2048 at a time and of similar length.
        tasks: ``STS12`` to ``STS16``, ``STSBenchmark``, ``SICKRelatedness``, and sets of one's own.
        data: the folder that holds SentEval's ``downstream/``.
        training_captions: what the encoder was trained on, to tell how much of the text it has read.
        trained_head: judge STSBenchmark and SICKRelatedness by SentEval's trained head too.
        seed: of that head.
        missing: "skip" leaves out tasks whose files are not there and names them under ``skipped``.
        progress: show a progress bar on a terminal.

    Returns:
        Per task its subtasks, each ``{pearson, spearman, pairs, pearson_ci95, seen_in_training}``
        (the last only with ``training_captions``), and the aggregates ``mean``,
        ``weighted_mean`` (by pairs) and ``all`` (one correlation over all pairs together),
        each ``{pearson, spearman}``. STSBenchmark and SICKRelatedness have ``cosine`` and
        ``trained`` instead, of their test pairs; ``trained`` also tells ``dev_pearson``.
        Where an encoder gives all pairs the same score, the correlations and what is
        made of them are None, and ``undefined`` says so.

    Raises:
        SemanticsError: no such task, data that cannot be read (with file and line), or
            an encoder whose answer cannot be judged.
    """
    return judge(
        encode,
        tasks,
        data,
        training_captions,
        trained_head=trained_head,
        seed=seed,
        missing=missing,
        progress=progress,
    ).metrics


def judge(
    encode: Encode,
    tasks: Sequence[str],
    data: str | os.PathLike[str],
    training_captions: Iterable[str] | None = None,
    *,
    trained_head: bool = True,
    seed: int = 1111,
    missing: Literal["error", "skip"] = "error",
    progress: bool = False,
) -> Evaluation:
    """As :func:`evaluate`, with the score of each pair besides the metrics."""
    if isinstance(training_captions, str):
        raise SemanticsError("the training captions are one text", expected="a list of captions, or None")
    read, skipped = _read(tasks, Path(data), missing)
    vectors = embed(encode, _sentences(read, trained_head), progress=progress)
    seen = None if training_captions is None else Seen(training_captions)

    metrics: dict[str, Any] = {}
    judged: list[Judged] = []
    for task in read:
        if isinstance(task, SimilarityTask):
            rows = [
                _judged(task.name, name, pairs, _cosines(vectors, pairs), seen) for name, pairs in task.subtasks.items()
            ]
            metrics[task.name] = {row.subtask: row.entry for row in rows} | aggregate(rows)
        else:
            rows = [_judged(task.name, "cosine", task.test, _cosines(vectors, task.test), seen)]
            if trained_head:
                rows.append(_trained(task, vectors, seed, seen))
            metrics[task.name] = {row.subtask: row.entry for row in rows}
        judged += rows
    if skipped:
        metrics["skipped"] = skipped
    return Evaluation(metrics, judged)


def aggregate(rows: Sequence[Judged]) -> dict[str, Entry]:
    """The three ways to make one number of subtasks; None where one of them has no correlation."""
    gold = np.concatenate([row.pairs.gold for row in rows])
    scores = np.concatenate([row.scores for row in rows])
    weights = [len(row.pairs) for row in rows]
    kinds = ("pearson", "spearman")
    return {
        "mean": {kind: _average([row.entry[kind] for row in rows], None) for kind in kinds},
        "weighted_mean": {kind: _average([row.entry[kind] for row in rows], weights) for kind in kinds},
        "all": {"pearson": pearson(scores, gold), "spearman": spearman(scores, gold)},
    }


def _average(values: Sequence[float | None], weights: Sequence[int] | None) -> float | None:
    defined = [value for value in values if value is not None]
    return float(np.average(defined, weights=weights)) if len(defined) == len(values) else None


def _read(
    tasks: Sequence[str], data: Path, missing: Literal["error", "skip"]
) -> tuple[list[SimilarityTask | RelatednessTask], Mapping[str, str]]:
    if isinstance(tasks, str):
        raise SemanticsError(f"the tasks are the text {tasks!r}", expected="a list of names")
    if twice := sorted({name for name in tasks if list(tasks).count(name) > 1}):
        raise SemanticsError(f"task {twice[0]} is named twice", expected="each task once")
    read, skipped = [], {}
    for name in tasks:
        gone = missing_file(name, data)
        if gone is not None and missing == "skip":
            skipped[name] = f"{gone} does not exist"
        else:
            read.append(read_task(name, data))
    if not read:
        raise SemanticsError(
            f"no task to judge: of {len(tasks)} named, none has its files",
            where=data,
            todo="Get at least one data set.",
        )
    return read, skipped


def _sentences(tasks: Iterable[SimilarityTask | RelatednessTask], trained_head: bool) -> Iterable[str]:
    for task in tasks:
        if isinstance(task, SimilarityTask):
            parts = list(task.subtasks.values())
        else:
            parts = [task.train, task.dev, task.test] if trained_head else [task.test]
        for pairs in parts:
            yield from pairs.first
            yield from pairs.second


def _cosines(vectors: Embeddings, pairs: Pairs) -> NDArray[np.float64]:
    return cosine(vectors.of(pairs.first), vectors.of(pairs.second))


def _judged(task: str, subtask: str, pairs: Pairs, scores: NDArray[np.float64], seen: Seen | None) -> Judged:
    r, rho = pearson(scores, pairs.gold), spearman(scores, pairs.gold)
    interval = None if r is None else fisher_interval(r, len(pairs))
    entry: Entry = {
        "pearson": r,
        "spearman": rho,
        "pairs": len(pairs),
        "pearson_ci95": None if interval is None else list(interval),
    }
    if seen is not None:
        entry["seen_in_training"] = seen.share([*pairs.first, *pairs.second])
    if r is None:
        entry["undefined"] = CONSTANT if len(pairs) > 1 else "one pair has no correlation"
    return Judged(task, subtask, pairs, scores, entry)


def _trained(task: RelatednessTask, vectors: Embeddings, seed: int, seen: Seen | None) -> Judged:
    train, dev, test = (_examples(vectors, pairs) for pairs in (_sorted(task.train), task.dev, task.test))
    found = train_head(train, dev, test, seed=seed)
    scores = np.zeros(len(task.test)) if found is None else found.predicted
    row = _judged(task.name, "trained", task.test, scores, seen)
    row.entry["dev_pearson"] = None if found is None else found.dev_pearson
    return row


def _sorted(pairs: Pairs) -> Pairs:
    """SentEval's order: by the number of tokens of either sentence, then by the score."""
    first, second, gold = pairs.first, pairs.second, pairs.gold
    order = sorted(range(len(pairs)), key=lambda i: (len(first[i].split()), len(second[i].split()), gold[i]))
    return Pairs([first[i] for i in order], [second[i] for i in order], gold[order])


def _examples(vectors: Embeddings, pairs: Pairs) -> Examples:
    return Examples(vectors.of(pairs.first), vectors.of(pairs.second), pairs.gold)
