"""Relatedness of sentence pairs in each space: the cosine beside people's scores, by subtask and genre; ratings of how
concrete words are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sightword.errors import SemanticsError
from sightword.evaluation.semantics.classification_data import BENCHMARK as TABLE
from sightword.evaluation.semantics.datasets import (
    RatedPairs,
    RelatednessTask,
    SimilarityTask,
    files_of,
    missing_file,
    read_task,
)
from sightword.evaluation.semantics.encoding import Embeddings
from sightword.evaluation.semantics.relatedness import TfIdf, cosine
from sightword.evaluation.semantics.results import Judged, Seen, aggregate, judge_pairs
from sightword.io.files import Pathish, mapping
from sightword.io.tables import Table, number

BENCHMARK, WHOLE = "STSBenchmark", "cosine"
"""The task with genres, and the name of its pairs together, as in the metrics of the stage semantics."""

SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("space", "task", "subtask", "genre")]
    + [("pair", pa.int32())]
    + [(name, pa.float64()) for name in ("gold", "score", "centred", "concreteness")]
    + [("seen", pa.bool_())]
)
"""The columns of ``relatedness.parquet``, one row for each space and pair: ``genre`` is empty but for STS Benchmark,
``centred`` the cosine around the mean caption, ``concreteness`` the mean rating of the pair's rated tokens (null
without one), ``seen`` whether a sentence of the pair is a training caption."""
_RATINGS = Table(
    ("Word", "Conc.M"),
    SemanticsError,
    todo="The published file has columns separated by tabs, among them Word and Conc.M.",
)


def read_ratings(path: Pathish) -> dict[str, float]:
    """Return the mean rating, from 1 to 5, of each word in lower case (file of Brysbaert et al. 2014).

    Ratings of two words together are in the file and never match.

    Raises:
        SemanticsError: the file cannot be read, is not UTF-8, lacks a column or a rating, has two ratings of a word, or
            a rating outside 1 to 5; the message names the line.
    """
    found = [
        (word.lower(), number(mean, where, "the rating", SemanticsError, low=1.0, high=5.0), where)
        for where, (word, mean) in _RATINGS.rows(Path(path))
    ]
    return mapping(found, "the word", "rating", SemanticsError, todo="Delete one of the two lines.")


def tokens(sentence: str) -> list[str]:
    """Return the runs of the letters a to z of a sentence in lower case."""
    return re.findall(r"[a-z]+", sentence.lower())


def mean_rating(ratings: Mapping[str, float], sentences: Iterable[str]) -> dict[str, Any]:
    """Return ``mean``, the mean rating of all rated tokens (None if none is rated), ``tokens`` and ``rated``.

    A token counts as often as it occurs: on the test pairs of STS Benchmark, these are the paper's means up to the
    words that count as tokens.
    """
    every = [token for sentence in sentences for token in tokens(sentence)]
    rated = [ratings[token] for token in every if token in ratings]
    mean = math.fsum(rated) / len(rated) if rated else None
    return {"mean": mean, "tokens": len(every), "rated": len(rated)}


@dataclass(frozen=True)
class SubtaskPairs:
    """The pairs of a subtask."""

    task: str
    subtask: str
    pairs: RatedPairs
    genres: list[str] | None = None
    """(N,) the genre of each pair: captions, news or forums; None if the task has none."""


def read_parts(tasks: Sequence[str], data: Path, missing: str = "error") -> tuple[list[SubtaskPairs], dict[str, str]]:
    """Read the pairs of tasks; return them with the tasks that were skipped, each with its reason.

    SemanticsError if a file cannot be read or, unless ``missing`` is ``skip``, does not exist.
    """
    found: list[SubtaskPairs] = []
    skipped: dict[str, str] = {}
    for name in tasks:
        if missing == "skip" and (gone := missing_file(name, data)):
            skipped[name] = f"{gone} does not exist"
            continue
        task = read_task(name, data)
        if isinstance(task, SimilarityTask):
            found += [SubtaskPairs(name, subtask, pairs) for subtask, pairs in task.subtasks.items()]
        elif isinstance(task, RelatednessTask):
            found.append(SubtaskPairs(name, WHOLE, task.test, _genres(data) if name == BENCHMARK else None))
    return found, skipped


def _genres(data: Path) -> list[str]:
    """Return the genre of each test pair of STS Benchmark, without ``main-``, always in the plural."""
    file = files_of(BENCHMARK, data / "downstream")[-1]
    genres = [genre.removeprefix("main-") for _, (genre, *_) in TABLE.rows(file)]
    return ["forums" if genre == "forum" else genre for genre in genres]


def sentences(parts: Sequence[SubtaskPairs]) -> list[str]:
    """Return the sentences of all pairs."""
    return [text for part in parts for text in (*part.pairs.first, *part.pairs.second)]


def scores(part: SubtaskPairs, vectors: Embeddings, middle: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Return the (N,) cosines of the pairs, after ``middle`` (D,) is subtracted from each vector."""
    first, second = vectors.of(part.pairs.first), vectors.of(part.pairs.second)
    return cosine(first, second) if middle is None else cosine(first - middle, second - middle)


