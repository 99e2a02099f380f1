"""Judges one encoder of grounded spaces: every space, from one reading of each sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import ReportError, ScoringError, SemanticsError
from sightword.evaluation.semantics.classification_data import ClassificationTask
from sightword.evaluation.semantics.encoding import Embeddings
from sightword.evaluation.semantics.results import Judged, Seen
from sightword.evaluation.structure.inputs import Space, space
from sightword.evaluation.structure.intervals import Resampled
from sightword.evaluation.structure.measures import (
    MEASURES,
    check_neighbours,
    mnno_curve,
    mnno_of_sample,
    with_intervals,
)
from sightword.features.tables.pairs import Pairs
from sightword.grounded.judging import nearby, relatedness, transfer
from sightword.grounded.judging.concreteness import read_ratings
from sightword.grounded.judging.relatedness import SubtaskPairs
from sightword.grounded.judging.settings import JudgeSettings
from sightword.grounded.judging.vectors import embed_spaces
from sightword.io.saved import Format

AGAIN = "Run the stage evaluate again (`dvc repro grounded/dvc.yaml`)."
FORMAT = Format("evaluate.json", 1, AGAIN, ReportError)
"""The format of a folder of ``data/grounded/``: the metrics and tables of one encoder."""
SAMPLE = 1000
"""Captions of the released code's mNNO."""

_FEWER = "Lower evaluate.k, or leave the split out of evaluate.splits."
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
        SemanticsError: a file cannot be read, does not exist, or a group has too few captions.
    """
    for split, pairs in splits.items():
        try:
            check_neighbours(len(np.unique(pairs.image_of_caption)), settings.k)
        except ScoringError as error:
            raise ScoringError(error.what, where=f"the split {split}", expected=error.expected, todo=_FEWER) from None
    data = Path(settings.data)
    parts, skipped = relatedness.read_parts(settings.tasks, data, settings.missing)
    tasks, more = transfer.read_tasks(settings.transfer, data, settings)
    nearby.members(splits[settings.splits[0]].texts, settings.groups, settings.points)
    ratings = read_ratings(settings.ratings) if settings.ratings else {}
    seen = None if training is None else Seen(training)
    control = relatedness.control(parts, training) if parts and training else {}
    return Material(splits, parts, tasks, skipped | more, ratings, seen, control)


def measure(encoder: SentenceEncoder, material: Material, settings: JudgeSettings) -> Measured:
    """Judge an encoder in all its spaces.

    Returns:
        The metrics ``judged`` (the name of the default space), ``judge`` (the settings ``captions`` and ``seed``),
        ``spaces``, ``concreteness``, and ``controls`` (``tfidf``: relatedness by task). A space has ``structure`` (by
        split, with the mNNO's ``curve``), ``relatedness`` (by task), ``centred`` (both again around the mean caption:
        of the split, or of the first split) and ``transfer`` (by task, for a space with transfer tasks). Structure and
        correlations are fractions, accuracies are percent.

    Raises:
        ScoringError: the structure is undefined.
        SemanticsError: the vectors are not finite.
    """
    spaces = list(encoder.spaces)
    texts = [text for pairs in material.splits.values() for text in pairs.texts]
    every = [*texts, *settings.neighbours, *relatedness.sentences(material.parts)]
    vectors = embed_spaces(encoder, every, spaces, batch_size=settings.batch_size)
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
    rights: transfer.Rights = []
    if material.tasks:
        own_space = [name for name in spaces if name == encoder.default]
        chosen = {"sentence": ["sentence"], "judged": own_space, "all": spaces}[settings.transfer_spaces]
        if unknown := [name for name in chosen if name not in spaces]:
            what = f"the encoder has no space {unknown[0]!r} for the transfer tasks"
            raise SemanticsError(what, where="evaluate.transfer_spaces", expected=f"one of {', '.join(spaces)}")
        for name, task, entry, first, right in transfer.measure(
            encoder, material.tasks, chosen, material.seen, settings
        ):
            found[name].setdefault("transfer", {})[task] = entry
            rights.append((name, task, first, right))
    metrics: dict[str, Any] = {
        "judged": encoder.default,
        "judge": {"captions": settings.captions, "seed": settings.seed},
        "spaces": found,
    }
    if material.ratings:
        metrics["concreteness"] = relatedness.concreteness(material.parts, material.ratings)
    if material.control:
        metrics["controls"] = {"tfidf": material.control}
    if material.skipped:
        metrics["skipped"] = material.skipped
    joined = {kind: pa.concat_tables(parts).combine_chunks() for kind, parts in tables.items()}
    joined |= {"relatedness": pa.concat_tables(related).combine_chunks(), "transfer": transfer.table(rights)}
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
            centred[split] = with_intervals(moved, settings.k, resamples=0, seed=0)[0]
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
    near = nearby.neighbours(
        vectors,
        settings.neighbours,
        first.texts,
        [first.image_ids[row] for row in first.image_of_caption],
        settings.listed,
    )
    tables = {
        "structure": pa.concat_tables([STRUCTURE.empty_table(), *resamples]),
        "relatedness": relatedness.table(name, material.parts, judged, judged_around, material.ratings),
        "neighbours": pa.Table.from_pylist([{"space": name} | row for row in near], NEIGHBOURS),
        "points": _points(name, vectors, first, settings),
    }
    return metrics, judged, tables


def _structure(one: Space, settings: JudgeSettings) -> tuple[dict[str, Any], Resampled | None]:
    numbers = 1 if settings.captions == "first" else None
    values, drawn = with_intervals(one, settings.k, resamples=settings.resamples, seed=settings.seed, numbers=numbers)
    if settings.captions == "sample_1000":
        values["mnno"] = mnno_of_sample(one, settings.k, sample=SAMPLE, seed=settings.seed)
        values.pop("mnno_ci95", None)
        drawn = None if drawn is None else drawn._replace(mnno=np.full(settings.resamples, np.nan))
    values["curve"] = {str(k): value for k, value in mnno_curve(one, settings.curve).items()}
    return values, drawn


def _points(name: str, vectors: Embeddings, first: Pairs, settings: JudgeSettings) -> pa.Table:
    chosen = nearby.members(first.texts, settings.groups, settings.points)
    if not chosen:
        return POINTS.empty_table()
    texts = [first.texts[place] for _, place in chosen]
    plane = nearby.plane(vectors.of(texts), settings.seed % 2**31)
    images = [first.image_ids[first.image_of_caption[place]] for _, place in chosen]
    return _table(POINTS, [[name] * len(texts), [group for group, _ in chosen], texts, images, *plane.T])


def _table(schema: pa.Schema, columns: Sequence[Any]) -> pa.Table:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)
