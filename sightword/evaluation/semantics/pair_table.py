"""Reads and writes the table of every sentence pair's score, for comparing two systems and for reading."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sightword.errors import FileFormatError
from sightword.evaluation.semantics.results import Judged
from sightword.io.files import Pathish, read_table, write_table

SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("task", "subtask")]
    + [("pair", pa.int32())]
    + [(name, pa.string()) for name in ("first", "second")]
    + [(name, pa.float64()) for name in ("gold", "score")]
    + [(name, pa.bool_()) for name in ("first_seen", "second_seen")]
)
"""The columns of ``data/semantics/pairs.parquet``. ``pair`` counts the judged pairs of a subtask from 1, in the file's
order; ``score`` is the cosine or the trained head's score; ``first_seen`` and ``second_seen`` (whether the sentence is
a training caption) are null without known training captions.
"""


@dataclass(frozen=True)
class ScoredPairs:
    """The pairs of a subtask with people's scores and an encoder's scores."""

    first: list[str]
    second: list[str]
    gold: NDArray[np.float64]
    """(N,) people's scores."""
    score: NDArray[np.float64]
    """(N,) the encoder's scores."""
    first_seen: NDArray[np.bool_] | None
    """(N,) whether each first sentence is a training caption; None without known training captions."""
    second_seen: NDArray[np.bool_] | None

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class PairTable:
    """An encoder's scores of all pairs."""

    subtasks: dict[tuple[str, str], ScoredPairs]
    """The pairs by task and subtask (``cosine`` or ``trained`` for STSBenchmark and SICKRelatedness)."""


def write_pairs(path: Pathish, judged: Sequence[Judged]) -> None:
    """Write the pairs of all subtasks, with :data:`SCHEMA`."""
    parts = [SCHEMA.empty_table()]
    for row in judged:
        count, pairs = len(row.pairs), row.pairs
        names = [row.task] * count, [row.subtask] * count, np.arange(1, count + 1, dtype=np.int32)
        seen = row.seen or (pa.nulls(count), pa.nulls(count))
        columns = (*names, pairs.first, pairs.second, pairs.gold, row.scores, *seen)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        parts.append(pa.table(arrays, schema=SCHEMA))
    write_table(path, pa.concat_tables(parts).combine_chunks())


def read_pairs(path: Pathish) -> PairTable:
    """Read a table of :func:`write_pairs`; FileFormatError for a damaged one, other columns or an impossible order."""
    table = read_table(path, SCHEMA.names)
    for field in SCHEMA:
        if (kind := table.schema.field(field.name).type) != field.type:
            raise FileFormatError(f"the column {field.name} is of {kind}", where=path, expected=f"{field.type}")
        if table[field.name].null_count and not field.name.endswith("_seen"):
            raise FileFormatError(f"the column {field.name} has empty cells", where=path)
    keys = list(zip(table["task"].to_pylist(), table["subtask"].to_pylist(), strict=True))
    subtasks: dict[tuple[str, str], ScoredPairs] = {}
    start = 0
    for key, group in itertools.groupby(keys):
        part = table.slice(start, len(list(group)))
        start += len(part)
        if key in subtasks or part["pair"].to_pylist() != list(range(1, len(part) + 1)):
            what = f"the pairs of {' '.join(key)} are repeated or not in order"
            raise FileFormatError(what, where=path, expected="a table that the stage semantics wrote")
        texts = (part[name].to_pylist() for name in ("first", "second"))
        numbers = (part[name].to_numpy() for name in ("gold", "score"))
        seen = [part[name] for name in ("first_seen", "second_seen")]
        known = not any(column.null_count for column in seen)
        subtasks[key] = ScoredPairs(*texts, *numbers, *(column.to_numpy() if known else None for column in seen))
    return PairTable(subtasks)