def control(parts: Sequence[SubtaskPairs], captions: Sequence[str]) -> dict[str, Any]:
    """Return the entries of :func:`measure` by the cosines of n-grams weighted by their frequency in some captions."""
    tfidf = TfIdf(captions)
    tfidf.prepare(sentences(parts))
    return measure(parts, lambda part: tfidf.cosines(part.pairs.first, part.pairs.second), None)[0]


def measure(
    parts: Sequence[SubtaskPairs], cosines: Callable[[SubtaskPairs], NDArray[np.float64]], seen: Seen | None
) -> tuple[dict[str, Any], list[Judged]]:
    """Correlate the cosines of each part's pairs with people's scores.

    Returns:
        By task the entries of :func:`sightword.evaluation.semantics.results.judge_pairs` (of subtasks with
        aggregates; of STS Benchmark ``all`` and each genre), and the rows of all subtasks.
    """
    metrics: dict[str, Any] = {}
    rows: list[Judged] = []
    for part in parts:
        values = cosines(part)
        row = judge_pairs(part.task, part.subtask, part.pairs, values, seen)
        rows.append(row)
        if part.genres is not None:
            metrics[part.task] = {"all": row.entry} | {
                genre: judge_pairs(part.task, genre, pairs, values[places], seen).entry
                for genre, places, pairs in by_genre(part)
            }
        elif part.subtask == WHOLE:
            metrics[part.task] = row.entry
        else:
            metrics.setdefault(part.task, {})[part.subtask] = row.entry
    for task in dict.fromkeys(part.task for part in parts if part.subtask != WHOLE):
        metrics[task] |= aggregate([row for row in rows if row.task == task])
    return metrics, rows


def by_genre(part: SubtaskPairs) -> list[tuple[str, NDArray[np.int64], RatedPairs]]:
    """Return each genre of STS Benchmark with the places of its pairs, and the pairs."""
    genres = np.array(part.genres or [], object)
    found = []
    for genre in dict.fromkeys(part.genres or []):
        places = np.flatnonzero(genres == genre)
        first, second = ([texts[place] for place in places] for texts in (part.pairs.first, part.pairs.second))
        found.append((genre, places, RatedPairs(first, second, part.pairs.gold[places])))
    return found


def concreteness(parts: Sequence[SubtaskPairs], ratings: Mapping[str, float]) -> dict[str, Any]:
    """Return the mean rating of each genre of STS Benchmark (:func:`mean_rating`)."""
    return {
        genre: mean_rating(ratings, [*pairs.first, *pairs.second])
        for part in parts
        for genre, _, pairs in by_genre(part)
    }


def table(
    space: str,
    parts: Sequence[SubtaskPairs],
    judged: Sequence[Judged],
    centred: Sequence[Judged],
    ratings: Mapping[str, float],
) -> pa.Table:
    """Return the rows of one space, with :data:`SCHEMA`."""
    tables = [SCHEMA.empty_table()]
    for part, row, other in zip(parts, judged, centred, strict=True):
        count = len(part.pairs)
        both = zip(part.pairs.first, part.pairs.second, strict=True)
        columns = [
            *([name] * count for name in (space, part.task, part.subtask)),
            part.genres or [""] * count,
            np.arange(1, count + 1, dtype=np.int32),
            *(part.pairs.gold, row.scores, other.scores),
            [mean_rating(ratings, pair)["mean"] for pair in both],
            pa.nulls(count, pa.bool_()) if row.seen is None else row.seen[0] | row.seen[1],
        ]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        tables.append(pa.table(arrays, schema=SCHEMA))
    return pa.concat_tables(tables).combine_chunks()
