"""Two systems' semantic scores on the same pairs, and whether their difference may be chance."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from sightword.errors import FileFormatError, SemanticsError
from sightword.evaluation.published import Key, Score, check_numbers, in_mean, score_of
from sightword.evaluation.semantics.results import PairTable, ScoredPairs
from sightword.io.files import Pathish
from sightword.statistics.bootstrap import Doubles, Resampled, pearson_differences, resampled
from sightword.statistics.inference import holm, pearson

SAMPLES = 10_000
SEED = 0
LEVEL = 0.05
"""With a corrected p below it, one system is better."""
FEWEST = 4
"""Fewer pairs have no interval and no test, and do not count in the mean."""
PAIRS = Path("data/semantics/pairs.parquet")
"""The table of pairs in a project, written by the stage semantics."""

Better = Literal["A", "B", "equal"] | None


def who_is_better(difference: float | None, p: float | None) -> Better:
    """Return the system that is better beyond chance, by a difference A - B and its p after all corrections.

    Systems without any difference are ``equal``; None stands for a difference that could be chance.
    """
    if difference == 0:
        return "equal"
    if p is None or p >= LEVEL or not difference:
        return None
    return "A" if difference > 0 else "B"


@dataclass(frozen=True)
class Row:
    """One subtask; None for undefined values (a system with one score for every pair, too few pairs)."""

    task: str
    subtask: str
    pairs: int
    a: float | None
    """Pearson's r of A."""
    b: float | None
    a_score: Score | None
    """``a`` with Fisher's 95 % interval."""
    b_score: Score | None
    difference: float | None = None
    """``a - b``."""
    bootstrap: Resampled | None = None
    """Interval and p of the difference by resampling pairs."""
    holm: float | None = None
    """The bootstrap's p, corrected over all rows."""

    @property
    def better(self) -> Better:
        """The system whose correlation is higher beyond chance: by ``holm`` and :data:`LEVEL`."""
        return who_is_better(self.difference, self.holm)


class Mean(NamedTuple):
    """The mean over the subtasks of the STS tasks with four pairs or more, each counted once."""

    subtasks: int
    a: float
    b: float
    difference: float
    bootstrap: Resampled | None
    """Pairs are resampled within each subtask; the subtasks stay the same."""


class Comparison(NamedTuple):
    """The comparison of two systems."""

    rows: list[Row]
    """The subtasks that both have, in the order of A."""
    mean: Mean | None
    """None with fewer than two of these subtasks, or if one of them has no difference."""
    left_out: list[str]
    """The subtasks that only one table has, each with the name of that table."""
    samples: int


def pairs_file(place: Pathish) -> Path:
    """Return the table of pairs: a file itself, or the table in a project or in a folder.

    Raises:
        FileFormatError: the folder has no table.
    """
    path = Path(place)
    if not path.is_dir():
        return path
    for file in (path / PAIRS, path / PAIRS.name):
        if file.exists():
            return file
    raise FileFormatError(
        f"holds no {PAIRS}", where=path, todo="The stage semantics makes it: dvc repro semantics in that project."
    )


def compare(a: PairTable, b: PairTable, *, samples: int = SAMPLES, seed: int = SEED) -> Comparison:
    """Compare two systems on the same pairs.

    Args:
        a: the pairs of system A.
        b: the pairs of system B; in each common subtask, the same sentences and gold scores in the same order.
        samples: the number of resamples.
        seed: the seed of their draws; the draws of a subtask depend on its name and the seed alone.

    Raises:
        SemanticsError: pairs or gold scores differ (with subtask and pair), scores are not finite, or there is no
            common subtask.
    """
    keys = [key for key in a.subtasks if key in b.subtasks]
    if not keys:
        raise SemanticsError("the two tables have no subtask in common")
    for key in keys:
        check_numbers(key, a.subtasks[key])
        check_numbers(key, b.subtasks[key])
        _check_pairs(key, a.subtasks[key], b.subtasks[key])
    rows, parts = [], []
    for key in keys:
        ours, theirs = a.subtasks[key], b.subtasks[key]
        row, differences = _row(key, ours.gold, ours.score, theirs.score, samples, seed)
        rows.append(row)
        if in_mean(key) and row.pairs >= FEWEST:
            parts.append((row, differences))
    corrected = iter(holm([row.bootstrap.p for row in rows if row.bootstrap is not None]))
    return Comparison(
        [row if row.bootstrap is None else replace(row, holm=next(corrected)) for row in rows],
        _mean(parts),
        [f"{' '.join(key)} (only in A)" for key in a.subtasks if key not in b.subtasks]
        + [f"{' '.join(key)} (only in B)" for key in b.subtasks if key not in a.subtasks],
        samples,
    )


def _check_pairs(key: Key, a: ScoredPairs, b: ScoredPairs) -> None:
    texts = (zip(one.first, one.second, one.gold.tolist(), strict=True) for one in (a, b))
    for number, (x, y) in enumerate(itertools.zip_longest(*texts), start=1):
        if x != y:
            raise SemanticsError(
                f"the tables are of other pairs: {_shown(x)} in A, {_shown(y)} in B",
                where=f"{' '.join(key)}, pair {number}",
                expected="the same sentences and gold scores in the same order",
                todo="Judge both systems on the same files.",
            )


def _shown(pair: tuple[str, str, float] | None) -> str:
    return "none" if pair is None else f"{pair[0]!r} and {pair[1]!r} with gold score {pair[2]:g}"


def _row(key: Key, gold: Doubles, x: Doubles, y: Doubles, samples: int, seed: int) -> tuple[Row, Doubles | None]:
    """Return a row without correction, and its resampled differences."""
    count = len(gold)
    r_a, r_b, r_ab = pearson(x, gold), pearson(y, gold), pearson(x, y)
    row = Row(*key, count, r_a, r_b, score_of(r_a, count), score_of(r_b, count))
    if r_a is None or r_b is None or r_ab is None:
        return row, None
    differences = pearson_differences(gold, x, y, samples=samples, seed=seed, name="\t".join(key))
    bootstrap = resampled(differences) if count >= FEWEST else None
    return replace(row, difference=r_a - r_b, bootstrap=bootstrap), differences


def _mean(parts: Sequence[tuple[Row, Doubles | None]]) -> Mean | None:
    differences = [one for _, one in parts if one is not None]
    if len(parts) < 2 or len(differences) < len(parts):
        return None
    a, b = (float(np.mean(values)) for values in zip(*((row.a, row.b) for row, _ in parts), strict=True))
    return Mean(len(parts), a, b, a - b, resampled(np.mean(differences, axis=0)))
