"""Judges one encoder of grounded spaces: every space, from one reading of each sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from sightword.evaluation.semantics.classification_data import ClassificationTask
from sightword.evaluation.semantics.classifier import check_folds, classified
from sightword.evaluation.semantics.datasets import missing_file, read_task
from sightword.evaluation.semantics.encoding import Embeddings, embed
from sightword.evaluation.semantics.results import Judged, Seen
from sightword.evaluation.structure import (
    MEASURES,
    Resampled,
    Space,
    check_neighbours,
    mnno_curve,
    space,
    with_intervals,
)
from sightword.features.tables.pairs import Pairs
from sightword.grounded.judging import relatedness
from sightword.grounded.judging.relatedness import SubtaskPairs, read_ratings, tokens
from sightword.grounded.judging.settings import JudgeSettings
from sightword.io.saved import Format
from sightword.messages import plural
from sightword.model.similarity import unit_rows

AGAIN = "Run the stage evaluate again (`dvc repro grounded/dvc.yaml`)."
FORMAT = Format("evaluate.json", 1, AGAIN, ReportError)
"""The format of a folder of ``data/grounded/``: the metrics and tables of one encoder."""
K, LISTED, FEWEST = 10, 5, 4
"""Neighbours of the mNNO (the paper states no number; the released code has 10), nearest captions that are listed, and
the fewest points of a t-SNE."""

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
POINTS = pa.schema(
    [(name, pa.string()) for name in ("space", "group", "sentence", "image_id")]
    + [("x", pa.float64()), ("y", pa.float64())]
)


@dataclass(frozen=True)
class Material:
    """What an encoder is judged with."""

    splits: Mapping[str, Pairs]
    """Pictures and captions by split."""
    parts: list[SubtaskPairs]
    tasks: list[ClassificationTask]
    skipped: dict[str, str]
    """Tasks without their files."""
    ratings: Mapping[str, float]
    """Empty without a file."""
    seen: Seen | None
    """The training captions."""
    control: dict[str, Any]
    """The entries of relatedness by tf-idf of the training captions; empty without pairs or captions."""


@dataclass(frozen=True)
class Measured:
    """The result of judging one encoder."""

    metrics: dict[str, Any]
    tables: dict[str, pa.Table]
    """``structure``, ``relatedness``, ``transfer``, ``neighbours`` and ``points``."""
    judged: list[Judged]
    """The rows of relatedness in the encoder's default space, for ``pairs.parquet``."""


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
    parts, skipped = relatedness.read_parts(settings.tasks, data, settings.missing)
    tasks = []
    for name in settings.transfer:
        if settings.missing == "skip" and (gone := missing_file(name, data)):
            skipped[name] = f"{gone} does not exist"
        elif isinstance(task := read_task(name, data), ClassificationTask):
            check_folds(task, settings.kfold)
            tasks.append(task)
    members(splits[settings.splits[0]].texts, settings.groups, settings.points)
    ratings = read_ratings(settings.ratings) if settings.ratings else {}
    seen = None if training is None else Seen(training)
    control = relatedness.control(parts, training) if parts and training else {}
    return Material(splits, parts, tasks, skipped, ratings, seen, control)


def embed_spaces(encoder: SentenceEncoder, sentences: Iterable[str], spaces: Sequence[str]) -> dict[str, Embeddings]:
    """Encode each distinct sentence once; return the vectors of each space."""
    widths: dict[str, int] = {}

    def encode(texts: list[str]) -> NDArray[Any]:
        found = encoder.encode_spaces(texts, batch_size=256, max_length=LONGEST)
        widths.update({space: found[space].shape[1] for space in spaces})
        return np.concatenate([found[space] for space in spaces], axis=1)

    joined = embed(encode, sentences)
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
    every = [*texts, *settings.neighbours, *relatedness.sentences(material.parts)]
    vectors = embed_spaces(encoder, every, spaces)
    found: dict[str, dict[str, Any]] = {}
    tables: dict[str, list[pa.Table]] = {
        name: [schema.empty_table()]
        for name, schema in (("structure", STRUCTURE), ("neighbours", NEIGHBOURS), ("points", POINTS))
    }
    related: list[pa.Table] = [relatedness.SCHEMA.empty_table()]
    own: list[Judged] = []
    for name in spaces:
        with threadpool_limits(1, user_api="blas"):  # NumPy's sums by several threads have other last digits
            one, judged, added = _space(name, vectors[name], material, settings)
        found[name] = one
        related.append(added.pop("relatedness"))
        for kind, table in added.items():
            tables[kind].append(table)
        if name == encoder.default:
            own = judged
    del vectors
    rights = [TRANSFER.empty_table()]
    for task, entry, table in _transfer(encoder, material, settings):
        found["sentence"].setdefault("transfer", {})[task] = entry
        rights.append(table)
    metrics: dict[str, Any] = {"judged": encoder.default, "judge": {"seed": settings.seed}, "spaces": found}
    if material.ratings:
        metrics["concreteness"] = relatedness.concreteness(material.parts, material.ratings)
    if material.control:
        metrics["controls"] = {"tfidf": material.control}
    if material.skipped:
        metrics["skipped"] = material.skipped
    every_table = tables | {"relatedness": related, "transfer": rights}
    joined = {kind: pa.concat_tables(parts).combine_chunks() for kind, parts in every_table.items()}
    return Measured(metrics, joined, own)


