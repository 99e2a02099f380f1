"""Judges one encoder of grounded spaces: every space, from one reading of each sentence.

Relatedness is the cosine of sentence pairs against people's scores, by subtask and genre.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sightword.encoder.arguments import LONGEST
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import ReportError, ScoringError, SemanticsError
from sightword.evaluation.semantics.classification_data import BENCHMARK as TABLE
from sightword.evaluation.semantics.classification_data import ClassificationTask
from sightword.evaluation.semantics.classifier import check_folds, classify
from sightword.evaluation.semantics.datasets import (
    RatedPairs,
    RelatednessTask,
    SimilarityTask,
    files_of,
    missing_file,
    read_task,
)
from sightword.evaluation.semantics.encoding import Embeddings, embed
from sightword.evaluation.semantics.relatedness import TfIdf, cosine
from sightword.evaluation.semantics.results import Judged, Seen, aggregate, judge_pairs
from sightword.evaluation.structure import MEASURES, check_neighbours, space, with_intervals
from sightword.features.tables.pairs import Pairs
from sightword.grounded.judging.settings import JudgeSettings
from sightword.io.files import Pathish, canonical_json, mapping
from sightword.io.saved import Format
from sightword.io.tables import Table, number
from sightword.model.similarity import unit_rows

AGAIN = "Run the stage evaluate again (`dvc repro grounded/dvc.yaml`)."
FORMAT = Format("evaluate.json", 1, AGAIN, ReportError)
"""The format of a folder of ``data/grounded/``: the metrics and tables of one encoder."""
K, LISTED = 10, 5
"""Neighbours of the mNNO (the paper states no number; the released code has 10), and nearest captions that are
listed."""

_FEWER = "Leave the split out of evaluate.splits."
_UNDEFINED = "Look at the features, and at the losses in plots/grounded/: did the training run diverge?"

STRUCTURE = pa.schema(
    [("space", pa.string()), ("split", pa.string()), ("resample", pa.int32())]
    + [(name, pa.float64()) for name in MEASURES]
)
"""The columns of ``structure.parquet``: the measures of each resample of the pictures. The draws are the same for all
encoders that are judged on the same pictures with the same seed, so that differences are paired."""
NEIGHBOURS = pa.schema(
    [("space", pa.string()), ("query", pa.string()), ("rank", pa.int32()), ("sentence", pa.string())]
    + [(name, kind) for name, kind in (("image_id", pa.string()), ("cosine", pa.float64()))]
)
TRANSFER = pa.schema(
    [(name, pa.string()) for name in ("space", "task")]
    + [(name, pa.int32()) for name in ("example", "first")]
    + [("right", pa.bool_())]
)
"""The columns of ``transfer.parquet``: each tested example of a task, in the order of SentEval, from 1; examples with
the same first sentence have the same number ``first``. Most premises of SNLI have three examples, which are alike."""
Doubles = NDArray[np.float64]

BENCHMARK, WHOLE = "STSBenchmark", "cosine"
"""The task with genres, and the name of its pairs together, as in the metrics of the stage semantics."""

RELATEDNESS = pa.schema(
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

    SemanticsError, with the line, if the file cannot be read, lacks a column, has two ratings of a word, or a rating
    outside 1 to 5.
    """
    rows = [
        (word.lower(), number(mean, where, "the rating", SemanticsError, low=1.0, high=5.0), where)
        for where, (word, mean) in _RATINGS.rows(Path(path))
    ]
    return mapping(rows, "the word", "rating", SemanticsError, todo="Delete one of the two lines.")


def tokens(sentence: str) -> list[str]:
    """Return the runs of the letters a to z of a sentence in lower case."""
    return re.findall(r"[a-z]+", sentence.lower())


