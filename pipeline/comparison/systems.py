"""Two systems' semantic scores side by side, with what chance may explain of their difference."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.comparison.bootstrap import Resampled, resampled, resampled_differences
from pipeline.comparison.dependent import Outcome, steiger, williams
from sightword.errors import FileFormatError, SemanticsError
from sightword.files import Pathish
from sightword.semantics.pair_table import PairTable, ScoredPairs
from sightword.semantics.published import Key, Score, check_numbers, in_mean, score_of
from sightword.statistics import holm, pearson

SAMPLES = 10_000
SEED = 0
LEVEL = 0.05
"""A corrected p below it makes one system the better one."""

FEWEST = 4
"""Fewer pairs have no interval and no test, and do not count in the mean."""

PAIRS = Path("data/semantics/pairs.parquet")
"""Where the stage semantics leaves the table in a project."""

Better = Literal["A", "B"] | None


def who_is_better(difference: float | None, p: float | None) -> Better:
    """Who is better beyond chance, by a difference A - B and its p after all corrections."""
    if p is None or p >= LEVEL or not difference:
        return None
    return "A" if difference > 0 else "B"


@dataclass(frozen=True)
class Row:
    """One subtask. What is not defined (a system that gives every pair the same score, too few pairs) is None."""

    task: str
    subtask: str
    pairs: int
    a: float | None
    """Pearson's r of A."""
    b: float | None
    a_score: Score | None
    """With Fisher's 95 % interval."""
    b_score: Score | None
    difference: float | None
    """``a - b``."""
    bootstrap: Resampled | None
    """Interval and p of the difference by resampling pairs."""
    williams: Outcome | None
    steiger: Outcome | None
    holm: float | None
    """The bootstrap's p, corrected over all rows: the other tests take scores for normal, which they are not."""

    @property
    def better(self) -> Better:
        """Whose correlation is higher beyond chance: by ``holm`` and :data:`LEVEL`."""
        return who_is_better(self.difference, self.holm)


@dataclass(frozen=True)
class Mean:
    """Over the subtasks of the STS tasks that have four pairs or more, each counted once."""

    subtasks: int
    a: float
    b: float
    difference: float
    bootstrap: Resampled | None
    """Pairs are resampled within each subtask; the subtasks stay the same."""


@dataclass(frozen=True)
class Comparison:
    """What comparing two systems gave."""

    rows: list[Row]
    """The subtasks that both have, in the order of A."""
    mean: Mean | None
    """None with fewer than two such subtasks, or where one of them has no difference."""
    left_out: list[str]
    """Subtasks that one table lacks, each with whose it is."""
    unknown: list[str]
    """Of the unseen pairs only: which systems do not tell their training captions."""
    samples: int
    """How often pairs were resampled."""


def pairs_file(place: Pathish) -> Path:
    """The table of pairs that a person means: a file, a project (with ``data/semantics/pairs.parquet``), or the folder
    that it lies in.

    Raises:
        FileFormatError: a folder without one.
    """
    path = Path(place)
    if not path.is_dir():
        return path
    for found in (path / PAIRS, path / PAIRS.name):
        if found.exists():
            return found
    raise FileFormatError(
        f"holds no {PAIRS}", where=path, todo="The stage semantics makes it: dvc repro semantics in that project."
    )


