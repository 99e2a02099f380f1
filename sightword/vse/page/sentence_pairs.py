"""Sentence pairs in the report: points of scatter plots, the worst pairs, and the disagreement by range."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightword.evaluation.published import SYSTEMS, Score
from sightword.evaluation.semantics.results import PairTable, ScoredPairs, read_pairs
from sightword.evaluation.semantics.tables import DRAWN, THIS, TRAINED
from sightword.report.inputs import numbers, read_tsv, texts
from sightword.report.tables import Cell, Row, Table, quotes
from sightword.statistics.inference import pearson

PANELS = 8
"""The most data sets with a scatter plot."""
WORST = ("subtask", "gold", "score", "gold_rank", "score_rank", "first", "second")
"""The shown columns of ``worst.tsv``."""


class Panel(NamedTuple):
    """The scatter plot of a data set: the number of all its pairs, Pearson's r over them, and N drawn pairs.

    ``gold`` (N,) are human scores, ``score`` (N,) the encoder's cosines; ``seen`` (N,) is whether one of the
    sentences is known to be a training caption.
    """

    task: str
    pairs: int
    pearson: float | None
    gold: NDArray[np.float64]
    score: NDArray[np.float64]
    seen: NDArray[np.bool_]


class Bin(NamedTuple):
    """The pairs of one range ``by`` length or overlap; ``difference`` is the mean of ranks, as a share of the pairs."""

    by: str
    range: str
    pairs: int
    difference: float


class SentencePairs(NamedTuple):
    """All contents about sentence pairs; missing inputs give empty lists."""

    panels: list[Panel]
    others: int
    """The number of data sets beyond :data:`PANELS`."""
    worst: list[dict[str, str]]
    """Lines of ``worst.tsv`` by :data:`WORST`."""
    bins: list[Bin]
    systems: list[tuple[str, dict[str, Score]]]
    """Each subtask with the correlations of this encoder and of the systems in Figure 3 of Merkx & Frank (2019)."""


def read(data: Path, plots: Path, *, points: int, worst: int, with_published: bool) -> SentencePairs:
    """Read the results of the stage semantics: ``pairs.parquet`` and ``worst.tsv`` in ``data``, the rest in ``plots``.

    At most ``points`` points, over all data sets, and ``worst`` pairs are shown.

    Raises:
        FileFormatError: a file is damaged or of another form.
    """
    pairs = data / "pairs.parquet"
    table = read_pairs(pairs) if pairs.exists() else PairTable({})
    drawn, others = panels(table, points) if points else ([], 0)
    systems = _systems(plots / "systems.tsv") if with_published else []
    return SentencePairs(drawn, others, _worst(data / "worst.tsv")[:worst], _bins(plots / "breakdown.tsv"), systems)


def panels(table: PairTable, most: int) -> tuple[list[Panel], int]:
    """Return the scatter plots of the first :data:`PANELS` data sets, and the number of other data sets.

    A hash of data set, subtask and index selects the pairs to draw: ``most`` in all, evenly spread over the data sets;
    large sets get the rest of small ones.
    """
    tasks: dict[str, list[tuple[str, ScoredPairs]]] = {}
    for (task, subtask), pairs in table.subtasks.items():
        if subtask != TRAINED and len(pairs):
            tasks.setdefault(task, []).append((subtask, pairs))
    names = list(tasks)[:PANELS]
    left, shares = most, {}
    sizes = {name: sum(len(pairs) for _, pairs in tasks[name]) for name in names}
    for number, name in enumerate(sorted(names, key=sizes.__getitem__)):
        shares[name] = min(sizes[name], left // (len(names) - number))
        left -= shares[name]
    return [_panel(name, tasks[name], shares[name]) for name in names], len(tasks) - len(names)


def _panel(task: str, subtasks: Sequence[tuple[str, ScoredPairs]], most: int) -> Panel:
    gold, score = (np.concatenate([getattr(pairs, name) for _, pairs in subtasks]) for name in ("gold", "score"))
    seen = np.concatenate([seen_pairs(pairs) for _, pairs in subtasks])
    places = [f"{task}\n{subtask}\n{place}" for subtask, pairs in subtasks for place in range(len(pairs))]
    order = sorted(range(len(places)), key=lambda row: hashlib.sha256(places[row].encode()).digest())
    chosen = np.sort(np.array(order[:most], dtype=int))
    return Panel(task, len(gold), pearson(score, gold), gold[chosen], score[chosen], seen[chosen])


def seen_pairs(pairs: ScoredPairs) -> NDArray[np.bool_]:
    """Return whether a sentence of a pair is known to be a training caption, (N,)."""
    if pairs.first_seen is None or pairs.second_seen is None:
        return np.zeros(len(pairs), dtype=bool)
    return pairs.first_seen | pairs.second_seen


def _worst(path: Path) -> list[dict[str, str]]:
    columns = read_tsv(path)
    cells = [texts(columns, name, where=path) for name in WORST] if columns else []
    return [dict(zip(WORST, row, strict=True)) for row in zip(*cells, strict=True)]


def worst_table(worst: Sequence[Mapping[str, str]]) -> Table:
    """Return the table of the worst pairs."""
    rows = [
        Row(
            quotes(one["first"], one["second"]),
            [Cell(one[f"{name}_rank"], [one[name]]) for name in ("gold", "score")],
            detail=one["subtask"],
        )
        for one in worst
    ]
    return Table("Largest errors", ("sentences", "human rank", "encoder's rank"), rows, style="worst sortable")


def _bins(path: Path) -> list[Bin]:
    columns = read_tsv(path)
    if not columns:
        return []
    pairs, differences = (numbers(columns, name, where=path, blanks=True) for name in ("pairs", "rank_difference"))
    names = [name.partition(" ") for name in texts(columns, "name", where=path)]
    rows = zip(names, pairs, differences, strict=True)
    return [Bin(by, within, int(count), difference) for (by, _, within), count, difference in rows if count > 0]


def _systems(path: Path) -> list[tuple[str, dict[str, Score]]]:
    columns = read_tsv(path)
    if not columns:
        return []
    names, systems = (texts(columns, name, where=path) for name in ("name", "system"))
    values = [numbers(columns, name, where=path) for name in ("pearson", "lo", "hi")]
    wanted = {THIS, *(SYSTEMS[name] for name in DRAWN)}
    found: dict[str, dict[str, Score]] = {}
    for name, system, r, low, high in zip(names, systems, *values, strict=True):
        if system in wanted:
            found.setdefault(name, {})[system] = Score(r, low, high)
    return [(name, scores) for name, scores in found.items() if len(scores) > 1]
