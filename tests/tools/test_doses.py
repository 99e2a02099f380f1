"""The gains of the doses are differences of correlations; interval and equivalence are those of plain formulas."""

from __future__ import annotations

import numpy as np
import pytest

from sightword.evaluation.semantics.pair_table import PairTable, ScoredPairs
from tools.doses import OF_SWEEPS, gains

PAIRS = 300
KEYS = (("STS12", "a"), ("STS13", "b"), ("STSBenchmark", "cosine"))


def table(seed: int, noise: float) -> PairTable:
    """The scores of an encoder: people's, which all encoders share, with noise of its own."""
    found = {}
    for place, key in enumerate(KEYS):
        gold = np.random.default_rng(place).normal(size=PAIRS)
        score = gold + noise * np.random.default_rng([seed, place]).normal(size=PAIRS)
        found[key] = ScoredPairs(["a"] * PAIRS, ["b"] * PAIRS, gold, score, None, None)
    return PairTable(found)


def r(one: PairTable, key: tuple[str, str]) -> float:
    return float(np.corrcoef(one.subtasks[key].gold, one.subtasks[key].score)[0, 1])


def test_gain_is_the_mean_difference_over_seeds_doses_and_subtasks() -> None:
    tables = {(f"{pictures}-1", seed): table(10 + seed, 0.5) for pictures in (500, 1000) for seed in (0, 1)}
    tables |= {
        (f"{pictures}-1-captions-only", seed): table(20 + seed, 0.9) for pictures in (500, 1000) for seed in (0, 1)
    }
    tables["500-1-tf-idf", 0] = table(30, 0.5)
    found = gains(tables)
    differences = {
        key: np.array([r(table(10 + seed, 0.5), key) - r(table(20 + seed, 0.9), key) for seed in (0, 1)])
        for key in KEYS
    }
    benchmark = found["note.gain.none.500-1.STSBenchmark"]
    assert benchmark.value == pytest.approx(differences[KEYS[2]].mean(), abs=1e-6)
    assert found["note.gain.none.1.STSBenchmark"].value == benchmark.value  # both doses have the same scores here
    sts = (differences[KEYS[0]] + differences[KEYS[1]]).mean() / 2
    assert found["note.gain.none.500-1.sts"].value == pytest.approx(sts, abs=1e-6)
    assert benchmark.low > 0
    assert found["note.gain.none.500-1.STSBenchmark.equivalence"].value > 0.999
    beside = found["note.gain.floor.500-1.STSBenchmark"]
    assert beside.low < 0 < beside.high
    tables["500-2-captions-only", 0] = table(40, 0.1)
    assert gains(tables)["note.gain.paraphrase.500-1.STSBenchmark"].high < 0
    assert "note.gain.wrong.500-1.STSBenchmark" not in found


def test_interval_grows_by_the_variance_over_seeds_and_small_gains_are_equivalent() -> None:
    equal = {("2000-2", 0): table(1, 0.01), ("2000-2-captions-only", 0): table(2, 0.01)}
    found = gains(equal)["note.gain.none.2000-2.STSBenchmark.equivalence"]
    assert found.value < 0.001
    several = {("2000-2", seed): table(seed, 0.5) for seed in range(3)}
    several |= {("2000-2-captions-only", seed): table(seed, 0.5 + 0.4 * seed) for seed in range(3)}
    wide = gains(several)["note.gain.none.2000-2.STSBenchmark"]
    seeds = [r(table(seed, 0.5), KEYS[2]) - r(table(seed, 0.5 + 0.4 * seed), KEYS[2]) for seed in range(3)]
    assert (wide.high - wide.low) / 2 > 1.95 * np.std(seeds, ddof=1) / np.sqrt(3)


def test_experiments_with_equal_passes_are_left_out() -> None:
    names = [
        "doses-train_pictures500-none-seed0",
        "doses-floor-train_pictures500",
        "doses-passes-train_pictures500-none-seed0",
    ]
    assert [bool(OF_SWEEPS.match(name)) for name in names] == [True, True, False]