def mean_rating(ratings: Mapping[str, float], sentences: Iterable[str]) -> dict[str, Any]:
    """Return ``mean``, the mean rating of all rated tokens (None if none is rated), ``tokens`` and ``rated``.

    A token counts as often as it occurs.
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
    genres: list[str] | None = None  # (N,) the genre of each pair: captions, news or forums; None if the task has none


def read_parts(tasks: Sequence[str], data: Path, missing: str = "error") -> tuple[list[SubtaskPairs], dict[str, str]]:
    """Return the pairs of tasks, and the reason of each skipped task; SemanticsError if a file cannot be read."""
    subtasks: list[SubtaskPairs] = []
    skipped: dict[str, str] = {}
    for name in tasks:
        if missing == "skip" and (gone := missing_file(name, data)):
            skipped[name] = f"{gone} does not exist"
            continue
        task = read_task(name, data)
        if isinstance(task, SimilarityTask):
            subtasks += [SubtaskPairs(name, subtask, pairs) for subtask, pairs in task.subtasks.items()]
        elif isinstance(task, RelatednessTask):
            subtasks.append(SubtaskPairs(name, WHOLE, task.test, _genres(data) if name == BENCHMARK else None))
    return subtasks, skipped


def _genres(data: Path) -> list[str]:
    """Return the genre of each test pair of STS Benchmark, without ``main-``, always in the plural."""
    file = files_of(BENCHMARK, data / "downstream")[-1]
    genres = [genre.removeprefix("main-") for _, (genre, *_) in TABLE.rows(file)]
    return ["forums" if genre == "forum" else genre for genre in genres]


def sentences(parts: Sequence[SubtaskPairs]) -> list[str]:
    """Return the sentences of all pairs."""
    return [text for part in parts for text in (*part.pairs.first, *part.pairs.second)]


def pair_cosines(
    part: SubtaskPairs, vectors: Embeddings, middle: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return the (N,) cosines of the pairs, after ``middle`` (D,) is subtracted from each vector."""
    first, second = vectors.of(part.pairs.first), vectors.of(part.pairs.second)
    return cosine(first, second) if middle is None else cosine(first - middle, second - middle)


def tfidf_control(parts: Sequence[SubtaskPairs], captions: Sequence[str]) -> dict[str, Any]:
    """Return the entries of :func:`correlate` by tf-idf of n-grams of captions."""
    tfidf = TfIdf(captions)
    tfidf.prepare(sentences(parts))
    return correlate(parts, lambda part: tfidf.cosines(part.pairs.first, part.pairs.second), None)[0]


