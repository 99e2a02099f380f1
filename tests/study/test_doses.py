"""The gains of the doses are differences of correlations; interval and equivalence are those of plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from sightword.evaluation.semantics.results import PairTable, ScoredPairs
from study.doses import BOUND, Gain, scores_of

PAIRS = 300
KEYS = (("STS12", "MSRvid"), ("STS13", "b"), ("STSBenchmark", "cosine"))


def table(seed: int, noise: float) -> PairTable:
    """The scores of an encoder: people's, which all encoders share, with noise of its own."""
    found = {}
    for place, key in enumerate(KEYS):
        gold = np.random.default_rng(place).normal(size=PAIRS)
        score = gold + noise * np.random.default_rng([seed, place]).normal(size=PAIRS)
        words = ["dog", "way", "idea"] * (PAIRS // 3)
        found[key] = ScoredPairs(words, words, gold, score, None, None)
    return PairTable(found)


def r(one: PairTable, key: tuple[str, str]) -> float:
    return float(np.corrcoef(one.subtasks[key].gold, one.subtasks[key].score)[0, 1])


def test_gain_is_the_mean_difference_over_seeds_doses_and_subtasks() -> None:
    tables = {(f"{pictures}-1", seed): table(10 + seed, 0.5) for pictures in (500, 1000) for seed in (0, 1)}
    tables |= {
        (f"{pictures}-1-captions-only", seed): table(20 + seed, 0.9) for pictures in (500, 1000) for seed in (0, 1)
    }
    tables["500-1-tf-idf", 0] = table(30, 0.5)
    found = scores_of(tables, {})
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
    assert found["note.gain.none.500-1.STSBenchmark.equivalence"].value > 0.99
    beside = found["note.gain.floor.500-1.STSBenchmark"]
    assert beside.low < 0 < beside.high
    tables["500-2-captions-only", 0] = table(40, 0.1)
    assert scores_of(tables, {})["note.gain.paraphrase.500-1.STSBenchmark"].high < 0
    assert "note.gain.wrong.500-1.STSBenchmark" not in found


def test_gain_over_seeds_has_the_interval_and_the_tests_of_student() -> None:
    values = np.array([0.001, 0.004, 0.002])
    found = Gain(values, np.full((3, 10), values.mean())).scores()  # no variance over pairs
    ends = ttest_1samp(values, 0).confidence_interval()
    assert (found[""].low, found[""].high) == (pytest.approx(ends.low, abs=1e-6), pytest.approx(ends.high, abs=1e-6))
    sides = ttest_1samp(values, BOUND, alternative="less"), ttest_1samp(values, -BOUND, alternative="greater")
    assert found[".equivalence"].value == pytest.approx(max(one.pvalue for one in sides), abs=1e-6)
