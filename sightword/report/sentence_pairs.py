"""Sentence pairs in the report: scatter plots, the largest errors, errors by length and overlap."""

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
"""The most data sets that get a scatter plot."""


@dataclass(frozen=True)
class Panel:
    """The scatter plot of a data set, all its subtasks together.

    Attributes:
        task: the data set.
        pairs: how many pairs it has.
        pearson: over all of them; None where there is no correlation.
        gold: (N,) people's scores of the pairs drawn.
        score: (N,) the encoder's cosines.
        seen: (N,) whether one of the sentences is a training caption, false where that is not known.
    """

    task: str
    pairs: int
    pearson: float | None
    gold: NDArray[np.float64]
    score: NDArray[np.float64]
    seen: NDArray[np.bool_]


@dataclass(frozen=True)
class WorstPair:
    """One line of ``worst.tsv``, as it is shown."""

    subtask: str
    gold: str
    score: str
    gold_rank: str
    score_rank: str
    first: str
    second: str


@dataclass(frozen=True)
class Part:
    """Pairs of one range of length or overlap.

    Attributes:
        by: ``length`` or ``overlap``.
        range: which.
        pairs: how many.
        difference: mean rank difference, as a share of the subtask's pairs.
        lean: its mean with the sign; above 0 the encoder finds pairs closer than people do.
    """

    by: str
    range: str
    pairs: int
    difference: float
    lean: float


@dataclass(frozen=True)
class SentencePairs:
    """All of it; what the run does not have is empty."""

    panels: list[Panel]
    others: int
    """Data sets without a panel, as there are too many."""
    worst: list[WorstPair]
    parts: list[Part]
    systems: list[tuple[str, dict[str, Score]]]
    """Each subtask with this encoder's correlation and those of the published systems of Figure 3."""


def read(data: Path, plots: Path, *, points: int, worst: int, with_published: bool) -> SentencePairs:
    """Read what the stage semantics left.

    Args:
        data: the folder of ``pairs.parquet`` and ``worst.tsv``.
        plots: the folder of ``systems.tsv`` and ``breakdown.tsv``.
        points: the most points to draw, over all data sets.
        worst: how many of the worst pairs to show.
        with_published: whether published systems are wanted.

    Raises:
        FileFormatError: one of the files is damaged, or of another form.
    """
    pairs, found = data / "pairs.parquet", PairTable({})
    if pairs.exists():
        found = read_pairs(pairs)
    drawn, others = panels(found, points) if points else ([], 0)
    return SentencePairs(
        drawn,
        others,
        _worst(_table(data / "worst.tsv"), data / "worst.tsv")[:worst],
        _parts(_table(plots / "breakdown.tsv"), plots / "breakdown.tsv"),
        _systems(_table(plots / "systems.tsv"), plots / "systems.tsv") if with_published else [],
    )


def panels(table: PairTable, most: int) -> tuple[list[Panel], int]:
    """The scatter plots of the first :data:`PANELS` data sets, and how many others there are.

    Which pairs are drawn is decided by a hash of data set, subtask and place: nobody picks.

    Args:
        table: every pair.
        most: points in all, evenly over the data sets; what small sets leave over goes to the others.
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


def _parts(columns: Columns, where: Path) -> list[Part]:
    if not columns:
        return []
    names = texts(columns, "name", where=str(where))
    values = [numbers(columns, name, where=str(where), blanks=True) for name in ("pairs", "rank_difference", "lean")]
    found = []
    for name, pairs, difference, lean in zip(names, *values, strict=True):
        by, _, within = name.partition(" ")
        if pairs > 0:
            found.append(Part(by, within, int(pairs), difference, lean))
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
