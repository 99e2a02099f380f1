"""Controls beside an encoder's semantic scores: what remains without training, without pictures, or by chance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sightword.evaluation.semantics.classification_data import ClassificationTask
from sightword.evaluation.semantics.encoding import Encode
from sightword.evaluation.semantics.tfidf import TfIdf

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