def _space(
    name: str, vectors: Embeddings, material: Material, settings: JudgeSettings
) -> tuple[dict[str, Any], list[Judged], dict[str, pa.Table]]:
    """Return the metrics, the rows of relatedness, and the tables of one space."""
    structures, centred, resamples = {}, {}, []
    for split, pairs in material.splits.items():
        rows = vectors.of(pairs.texts)
        try:
            one = space(rows, pairs.features, pairs.image_of_caption)
            structures[split], drawn = _structure(one, settings)
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
    related, judged = relatedness.measure(material.parts, partial(relatedness.scores, vectors=vectors), material.seen)
    around, judged_around = relatedness.measure(
        material.parts, partial(relatedness.scores, vectors=vectors, middle=middle), None
    )
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
        "relatedness": relatedness.table(name, material.parts, judged, judged_around, material.ratings),
        "neighbours": pa.Table.from_pylist([{"space": name} | row for row in near], NEIGHBOURS),
        "points": _points(name, vectors, first, settings),
    }
    return metrics, judged, tables


def _structure(one: Space, settings: JudgeSettings) -> tuple[dict[str, Any], Resampled | None]:
    values, drawn = with_intervals(one, K, resamples=settings.resamples, seed=settings.seed)
    values["curve"] = {str(k): value for k, value in mnno_curve(one, settings.curve).items()}
    return values, drawn


def _transfer(
    encoder: SentenceEncoder, material: Material, settings: JudgeSettings
) -> Iterator[tuple[str, dict[str, Any], pa.Table]]:
    """Yield each transfer task with its entry of :func:`sightword.evaluation.semantics.classifier.classify`, and its
    rows of :data:`TRANSFER`; the sentences of one task are in memory at a time.
    """
    for task in material.tasks:
        tested = task.train if task.test is None else task.test
        first = np.unique(tested.first, return_inverse=True)[1]
        vectors = embed_spaces(encoder, task.sentences(), ["sentence"])["sentence"]
        entry, right = classified(task, vectors, kfold=settings.kfold, seed=settings.seed)
        if material.seen is not None:
            entry["seen_in_training"] = float(material.seen.mask(task.test_sentences()).mean())
        count = len(right)
        columns = [["sentence"] * count, [task.name] * count, np.arange(1, count + 1), first, right]
        yield task.name, entry, _table(TRANSFER, columns)


def _points(name: str, vectors: Embeddings, first: Pairs, settings: JudgeSettings) -> pa.Table:
    chosen = members(first.texts, settings.groups, settings.points)
    if not chosen:
        return POINTS.empty_table()
    texts = [first.texts[place] for _, place in chosen]
    spots = plane(vectors.of(texts), settings.seed % 2**31)
    images = [first.image_ids[first.image_of_caption[place]] for _, place in chosen]
    return _table(POINTS, [[name] * len(texts), [group for group, _ in chosen], texts, images, *spots.T])


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
    found = []
    for query, vector in zip(queries, unit_rows(vectors.of(list(queries)).astype(np.float64)), strict=True):
        cosines = np.round(rows @ vector, 9)
        order = [row for row in np.argsort(-cosines, kind="stable")[: LISTED + 1] if captions[places[row]] != query]
        for rank, row in enumerate(order[:LISTED], start=1):
            place = places[row]
            one = {"query": query, "rank": rank, "sentence": captions[place], "image_id": image_ids[place]}
            found.append(one | {"cosine": float(cosines[row])})
    return found


def members(captions: Sequence[str], groups: Sequence[str], most: int) -> list[tuple[str, int]]:
    """Return group and place of the captions with exactly one of the words, at most ``most`` of a group, evenly.

    SemanticsError if a group has fewer than two captions.
    """
    words = {group.strip().lower(): group for group in groups}
    of_group: dict[str, list[int]] = {group: [] for group in groups}
    for place, caption in enumerate(captions):
        held = {words[token] for token in tokens(caption) if token in words}
        if len(held) == 1:
            of_group[held.pop()].append(place)
    for group, places in of_group.items():
        if len(places) < 2:
            what = f"{plural(len(places), 'caption')} hold the word {group!r} and no other word of evaluate.groups"
            raise SemanticsError(what, where="evaluate.groups", expected="two or more", todo="Choose other words.")
    return [
        (group, places[number * len(places) // min(most, len(places))])
        for group, places in of_group.items()
        for number in range(min(most, len(places)))
    ]


def plane(vectors: NDArray[np.floating[Any]], seed: int) -> NDArray[np.float64]:
    """Return (N, 2) points of N vectors by t-SNE of their directions; fewer than four vectors lie on a line."""
    from sklearn.manifold import TSNE

    rows = unit_rows(vectors.astype(np.float64))
    if len(rows) < FEWEST:
        return np.column_stack([np.arange(len(rows)), np.zeros(len(rows))])
    perplexity = min(30.0, (len(rows) - 1) / 3)
    model = TSNE(perplexity=perplexity, init="pca", random_state=seed, n_jobs=1, metric="euclidean")
    found: NDArray[np.float64] = model.fit_transform(rows).astype(np.float64)
    return found
