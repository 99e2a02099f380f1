"""One row of the evaluation: an encoder's scores of a subtask's pairs, and their correlations with people's scores.

The encoder has seen a sentence in training if the sentence equals a training caption without case and punctuation.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sightword.captions.units import is_mark
from sightword.errors import FileFormatError
from sightword.evaluation.semantics.datasets import SUBTASKS, RatedPairs
from sightword.evaluation.semantics.settings import TASKS
from sightword.io.files import Pathish, read_table, write_table
from sightword.statistics.inference import fisher_interval, pearson, rank_interval, spearman

Entry = dict[str, Any]
SeenMasks = tuple[NDArray[np.bool_], NDArray[np.bool_]]

CONSTANT = "the encoder gives every pair the same score, so there is no correlation"


@dataclass(frozen=True)
class Judged:
    """One row of the table: a subtask, or one scoring method of a task without subtasks."""

    task: str
    subtask: str
    """SentEval's file name, such as ``surprise.OnWN``; ``cosine`` or ``trained`` for STSBenchmark and SICK."""
    pairs: RatedPairs
    scores: NDArray[np.float64]
    """(N,) the encoder's scores."""
    entry: Entry
    """The row's metrics."""
    seen: SeenMasks | None = None
    """Two (N,) masks: the first and second sentences that are training captions; None without known training captions.
    """


class Seen:
    """The training captions; a sentence without letters and digits was never seen."""

    def __init__(self, training_captions: Iterable[str]) -> None:
        self._known = {bare(caption) for caption in training_captions} - {""}

    def mask(self, sentences: Sequence[str]) -> NDArray[np.bool_]:
        """Return (N,) whether each of N sentences is a training caption."""
        return np.fromiter((bare(sentence) in self._known for sentence in sentences), np.bool_, len(sentences))


def bare(sentence: str) -> str:
    """Return the sentence in folded case and NFC; all but letters with their marks and digits is single spaces."""
    text = unicodedata.normalize("NFC", sentence.casefold())
    return " ".join("".join(c if c.isalnum() or is_mark(c) else " " for c in text).split())


def judge_pairs(task: str, subtask: str, pairs: RatedPairs, scores: NDArray[np.float64], seen: Seen | None) -> Judged:
    """Correlate an encoder's (N,) scores with people's.

    The entry of the row holds ``pearson`` and ``spearman`` with their 95 % intervals, ``pairs``, and with training
    captions ``seen_in_training`` (the share of sentences that are training captions), ``pairs_seen`` (the share of
    pairs with two such sentences) and ``unseen`` (the same correlations over the pairs without such a sentence). An
    undefined correlation is None, and ``undefined`` gives the reason.
    """
    entry = _correlations(scores, pairs.gold)
    masks = None
    if seen is not None:
        masks = first, second = seen.mask(pairs.first), seen.mask(pairs.second)
        entry["seen_in_training"] = float((first.mean() + second.mean()) / 2)
        entry["pairs_seen"] = float((first & second).mean())
        neither = ~(first | second)
        entry["unseen"] = _correlations(scores[neither], pairs.gold[neither])
    if entry["pearson"] is None:
        entry["undefined"] = CONSTANT if len(pairs) > 1 else "one pair has no correlation"
    return Judged(task, subtask, pairs, scores, entry, masks)


def _correlations(scores: NDArray[np.float64], gold: NDArray[np.float64]) -> Entry:
    r, rho = pearson(scores, gold), spearman(scores, gold)
    ends = None if r is None else fisher_interval(r, len(gold))
    rank_ends = None if rho is None else rank_interval(rho, len(gold))
    return {
        "pearson": r,
        "spearman": rho,
        "pairs": len(gold),
        "pearson_ci95": None if ends is None else list(ends),
        "spearman_ci95": None if rank_ends is None else list(rank_ends),
    }


def aggregate(rows: Sequence[Judged]) -> dict[str, Entry]:
    """Aggregate subtasks in three ways, each None if a subtask's correlation is undefined."""
    gold, scores = np.concatenate([row.pairs.gold for row in rows]), np.concatenate([row.scores for row in rows])
    means: dict[str, Entry] = {"mean": {}, "weighted_mean": {}, "all": {}}
    for kind, correlate in (("pearson", pearson), ("spearman", spearman)):
        values = [row.entry[kind] for row in rows]
        for name, weights in (("mean", None), ("weighted_mean", [len(row.pairs) for row in rows])):
            means[name][kind] = None if None in values else float(np.average(values, weights=weights))
        means["all"][kind] = correlate(scores, gold)
    return means


def mean_of_seven(metrics: Mapping[str, Any]) -> float | None:
    """Return the mean of Spearman's correlation over STS12 to STS16, STS Benchmark and SICK, as a fraction.

    Each of STS12 to STS16 is one list of pairs (``all``); the others have their test pairs, by the cosine. None where a
    task is missing or undefined. MCSE (Zhang et al. 2022) reports this mean, and SimCSE before it:
    uds-lsv/MCSE, commit 1c689afa, ``src/evaluation.py``.
    """
    values = [metrics.get(task, {}).get("all" if task in SUBTASKS else "cosine", {}).get("spearman") for task in TASKS]
    return None if None in values else float(np.mean(values))


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

    @classmethod
    def of(cls, judged: Sequence[Judged]) -> Self:
        """Return the pairs of an evaluation."""
        rows = ((row, row.pairs, row.seen or (None, None)) for row in judged)
        return cls({
            (row.task, row.subtask): ScoredPairs(pairs.first, pairs.second, pairs.gold, row.scores, *seen)
            for row, pairs, seen in rows
        })  # fmt: skip


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