def correlate(
    parts: Sequence[SubtaskPairs], cosines: Callable[[SubtaskPairs], Doubles], seen: Seen | None
) -> tuple[dict[str, Any], list[Judged]]:
    """Correlate the cosines of each part's pairs with people's scores.

    Return by task the entries of :func:`sightword.evaluation.semantics.results.judge_pairs` (of subtasks with
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
    parts = []
    for genre in dict.fromkeys(part.genres or []):
        places = np.flatnonzero(genres == genre)
        first, second = ([texts[place] for place in places] for texts in (part.pairs.first, part.pairs.second))
        parts.append((genre, places, RatedPairs(first, second, part.pairs.gold[places])))
    return parts


def concreteness(parts: Sequence[SubtaskPairs], ratings: Mapping[str, float]) -> dict[str, Any]:
    """Return the mean rating of each genre of STS Benchmark (:func:`mean_rating`)."""
    return {
        genre: mean_rating(ratings, [*pairs.first, *pairs.second])
        for part in parts
        for genre, _, pairs in by_genre(part)
    }


def pair_table(
    space: str, parts: Sequence[SubtaskPairs], judged: Sequence[Judged], centred: Sequence[Judged],
    ratings: Mapping[str, float],
) -> pa.Table:  # fmt: skip
    """Return the rows of one space, with :data:`RELATEDNESS`."""
    tables = [RELATEDNESS.empty_table()]
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
        tables.append(_table(RELATEDNESS, columns))
    return pa.concat_tables(tables).combine_chunks()


@dataclass(frozen=True)
class Material:
    """What an encoder is judged with."""

    splits: Mapping[str, Pairs]  # pictures and captions by split
    parts: list[SubtaskPairs]
    tasks: list[ClassificationTask]
    skipped: dict[str, str]  # tasks without their files
    ratings: Mapping[str, float]  # empty without a file
    seen: Seen | None  # the training captions
    control: dict[str, Any]
    """The entries of relatedness by tf-idf of the training captions; empty without pairs or captions."""


@dataclass(frozen=True)
class Measured:
    """The result of judging one encoder."""

    metrics: dict[str, Any]
    tables: dict[str, pa.Table]  # `structure`, `relatedness`, `transfer` and `neighbours`
    judged: list[Judged]  # the rows of relatedness in the encoder's default space, for `pairs.parquet`


def read(settings: JudgeSettings, splits: Mapping[str, Pairs], training: Sequence[str] | None) -> Material:
    """Read the files of tasks and ratings, before any sentence is encoded.

    Raises:
        ScoringError: a split has too few pictures for K neighbours.
        SemanticsError: a file cannot be read or is missing, or a group has too few captions.
    """
    for split, pairs in splits.items():
        try:
            check_neighbours(len(np.unique(pairs.image_of_caption)), K)
        except ScoringError as error:
            raise ScoringError(error.what, where=f"the split {split}", expected=error.expected, todo=_FEWER) from None
    data = Path(settings.data)
    parts, skipped = read_parts(settings.tasks, data, settings.missing)
    tasks = []
    for name in settings.transfer:
        if settings.missing == "skip" and (gone := missing_file(name, data)):
            skipped[name] = f"{gone} does not exist"
        elif isinstance(task := read_task(name, data), ClassificationTask):
            check_folds(task, settings.kfold)
            tasks.append(task)
    ratings = read_ratings(settings.ratings) if settings.ratings else {}
    seen = None if training is None else Seen(training)
    control = tfidf_control(parts, training) if parts and training else {}
    return Material(splits, parts, tasks, skipped, ratings, seen, control)


def embed_spaces(encoder: SentenceEncoder, texts: Iterable[str], spaces: Sequence[str]) -> dict[str, Embeddings]:
    """Encode each distinct sentence once; return the vectors of each space."""
    widths: dict[str, int] = {}

    def encode(batch: list[str]) -> NDArray[Any]:
        vectors = encoder.encode_spaces(batch, batch_size=256, max_length=LONGEST)
        widths.update({space: vectors[space].shape[1] for space in spaces})
        return np.concatenate([vectors[space] for space in spaces], axis=1)

    joined = embed(encode, texts)
    ends = np.cumsum([widths[space] for space in spaces])
    return {space: joined.columns(slice(end - widths[space], end)) for space, end in zip(spaces, ends, strict=True)}


def measure(encoder: SentenceEncoder, material: Material, settings: JudgeSettings) -> Measured:
    """Judge an encoder in all its spaces.

    Returns:
        The metrics ``judged`` (the default space), ``judge`` (the ``seed``), ``spaces``, ``concreteness``, and
        ``controls`` (``tfidf``: relatedness by task). A space has ``structure`` (by split), ``relatedness`` (by task),
        ``centred`` (both around the mean caption of the split, or of the first split) and ``transfer`` (by task, in the
        space ``sentence``). Structure and correlations are fractions, accuracies percent.

    Raises:
        ScoringError: the structure is undefined.
        SemanticsError: the vectors are not finite.
    """
    spaces = list(encoder.spaces)
    texts = [text for pairs in material.splits.values() for text in pairs.texts]
    every = [*texts, *settings.neighbours, *sentences(material.parts)]
    vectors = embed_spaces(encoder, every, spaces)
    entries: dict[str, dict[str, Any]] = {}
    tables: dict[str, list[pa.Table]] = {
        name: [schema.empty_table()] for name, schema in (("structure", STRUCTURE), ("neighbours", NEIGHBOURS))
    }
    related: list[pa.Table] = [RELATEDNESS.empty_table()]
    own: list[Judged] = []
    for name in spaces:
        with threadpool_limits(1, user_api="blas"):  # NumPy's sums by several threads have other last digits
            one, judged, added = _space(name, vectors[name], material, settings)
        entries[name] = one
        related.append(added.pop("relatedness"))
        for kind, table in added.items():
            tables[kind].append(table)
        if name == encoder.default:
            own = judged
    del vectors
    rights = [TRANSFER.empty_table()]
    for task, entry, table in _transfer(encoder, material, settings):
        entries["sentence"].setdefault("transfer", {})[task] = entry
        rights.append(table)
    metrics: dict[str, Any] = {"judged": encoder.default, "judge": _judge(material, settings), "spaces": entries}
    if material.ratings:
        metrics["concreteness"] = concreteness(material.parts, material.ratings)
    if material.control:
        metrics["controls"] = {"tfidf": material.control}
    if material.skipped:
        metrics["skipped"] = material.skipped
    every_table = tables | {"relatedness": related, "transfer": rights}
    joined = {kind: pa.concat_tables(parts).combine_chunks() for kind, parts in every_table.items()}
    return Measured(metrics, joined, own)


def _judge(material: Material, settings: JudgeSettings) -> dict[str, Any]:
    """Return what two encoders must share for their scores to be compared, besides the pairs' own scores."""
    seen = hashlib.sha256()
    for split, pairs in material.splits.items():
        seen.update(canonical_json([split, pairs.image_ids, pairs.texts]).encode() + pairs.features.tobytes())
    return {"seed": settings.seed, "kfold": settings.kfold, "pictures": seen.hexdigest()}


