"""The rows on which a task's scores rest, for the ledger of scorings."""

from __future__ import annotations

from sightword.evaluation.semantics.classification_data import ClassificationTask
from sightword.evaluation.semantics.datasets import RatedPairs, RelatednessTask, SimilarityTask

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
