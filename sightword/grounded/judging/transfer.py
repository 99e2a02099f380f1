"""SentEval's transfer tasks in each space, and which test examples are classified correctly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.evaluation.semantics.classification_data import ClassificationTask
from sightword.evaluation.semantics.datasets import missing_file, read_task
from sightword.evaluation.semantics.results import Seen
from sightword.evaluation.semantics.validation import check_folds, classified
from sightword.grounded.judging.settings import JudgeSettings
from sightword.grounded.judging.vectors import embed_spaces

SCHEMA = pa.schema(
    {
        "space": pa.string(),
        "task": pa.string(),
        "example": pa.int32(),
        "first": pa.int32(),
        "right": pa.bool_(),
    }
)
"""The columns of ``transfer.parquet``: each tested example of a task, in the order of SentEval, from 1; examples with
the same first sentence have the same number ``first``. Most premises of SNLI have three examples, which are alike."""

Rights = list[tuple[str, str, NDArray[np.int32], NDArray[np.bool_]]]
"""Space, task, and for each tested example the number of its first sentence, and whether it is classified correctly."""


def read_tasks(
    names: Sequence[str], data: Path, settings: JudgeSettings
) -> tuple[list[ClassificationTask], dict[str, str]]:
    """Read tasks and check their folds; return them with the tasks that were skipped, each with its reason.

    SemanticsError if a file cannot be read or, unless ``settings.missing`` is ``skip``, does not exist, or a class has
    too few examples for the folds.
    """
    skipped = {}
    if settings.missing == "skip":
        gone = {name: missing_file(name, data) for name in names}
        skipped = {name: f"{file} does not exist" for name, file in gone.items() if file}
    found = []
    for name in names:
        if name not in skipped and isinstance(task := read_task(name, data), ClassificationTask):
            check_folds(task, settings.classifier, settings.kfold)
            found.append(task)
    return found, skipped


def measure(
    encoder: SentenceEncoder,
    tasks: Sequence[ClassificationTask],
    spaces: Sequence[str],
    seen: Seen | None,
    settings: JudgeSettings,
) -> Iterator[tuple[str, str, dict[str, Any], NDArray[np.int32], NDArray[np.bool_]]]:
    """Yield for each task and space the entry of :func:`sightword.evaluation.semantics.validation.classify`, the number
    of the first sentence of each test example, and which are right; the sentences of one task are in memory at a time.
    """
    for task in tasks:
        tested = task.train if task.test is None else task.test
        first = np.unique(tested.first, return_inverse=True)[1].astype(np.int32)
        vectors = embed_spaces(encoder, task.sentences(), spaces, batch_size=settings.batch_size)
        for space in spaces:
            entry, right = classified(
                task, vectors[space], classifier=settings.classifier, kfold=settings.kfold, seed=settings.seed
            )
            if seen is not None:
                entry["seen_in_training"] = float(seen.mask(task.test_sentences()).mean())
            yield space, task.name, entry, first, right


def table(rights: Rights) -> pa.Table:
    """Return the rows with :data:`SCHEMA`."""
    tables = [SCHEMA.empty_table()]
    for space, task, first, right in rights:
        columns = ([space] * len(right), [task] * len(right), np.arange(1, len(right) + 1), first, right)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        tables.append(pa.table(arrays, schema=SCHEMA))
    return pa.concat_tables(tables).combine_chunks()