def compare(
    a: PairTable, b: PairTable, *, unseen: bool = False, samples: int = SAMPLES, seed: int = SEED
) -> Comparison:
    """Compare two systems that were judged on the same pairs.

    Args:
        a: the pairs of system A.
        b: those of B, the same sentences and gold scores in the same order wherever both have a subtask.
        unseen: only pairs of which neither sentence is a training caption of A or of B.
        samples: resamples of the bootstrap.
        seed: of its draws; a subtask's depend on its name and the seed alone.

    Raises:
        SemanticsError: pairs or gold scores that differ (with subtask and pair), scores that are not finite, no
            subtask in common, or ``unseen`` without any training captions.
    """
    if not a.subtasks.keys() & b.subtasks.keys():
        raise SemanticsError("the two tables have no subtask in common")
    keys = [key for key in a.subtasks if key in b.subtasks]
    for key in keys:
        check_numbers(key, a.subtasks[key])
        check_numbers(key, b.subtasks[key])
        _same_pairs(key, a.subtasks[key], b.subtasks[key])
    known = [name for name, table in (("A", a), ("B", b)) if _known(table, keys)]
    if unseen and not known:
        raise SemanticsError(
            "neither table tells which sentences were seen in training", todo="Judge with training captions."
        )
    rows, differences = [], []
    for key in keys:
        tables = (a.subtasks[key], b.subtasks[key])
        chosen = unseen_pairs(*tables) if unseen else np.ones(len(tables[0]), np.bool_)
        gold, x, y = tables[0].gold[chosen], tables[0].score[chosen], tables[1].score[chosen]
        row, resamples = _row(key, gold, x, y, samples, seed)
        rows.append(row)
        if in_mean(key) and len(gold) >= FEWEST:
            differences.append((row, resamples))
    return Comparison(
        _corrected(rows),
        _mean(differences),
        [f"{' '.join(key)} (only in A)" for key in a.subtasks if key not in b.subtasks]
        + [f"{' '.join(key)} (only in B)" for key in b.subtasks if key not in a.subtasks],
        [name for name in ("A", "B") if name not in known] if unseen else [],
        samples,
    )


def _same_pairs(key: Key, a: ScoredPairs, b: ScoredPairs) -> None:
    for number, (x, y) in enumerate(itertools.zip_longest(_texts(a), _texts(b)), start=1):
        if x != y:
            raise SemanticsError(
                f"the tables are of other pairs: {_shown(x)} in A, {_shown(y)} in B",
                where=f"{' '.join(key)}, pair {number}",
                expected="the same sentences and gold scores in the same order",
                todo="Judge both systems on the same files.",
            )


def _texts(pairs: ScoredPairs) -> Sequence[tuple[str, str, float]]:
    return list(zip(pairs.first, pairs.second, pairs.gold.tolist(), strict=True))


def _shown(pair: tuple[str, str, float] | None) -> str:
    return "none" if pair is None else f"{pair[0]!r} and {pair[1]!r} with gold score {pair[2]:g}"


def _known(table: PairTable, keys: Sequence[Key]) -> bool:
    return all(table.subtasks[key].first_seen is not None for key in keys)


def unseen_pairs(a: ScoredPairs, b: ScoredPairs) -> NDArray[np.bool_]:
    """Of which pairs neither sentence is known to be a training caption of A or of B. (N,)."""
    seen = np.zeros(len(a), np.bool_)
    for table in (a, b):
        if table.first_seen is not None and table.second_seen is not None:
            seen |= table.first_seen | table.second_seen
    return ~seen


def _row(
    key: Key, gold: NDArray[np.float64], x: NDArray[np.float64], y: NDArray[np.float64], samples: int, seed: int
) -> tuple[Row, NDArray[np.float64] | None]:
    """A row without correction, and its resampled differences."""
    count = len(gold)
    r_a, r_b, r_ab = pearson(x, gold), pearson(y, gold), pearson(x, y)
    a_score, b_score = score_of(r_a, count), score_of(r_b, count)
    if r_a is None or r_b is None or r_ab is None:
        return Row(*key, count, r_a, r_b, a_score, b_score, None, None, None, None, None), None
    resamples = resampled_differences(gold, x, y, samples=samples, seed=seed, name="\t".join(key))
    return Row(
        *key,
        count,
        r_a,
        r_b,
        a_score,
        b_score,
        r_a - r_b,
        resampled(resamples) if count >= FEWEST else None,
        williams(r_a, r_b, r_ab, count),
        steiger(r_a, r_b, r_ab, count),
        None,
    ), resamples


def _corrected(rows: Sequence[Row]) -> list[Row]:
    corrected = iter(holm([row.bootstrap.p for row in rows if row.bootstrap is not None]))
    return [replace(row, holm=None if row.bootstrap is None else next(corrected)) for row in rows]


def _mean(parts: Sequence[tuple[Row, NDArray[np.float64] | None]]) -> Mean | None:
    a = [row.a for row, _ in parts if row.a is not None]
    b = [row.b for row, _ in parts if row.b is not None]
    resamples = [resample for _, resample in parts if resample is not None]
    if len(parts) < 2 or len(resamples) < len(parts):
        return None
    mean_a, mean_b = float(np.mean(a)), float(np.mean(b))
    return Mean(len(parts), mean_a, mean_b, mean_a - mean_b, resampled(np.mean(resamples, axis=0)))