def _space(
    name: str, vectors: Embeddings, material: Material, settings: JudgeSettings
) -> tuple[dict[str, Any], list[Judged], dict[str, pa.Table]]:
    """Return the metrics, the rows of relatedness, and the tables of one space."""
    structures, centred, resamples = {}, {}, []
    for split, pairs in material.splits.items():
        rows = vectors.of(pairs.texts)
        try:
            one = space(rows, pairs.features, pairs.image_of_caption)
            structures[split], drawn = with_intervals(one, K, resamples=settings.resamples, seed=settings.seed)
            moved = space(rows, pairs.features, pairs.image_of_caption, centred=True)
            centred[split] = with_intervals(moved, K, resamples=0, seed=0)[0]
        except ScoringError as error:
            where = f"space {name}, split {split}: {error.where}"
            raise ScoringError(error.what, where=where, expected=error.expected, todo=_UNDEFINED) from None
        if drawn is not None:
            columns = [[name] * settings.resamples, [split] * settings.resamples, range(1, settings.resamples + 1)]
            resamples.append(_table(STRUCTURE, [*columns, *drawn]))
    first = material.splits[settings.splits[0]]
    middle = vectors.of(first.texts).astype(np.float64).mean(axis=0)
    related, judged = correlate(material.parts, partial(pair_cosines, vectors=vectors), material.seen)
    around, judged_around = correlate(material.parts, partial(pair_cosines, vectors=vectors, middle=middle), None)
    metrics = {
        "structure": structures,
        "relatedness": related,
        "centred": {"structure": centred, "relatedness": around},
    }
    near = neighbours(
        vectors, settings.neighbours, first.texts, [first.image_ids[row] for row in first.image_of_caption]
    )
    tables = {
        "structure": pa.concat_tables([STRUCTURE.empty_table(), *resamples]),
        "relatedness": pair_table(name, material.parts, judged, judged_around, material.ratings),
        "neighbours": pa.Table.from_pylist([{"space": name} | row for row in near], NEIGHBOURS),
    }
    return metrics, judged, tables


def _transfer(
    encoder: SentenceEncoder, material: Material, settings: JudgeSettings
) -> Iterator[tuple[str, dict[str, Any], pa.Table]]:
    """Yield each transfer task with its entry of :func:`sightword.evaluation.semantics.classifier.classify`, and its
    rows of :data:`TRANSFER`; the sentences of one task are in memory at a time.
    """
    for task in material.tasks:
        tested = task.train if task.test is None else task.test
        first = np.unique(np.array(tested.first, object), return_inverse=True)[1]
        vectors = embed_spaces(encoder, task.sentences(), ["sentence"])["sentence"]
        entry, right = classify(task, vectors, kfold=settings.kfold, seed=settings.seed)
        if material.seen is not None:
            entry["seen_in_training"] = float(material.seen.mask(task.test_sentences()).mean())
        count = len(right)
        columns = [["sentence"] * count, [task.name] * count, np.arange(1, count + 1), first, right]
        yield task.name, entry, _table(TRANSFER, columns)


def _table(schema: pa.Schema, columns: Sequence[Any]) -> pa.Table:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def neighbours(
    vectors: Embeddings, queries: Sequence[str], captions: Sequence[str], image_ids: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the nearest different captions of each query by the cosine, nearest first, without the query itself.

    Of equal cosines and equal sentences the first caption leads.
    """
    first = {text: place for place, text in reversed(list(enumerate(captions)))}
    places = sorted(first.values())
    rows = unit_rows(vectors.of([captions[place] for place in places]).astype(np.float64))
    nearest = []
    for query, vector in zip(queries, unit_rows(vectors.of(list(queries)).astype(np.float64)), strict=True):
        cosines = np.round(rows @ vector, 9)
        order = [row for row in np.argsort(-cosines, kind="stable")[: LISTED + 1] if captions[places[row]] != query]
        for rank, row in enumerate(order[:LISTED], start=1):
            place = places[row]
            one = {"query": query, "rank": rank, "sentence": captions[place], "image_id": image_ids[place]}
            nearest.append(one | {"cosine": float(cosines[row])})
    return nearest
