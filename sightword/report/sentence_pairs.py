"""Sentence pairs in the report: points of scatter plots, the worst pairs, and the disagreement by range."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sightword.report.inputs import Columns, numbers, read_tsv, texts
from sightword.semantics.breakdown import TRAINED
from sightword.semantics.pair_table import PairTable, ScoredPairs, read_pairs
from sightword.semantics.published import SYSTEMS, Score
from sightword.semantics.tables import DRAWN, THIS
from sightword.statistics import pearson

PANELS = 8
"""The most data sets with a scatter plot."""


@dataclass(frozen=True)
class Panel:
    """The scatter plot of a data set, with all its subtasks.

    Attributes:
        task: the data set.
        pairs: the number of its pairs.
        pearson: Pearson's r over all pairs; None if undefined.
        gold: (N,) people's scores of the drawn pairs.
        score: (N,) the encoder's cosines.
        seen: (N,) whether one of the sentences is a training caption; false if unknown.
    """

    task: str
    pairs: int
    pearson: float | None
    gold: NDArray[np.float64]
    score: NDArray[np.float64]
    seen: NDArray[np.bool_]


@dataclass(frozen=True)
class WorstPair:
    """One line of ``worst.tsv``, as shown."""

    subtask: str
    gold: str
    score: str
    gold_rank: str
    score_rank: str
    first: str
    second: str


@dataclass(frozen=True)
class Bin:
    """The pairs of one range of length or overlap.

    Attributes:
        by: ``length`` or ``overlap``.
        range: the range.
        pairs: the number of pairs.
        difference: the mean absolute rank difference, as a share of the subtask's pairs.
        lean: the mean rank difference; above 0 the encoder scores pairs as more similar than people do.
    """

    by: str
    range: str
    pairs: int
    difference: float
    lean: float


@dataclass(frozen=True)
class SentencePairs:
    """All contents about sentence pairs; missing inputs give empty lists."""

    panels: list[Panel]
    others: int
    """The number of data sets beyond :data:`PANELS`."""
    worst: list[WorstPair]
    bins: list[Bin]
    systems: list[tuple[str, dict[str, Score]]]
    """Each subtask with the correlations of this encoder and of the published systems in Figure 3."""


def read(data: Path, plots: Path, *, points: int, worst: int, with_published: bool) -> SentencePairs:
    """Read the results of the stage semantics.

    Args:
        data: the folder of ``pairs.parquet`` and ``worst.tsv``.
        plots: the folder of ``systems.tsv`` and ``breakdown.tsv``.
        points: the most points to draw, over all data sets.
        worst: the number of worst pairs to show.
        with_published: whether to read published systems.

    Raises:
        FileFormatError: a file is damaged or of another form.
    """
    pairs, found = data / "pairs.parquet", PairTable({})
    if pairs.exists():
        found = read_pairs(pairs)
    drawn, others = panels(found, points) if points else ([], 0)
    return SentencePairs(
        drawn,
        others,
        _worst(_table(data / "worst.tsv"), data / "worst.tsv")[:worst],
        _bins(_table(plots / "breakdown.tsv"), plots / "breakdown.tsv"),
        _systems(_table(plots / "systems.tsv"), plots / "systems.tsv") if with_published else [],
    )


def panels(table: PairTable, most: int) -> tuple[list[Panel], int]:
    """Return the scatter plots of the first :data:`PANELS` data sets, and the number of other data sets.

    A hash of data set, subtask and index selects the pairs to draw.

    Args:
        table: every pair.
        most: the number of points, evenly spread over the data sets; large sets use what small sets leave.
    """
    tasks: dict[str, list[tuple[str, ScoredPairs]]] = {}
    for (task, subtask), pairs in table.subtasks.items():
        if subtask != TRAINED and len(pairs):
            tasks.setdefault(task, []).append((subtask, pairs))
    names = list(tasks)[:PANELS]
    left, shares = most, {}
    by_size = sorted(names, key=lambda name: sum(len(pairs) for _, pairs in tasks[name]))
    for number, name in enumerate(by_size):
        shares[name] = min(sum(len(pairs) for _, pairs in tasks[name]), left // (len(by_size) - number))
        left -= shares[name]
    return [_panel(name, tasks[name], shares[name]) for name in names], len(tasks) - len(names)


def _panel(task: str, subtasks: Sequence[tuple[str, ScoredPairs]], most: int) -> Panel:
    gold = np.concatenate([pairs.gold for _, pairs in subtasks])
    score = np.concatenate([pairs.score for _, pairs in subtasks])
    seen = np.concatenate([_seen(pairs) for _, pairs in subtasks])
    places = [f"{task}\n{subtask}\n{place}" for subtask, pairs in subtasks for place in range(len(pairs))]
    order = sorted(range(len(places)), key=lambda row: hashlib.sha256(places[row].encode()).digest())
    chosen = np.sort(np.array(order[:most], dtype=int))
    return Panel(task, len(gold), pearson(score, gold), gold[chosen], score[chosen], seen[chosen])


def _seen(pairs: ScoredPairs) -> NDArray[np.bool_]:
    if pairs.first_seen is None or pairs.second_seen is None:
        return np.zeros(len(pairs), dtype=bool)
    return pairs.first_seen | pairs.second_seen


def _table(path: Path) -> Columns:
    return read_tsv(path) if path.exists() else {}


def _worst(columns: Columns, where: Path) -> list[WorstPair]:
    if not columns:
        return []
    names = ("subtask", "gold", "score", "gold_rank", "score_rank", "first", "second")
    cells = [texts(columns, name, where=str(where)) for name in names]
    return [WorstPair(*row) for row in zip(*cells, strict=True)]


def _bins(columns: Columns, where: Path) -> list[Bin]:
    if not columns:
        return []
    names = texts(columns, "name", where=str(where))
    values = [numbers(columns, name, where=str(where), blanks=True) for name in ("pairs", "rank_difference", "lean")]
    found = []
    for name, pairs, difference, lean in zip(names, *values, strict=True):
        by, _, within = name.partition(" ")
        if pairs > 0:
            found.append(Bin(by, within, int(pairs), difference, lean))
    return found


def _systems(columns: Columns, where: Path) -> list[tuple[str, dict[str, Score]]]:
    if not columns:
        return []
    names, systems = (texts(columns, name, where=str(where)) for name in ("name", "system"))
    values = [numbers(columns, name, where=str(where)) for name in ("pearson", "lo", "hi")]
    wanted = {THIS, *(SYSTEMS[name] for name in DRAWN)}
    found: dict[str, dict[str, Score]] = {}
    for name, system, r, low, high in zip(names, systems, *values, strict=True):
        if system in wanted:
            found.setdefault(name, {})[system] = Score(r, low, high)
    return [(name, scores) for name, scores in found.items() if len(scores) > 1]
