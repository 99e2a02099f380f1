"""All that can be compared of two runs: recalls, correlations, other numbers, and what made them differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.comparison import recall
from pipeline.comparison.recall import Ranks, Recall
from pipeline.comparison.runs import METRICS, TOP, Side
from pipeline.comparison.systems import SAMPLES, SEED, Comparison, compare
from pipeline.lineage.difference import Difference, Pair, difference
from pipeline.lineage.history import changed_params
from sightword.errors import FileFormatError, ScoringError, SemanticsError
from sightword.files import read_json
from sightword.report.gallery import first_right, read_top
from sightword.report.number_formats import is_number
from sightword.report.summary import headline_split
from sightword.semantics.pair_table import PairTable, read_pairs
from sightword.text import flat

if TYPE_CHECKING:
    import pandas as pd

UNTESTED = ("r1", "r5", "r10", "median_rank", "mean_rank", "pearson", "accuracy", "ensemble_r10")
"""Scores in metrics files; there they are means over queries or pairs, which no test can start from."""

ROUNDING = 1e-6
"""Percent."""


@dataclass(frozen=True)
class Answers:
    """What a run answered to the queries of a split.

    Attributes:
        split: the split.
        depth: how many answers were kept of each query.
        ranks: by direction.
        table: all answers.
    """

    split: str
    depth: int
    ranks: Mapping[str, Ranks]
    table: pd.DataFrame


@dataclass(frozen=True)
class Contrast:
    """Two runs side by side.

    Attributes:
        a: the first.
        b: the second.
        answers: of both; None where they were not asked the same, or it is not known.
        recalls: R@k with tests.
        pairs: the tables of both; None where one has none.
        semantics: correlations with tests; None where they cannot be compared.
        numbers: scores that are known of both only as such: name, A's, B's.
        params: parameters that differ, by full name.
        difference: what made them differ; None where they are not two revisions of one project.
        notes: what was not compared, and why.
        unseen: whether of the sentence pairs only those that neither was trained on were compared.
        samples: resamples of the bootstrap.
        seed: of it.
    """

    a: Side
    b: Side
    answers: tuple[Answers, Answers] | None
    recalls: list[Recall]
    pairs: tuple[PairTable, PairTable] | None
    semantics: Comparison | None
    numbers: list[tuple[str, float, float]]
    params: Mapping[str, Pair]
    difference: Difference | None
    notes: list[str] = field(default_factory=list)
    unseen: bool = False
    samples: int = SAMPLES
    seed: int = SEED


def contrast(
    a: Side,
    b: Side,
    *,
    project: Path | None = None,
    facts: Sequence[Path] = (),
    unseen: bool = False,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> Contrast:
    """Compare two runs as far as both have what it takes.

    Args:
        a: the first.
        b: the second.
        project: whose revisions they are, if they are.
        facts: folders with facts of runs.
        unseen: of sentence pairs, only those of which neither sentence is a training caption of A or B.
        samples: resamples of the bootstraps.
        seed: of their draws.

    Raises:
        SemanticsError: the tables of pairs are of other pairs.
        FileFormatError: a file is damaged, or the two have nothing in common.
    """
    notes: list[str] = []
    pairs, semantics = _semantics(a, b, notes, unseen=unseen, samples=samples, seed=seed)
    answers, recalls = _retrieval(a, b, notes, samples=samples, seed=seed)
    tested = {f"{row.direction}.r{row.depth}" for row in recalls}
    numbers = _numbers(a, b, tested=tested, judged=semantics is not None)
    if semantics is None and not recalls and not numbers:
        raise FileFormatError(
            f"nothing can be compared: {' '.join(notes).removesuffix('.')}", where=f"{a.name} and {b.name}"
        )
    found = None
    if project is not None and a.revision and b.revision:
        found = difference(a.revision, b.revision, project, facts=facts)
    params = changed_params(a.lock.entries, b.lock.entries) if a.lock is not None and b.lock is not None else {}
    return Contrast(a, b, answers, recalls, pairs, semantics, numbers, params, found, notes, unseen, samples, seed)


def _semantics(
    a: Side, b: Side, notes: list[str], *, unseen: bool, samples: int, seed: int
) -> tuple[tuple[PairTable, PairTable] | None, Comparison | None]:
    absent = [side for side in (a, b) if side.pairs is None]
    if a.pairs is None or b.pairs is None:
        notes.append(f"Sentence similarity is not tested: {_lacking(absent, 'data/semantics/pairs.parquet')}.")
        return None, None
    tables = read_pairs(a.pairs), read_pairs(b.pairs)
    if a.folder is not None and b.folder is not None and not tables[0].subtasks.keys() & tables[1].subtasks.keys():
        notes.append("Sentence similarity is not compared: the two were judged on other data sets.")
        return None, None
    try:
        return tables, compare(*tables, unseen=unseen, samples=samples, seed=seed)
    except SemanticsError as error:
        if a.folder is None or b.folder is None or unseen:
            raise
        notes.append(f"Sentence similarity is not compared: {error}")
        return None, None


def _retrieval(
    a: Side, b: Side, notes: list[str], *, samples: int, seed: int
) -> tuple[tuple[Answers, Answers] | None, list[Recall]]:
    if a.folder is None or b.folder is None:
        return None, []  # a table of pairs was given: no one asked for more
    absent = [side for side in (a, b) if side.file(TOP) is None]
    if absent:
        notes.append(f"Retrieval is not tested: {_lacking(absent, TOP.as_posix())}.")
        return None, []
    ours, theirs = (_answers(side) for side in (a, b))
    if ours.split != theirs.split:
        notes.append(f"Retrieval is not tested: A was judged on {ours.split}, B on {theirs.split}.")
        return None, []
    try:
        depth = min(ours.depth, theirs.depth)
        rows = recall.compare(ours.ranks, theirs.ranks, depth=depth, samples=samples, seed=seed)
    except ScoringError as error:
        notes.append(f"Retrieval is not tested: {error}.")
        return None, []
    notes += [note for side in (a, b) if (note := _unlike_metrics(side, ours.split, rows))]
    return ((ours, theirs) if rows else None), rows


def _unlike_metrics(side: Side, split: str, rows: Sequence[Recall]) -> str | None:
    """Whether the lists of answers give other recalls than the metrics, and why."""
    metrics = _flat(side.file(METRICS[0]))
    gaps = []
    for row in rows:
        known, listed = metrics.get(f"{split}.full.{row.direction}.r{row.depth}"), row.a if side.label == "A" else row.b
        if is_number(known) and abs(listed - known) > ROUNDING:
            gaps.append((listed - known, f"R@{row.depth} {row.direction} is {listed:.1f} here and {known:.1f} there"))
    if not gaps:
        return None
    worst = max(gaps, key=lambda gap: abs(gap[0]))[1]
    what = f"Recalls of {side.label} are not those of its metrics/retrieval.json: {worst}."
    if any(gap < 0 for gap, _ in gaps):
        return f"{what} One of the two files is of another run."
    return (
        f"{what} There, answers with the same score count against the encoder; here they stand in the order of ids. "
        f"If {side.label} has no such answers, one of the two files is of another run."
    )


def _answers(side: Side) -> Answers:
    path = side.file(TOP)
    assert path is not None
    table = read_top(path)
    split = headline_split(set(table["split"]))
    here = table[table["split"] == split]
    ranks = {str(name): first_right(rows) for name, rows in here.groupby("direction")}
    return Answers(split, int(here["position"].max()) if len(here) else 0, ranks, here)


def _lacking(sides: Sequence[Side], path: str) -> str:
    """What to do about a file that some sides do not have."""
    found = []
    for side in sides:
        text = f"{side.label} has no {path}"
        if side.lock is not None and side.lock.producer(path) is not None and side.revision:
            text += f" in DVC's cache (`dvc fetch --all-commits` brings what was pushed; else run {side.name} again)"
        found.append(text)
    return ", ".join(found)


def _numbers(a: Side, b: Side, *, tested: Collection[str], judged: bool) -> list[tuple[str, float, float]]:
    """Scores in the metrics of both that were not compared otherwise.

    Args:
        a: the first.
        b: the second.
        tested: recalls that were, such as ``caption_to_image.r1``.
        judged: whether correlations were.
    """
    found = []
    for path in METRICS:
        values = [_flat(side.file(path)) for side in (a, b)]
        for name, ours in values[0].items():
            last, theirs = name.rpartition(".")[2], values[1].get(name)
            if last not in UNTESTED or not is_number(ours) or not is_number(theirs):
                continue
            if name.partition(".full.")[2] in tested:
                continue
            if judged and path.stem == "semantics" and last == "pearson":
                continue
            found.append((f"{path.stem} {name}", float(ours), float(theirs)))
    return found


def _flat(path: Path | None) -> dict[str, Any]:
    values = None if path is None else read_json(path)
    return flat(values) if isinstance(values, dict) else {}
