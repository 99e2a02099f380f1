"""Reads and writes the table of every sentence pair's score, for comparing two systems and for reading."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sightword.errors import FileFormatError
from sightword.files import Pathish, read_table, write_table
from sightword.semantics.results import Judged

SCHEMA = pa.schema(
    [
        ("task", pa.string()),
        ("subtask", pa.string()),
        ("pair", pa.int32()),
        ("first", pa.string()),
        ("second", pa.string()),
        ("gold", pa.float64()),
        ("score", pa.float64()),
        ("first_seen", pa.bool_()),
        ("second_seen", pa.bool_()),
    ]
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
    """The pairs by task and subtask (``cosine`` or ``trained`` for STSBenchmark and SICKRelatedness), in the order
    judged.
    """


def write_pairs(path: Pathish, judged: Sequence[Judged]) -> None:
    """Write the pairs of all subtasks, with :data:`SCHEMA`."""
    parts = []
    for row in judged:
        count = len(row.pairs)
        first_seen, second_seen = row.seen if row.seen is not None else (pa.nulls(count), pa.nulls(count))
        columns = {
            "task": pa.array([row.task] * count, pa.string()),
            "subtask": pa.array([row.subtask] * count, pa.string()),
            "pair": pa.array(np.arange(1, count + 1, dtype=np.int32)),
            "first": pa.array(row.pairs.first, pa.string()),
            "second": pa.array(row.pairs.second, pa.string()),
            "gold": pa.array(row.pairs.gold),
            "score": pa.array(row.scores),
            "first_seen": pa.array(first_seen, pa.bool_()),
            "second_seen": pa.array(second_seen, pa.bool_()),
        }
        parts.append(pa.table(columns, schema=SCHEMA))
    write_table(path, pa.concat_tables(parts).combine_chunks() if parts else SCHEMA.empty_table())


def read_pairs(path: Pathish) -> PairTable:
    """Read a table written by :func:`write_pairs`.

    Raises:
        FileFormatError: the file is missing, damaged, or has other columns or an impossible order.
    """
    table = read_table(path, SCHEMA.names)
    if wrong := [field.name for field in SCHEMA if table.schema.field(field.name).type != field.type]:
        raise FileFormatError(
            f"the column {wrong[0]} is of {table.schema.field(wrong[0]).type}",
            where=path,
            expected=f"{SCHEMA.field(wrong[0]).type}",
        )
    if empty := [name for name in SCHEMA.names[:-2] if table[name].null_count]:
        raise FileFormatError(f"the column {empty[0]} has empty cells", where=path)
    keys = list(zip(table["task"].to_pylist(), table["subtask"].to_pylist(), strict=True))
    starts = [row for row in range(len(keys)) if row == 0 or keys[row] != keys[row - 1]]
    subtasks: dict[tuple[str, str], ScoredPairs] = {}
    for start, end in itertools.pairwise([*starts, len(keys)]):
        part = table.slice(start, end - start)
        if keys[start] in subtasks or part["pair"].to_pylist() != list(range(1, end - start + 1)):
            raise FileFormatError(
                f"the pairs of {' '.join(keys[start])} are repeated or not in order",
                where=path,
                expected="a table that the stage semantics wrote",
            )
        seen = [part[name] for name in ("first_seen", "second_seen")]
        known = not any(column.null_count for column in seen)
        subtasks[keys[start]] = ScoredPairs(
            part["first"].to_pylist(),
            part["second"].to_pylist(),
            part["gold"].to_numpy(),
            part["score"].to_numpy(),
            seen[0].to_numpy() if known else None,
            seen[1].to_numpy() if known else None,
        )
    return PairTable(subtasks)
