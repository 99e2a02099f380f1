"""Published scores of all papers, as printed, each with its source, for comparison with a run."""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from sightword.errors import SemanticsError
from sightword.statistics.inference import fisher_interval, pearson

if TYPE_CHECKING:
    from sightword.evaluation.semantics.results import PairTable, ScoredPairs

_FILES = {
    "retrieval": "retrieval.csv",
    "semantics": "semantics.csv",
    "sentences": "sentences.csv",
    "structure": "structure.csv",
    "transfer": "transfer.csv",
    "hypernyms": "hypernyms.csv",
    "entailment": "entailment.csv",
}
"""The files beside this module, by what is judged; the first lines of each say what its numbers are."""


@dataclass(frozen=True)
class PublishedRow:
    """One system's scores on one test set."""

    system: str
    setting: str
    """The test set, subtask or protocol; empty where a file has one only."""
    source: str
    """The paper, after that of the system if this is another one."""
    table: str
    """The place in the paper, and what it is about; empty if unknown."""
    note: str
    """What to know before the row is compared; empty for nothing."""
    scores: Mapping[str, float]
    """By measure, misprinted ones corrected; a score that was not reported is missing."""

    @property
    def cited(self) -> str:
        """The source with the note, as pages print both."""
        return "; ".join(filter(None, (self.source, self.note)))


@functools.cache
def published(name: str) -> tuple[PublishedRow, ...]:
    """Return the rows of a key of :data:`_FILES`, such as ``retrieval``."""
    text = resources.files("sightword.evaluation.published").joinpath(_FILES[name]).read_text("utf-8")
    rows = []
    for cells in csv.DictReader(line for line in text.splitlines() if not line.startswith("#")):
        system, setting, source, table, note = (
            cells.pop(name) for name in ("system", "setting", "source", "table", "note")
        )
        numbers = {name: float(cell) for name, cell in cells.items() if cell and not name.startswith("misprinted ")}
        rows.append(PublishedRow(system, setting, source, table, note, numbers))
    return tuple(rows)


SOURCE = "Merkx & Frank 2019, supplement, Table 1"
"""Pearson's r with intervals."""

SYSTEMS = {
    "bow": "BOW (GloVe)",
    "infersent": "InferSent",
    "char-gru": "char-GRU (Flickr8k)",
    "char-gru-coco": "char-GRU (COCO)",
}
"""Each system's name in the files and on the command line, and its title for readers."""

Key = tuple[str, str]
"""Task and subtask, as in the metrics."""


@dataclass(frozen=True)
class Score:
    """A correlation with its 95 % interval, as fractions."""

    r: float
    low: float
    high: float


@dataclass(frozen=True)
class Subtask:
    """One line of the table."""

    task: str
    subtask: str
    """SentEval's file name; ``trained`` for STSBenchmark and SICKRelatedness."""
    pairs: int
    """The number of pairs with a gold score, which is not printed but counted in SentEval's files."""
    scores: dict[str, Score]
    """Scores by the names of :data:`SYSTEMS`, with intervals as printed."""


@functools.cache
def published_rows() -> tuple[Subtask, ...]:
    """Return the 26 rows, in the order of the table, with the intervals' ends rounded to the printed digits."""
    rows: dict[str, Subtask] = {}
    for line in published("semantics"):
        task, subtask = line.setting.split()
        row = rows.setdefault(line.setting, Subtask(task, subtask, int(line.scores["pairs"]), {}))
        r, up, down = (line.scores[name] for name in ("r", "up", "down"))
        row.scores[line.system] = Score(round(r / 100, 3), round((r - down) / 100, 3), round((r + up) / 100, 3))
    return tuple(rows.values())


def published_scores(system: str) -> dict[Key, Score]:
    """Return the 26 scores of one system of :data:`SYSTEMS`; raise SemanticsError for another name."""
    if system not in SYSTEMS:
        raise SemanticsError("no such published system", where=system, expected=f"one of {', '.join(SYSTEMS)}")
    return {(row.task, row.subtask): row.scores[system] for row in published_rows()}


def score_of(r: float | None, pairs: int) -> Score | None:
    """Return a correlation with Fisher's interval; None if either is undefined."""
    interval = None if r is None else fisher_interval(r, pairs)
    return None if r is None or interval is None else Score(r, *interval)


def check_numbers(key: Key, pairs: ScoredPairs) -> None:
    """Raise SemanticsError, with the pair counted from 1, if a gold score or a score is not finite."""
    for name, values in (("gold score", pairs.gold), ("score", pairs.score)):
        wrong = np.flatnonzero(~np.isfinite(values))
        if len(wrong):
            place = f"{' '.join(key)}, pair {wrong[0] + 1}"
            raise SemanticsError(f"the {name} is {values[wrong[0]]}", where=place, expected="a finite number")


def in_mean(key: Key) -> bool:
    """Return whether a row counts in the mean over STS: not STS Benchmark, whose pairs are of STS12 to STS16."""
    return key[0].startswith("STS") and not key[0].startswith("STSBenchmark")


def wins(a: Mapping[Key, Score], b: Mapping[Key, Score]) -> list[Key]:
    """Return the common rows on which A is better than B by the paper's rule: A's 95 % interval lies above B's r.

    The rule treats B's r as a fixed number and does not correct for the number of rows, so it finds differences too
    easily; with the scores of all pairs, use :func:`pipeline.comparison.correlations.compare` instead. All 26 rows (not
    the 24 of STS12-16 alone) give the paper's counts, but for Flickr8k over COCO: 6 in the paper, 5 here, because the
    lower end of STS15 belief, 0.66509, is printed as 0.665, which is COCO's r.
    """
    return [key for key, score in a.items() if key in b and score.low > b[key].r]


@dataclass(frozen=True)
class BesidePublished:
    """The published rows that A has, each with A's score and the published score, and the names of those left out."""

    rows: list[tuple[Subtask, Score, Score]]
    left_out: list[str]


def beside_published(a: PairTable, system: str) -> BesidePublished:
    """Compare a system's scores of all pairs with a published system of :data:`SYSTEMS`.

    SemanticsError if the name is unknown, no row is common, a subtask has another number of pairs than published, or a
    score is not finite.
    """
    known = published_scores(system)
    rows, left_out = [], []
    for row in published_rows():
        key = (row.task, row.subtask)
        name, pairs = " ".join(key), a.subtasks.get(key)
        if pairs is None:
            left_out.append(name)
            continue
        if len(pairs) != row.pairs:
            expected = f"the {row.pairs} of the published score"
            raise SemanticsError(f"has {len(pairs)} pairs", where=name, expected=expected)
        check_numbers(key, pairs)
        score = score_of(pearson(pairs.score, pairs.gold), len(pairs))
        if score is None:
            left_out.append(f"{name} (every pair has the same score)")
        else:
            rows.append((row, score, known[key]))
    if not rows:
        raise SemanticsError("the table has no score for any of the published rows")
    return BesidePublished(rows, left_out)
