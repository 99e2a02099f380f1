"""Published semantic scores, and the rule by which their authors count who is better.

Merkx & Frank 2019 (Natural Language Engineering 25(4), 451-466), supplement, Table 1: Pearson's r with its 95 %
interval on the 24 subtasks of STS12-16 by the cosine, on STS Benchmark and SICK relatedness by SentEval's trained head.
Their intervals are Fisher's; :func:`sightword.statistics.fisher_interval` gives all 104 back to the printed digit from
the rounded r and the number of pairs.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from sightword.errors import SemanticsError
from sightword.statistics import fisher_interval, pearson

if TYPE_CHECKING:
    from sightword.semantics.pair_table import PairTable, ScoredPairs

SOURCE = "Merkx & Frank 2019, supplement, Table 1"

SYSTEMS = {
    "bow": "BOW (GloVe)",
    "infersent": "InferSent",
    "char-gru": "char-GRU (Flickr8k)",
    "char-gru-coco": "char-GRU (COCO)",
}
"""What each system is called in the files and on the command line, and what it is called for readers."""

Key = tuple[str, str]
"""Task and subtask, as in the metrics."""


@dataclass(frozen=True)
class Score:
    """A correlation with its 95 % interval, as fractions."""

    r: float
    low: float
    high: float


@dataclass(frozen=True)
class PublishedRow:
    """One line of the table."""

    task: str
    subtask: str
    """SentEval's file name; ``trained`` for STSBenchmark and SICKRelatedness."""
    pairs: int
    """How many pairs have a gold score: not printed there, counted in SentEval's files."""
    scores: Mapping[str, Score]
    """By the names of :data:`SYSTEMS`, intervals as printed."""


@functools.cache
def published_rows() -> tuple[PublishedRow, ...]:
    """The 26 rows, in the order of the table."""
    text = resources.files("sightword.semantics").joinpath("published.csv").read_text("utf-8")
    lines = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return tuple(
        PublishedRow(
            line["task"], line["subtask"], int(line["pairs"]), {system: _printed(line, system) for system in SYSTEMS}
        )
        for line in lines
    )


def published_scores(system: str) -> dict[Key, Score]:
    """The 26 scores of one system, with their printed intervals.

    Args:
        system: a name of :data:`SYSTEMS`.

    Raises:
        SemanticsError: there is no such system.
    """
    if system not in SYSTEMS:
        raise SemanticsError("no such published system", where=system, expected=f"one of {', '.join(SYSTEMS)}")
    return {(row.task, row.subtask): row.scores[system] for row in published_rows()}


def score_of(r: float | None, pairs: int) -> Score | None:
    """A correlation with Fisher's interval; None where either is not defined (see :mod:`sightword.statistics`)."""
    interval = None if r is None else fisher_interval(r, pairs)
    return None if r is None or interval is None else Score(r, *interval)


def check_numbers(key: Key, pairs: ScoredPairs) -> None:
    """See that a table, which anyone may have made, holds numbers.

    Raises:
        SemanticsError: a gold score or a score is not finite; with the pair, counted from 1.
    """
    for name, values in (("gold score", pairs.gold), ("score", pairs.score)):
        wrong = np.flatnonzero(~np.isfinite(values))
        if len(wrong):
            raise SemanticsError(
                f"the {name} is {values[wrong[0]]}",
                where=f"{' '.join(key)}, pair {wrong[0] + 1}",
                expected="a finite number",
            )


def in_mean(key: Key) -> bool:
    """Whether a row counts in the mean over STS.

    STS12 to STS16 and sets of one's own do; STS Benchmark, which is drawn from those, and SICK do not.
    """
    return key[0] not in ("STSBenchmark", "SICKRelatedness")


def wins(a: Mapping[Key, Score], b: Mapping[Key, Score]) -> list[Key]:
    """The rows on which A is better than B by the paper's rule: A's 95 % interval lies above B's r.

    The rule takes B's r for a fixed number and does not correct for the number of rows, so it finds a difference too
    easily; it is here to set a system beside the published counts. Where the scores of all pairs are known,
    :func:`pipeline.comparison.systems.compare` is the better judge.

    All 26 rows make the paper's counts (the 24 of STS12-16 alone do not): char-GRU over BOW 20, InferSent over BOW 22,
    InferSent over char-GRU 7 and the reverse 3, COCO over Flickr8k 3. These are the same from printed intervals and
    from those that Fisher's z gives for the rounded r. Flickr8k over COCO, which the paper counts as 6, is 5 from
    printed intervals and 6 from recomputed ones: on STS15 belief the lower end, 0.66509, is printed as 0.665, which
    is COCO's r.

    Args:
        a: scores by task and subtask.
        b: likewise; rows that only one of them has do not count.

    Returns:
        The rows, in the order of A; how many they are is the paper's count.
    """
    return [key for key, score in a.items() if key in b and score.low > b[key].r]


@dataclass(frozen=True)
class BesidePublished:
    """A system beside a published one, of which no more than the correlations is known."""

    rows: list[tuple[PublishedRow, Score, Score]]
    """Each published row that A has, with the score of A and the published one."""
    left_out: list[str]
    """Published rows that A has no score for."""


def beside_published(a: PairTable, system: str) -> BesidePublished:
    """Set a system beside a published one.

    Args:
        a: what the system says of all pairs.
        system: a name of :data:`SYSTEMS`.

    Raises:
        SemanticsError: no such system, no row in common, a subtask with another number of pairs than published, or a
            score that is not finite.
    """
    published = published_scores(system)
    rows, left_out = [], []
    for row in published_rows():
        key = (row.task, row.subtask)
        pairs = a.subtasks.get(key)
        if pairs is None:
            left_out.append(" ".join(key))
            continue
        if len(pairs) != row.pairs:
            raise SemanticsError(
                f"has {len(pairs)} pairs", where=" ".join(key), expected=f"the {row.pairs} of the published score"
            )
        check_numbers(key, pairs)
        score = score_of(pearson(pairs.score, pairs.gold), len(pairs))
        if score is None:
            left_out.append(f"{' '.join(key)} (every pair has the same score)")
        else:
            rows.append((row, score, published[key]))
    if not rows:
        raise SemanticsError("the table has no score for any of the published rows")
    return BesidePublished(rows, left_out)


def _printed(line: Mapping[str, str], system: str) -> Score:
    """Ends rounded to the digits there are, so that equal numbers are equal."""
    r, up, down = (float(line[name]) for name in (system, f"{system} up", f"{system} down"))
    return Score(round(r / 100, 3), round((r - down) / 100, 3), round((r + up) / 100, 3))
