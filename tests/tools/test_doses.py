"""The gains of the doses are differences of correlations; interval and equivalence are those of plain formulas."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from sightword.evaluation.semantics.pair_table import PairTable, ScoredPairs
from sightword.statistics.inference import holm
from tools.dose_gains import BOUND, Gain, scores_of, thirds
from tools.doses import SWEEPS

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


def test_gain_of_one_seed_has_the_interval_and_the_tests_of_the_normal_distribution() -> None:
    resamples = np.random.default_rng(0).normal(0.003, 0.002, (1, 100))
    found, error = Gain(np.array([0.003]), resamples).scores(), resamples.std(ddof=1)
    assert found[""].high == pytest.approx(0.003 + 1.959964 * error, abs=2e-6)
    assert found[".equivalence"].value == pytest.approx(1 - NormalDist().cdf(0.002 / error), abs=1e-6)


def test_interval_over_seeds_and_pairs_covers_the_true_gain_in_95_of_100_cases() -> None:
    random = np.random.default_rng(0)
    covered = 0
    for _ in range(2000):
        of_pairs = random.normal(0, 0.004)  # the pairs of the test set are the same for all seeds
        values = 0.01 + of_pairs + random.normal(0, 0.004, 3)
        one = Gain(values, values[:, None] + random.normal(0, 0.004, 200)).scores()[""]
        covered += one.low < 0.01 < one.high
    assert 0.94 < covered / 2000 < 0.975


def test_mean_over_doses_has_the_seeds_of_all_doses() -> None:
    tables = {("500-1", seed): table(10 + seed, 0.5) for seed in (0, 1)}
    tables |= {("500-1-captions-only", seed): table(20 + seed, 0.9) for seed in (0, 1)}
    tables |= {("1000-1", 0): table(10, 0.5), ("1000-1-captions-only", 0): table(20, 0.9)}
    found = scores_of(tables, {})
    assert found["note.gain.none.1.sts"] == found["note.gain.none.1000-1.sts"]
    assert found["note.gain.none.1.sts"] != found["note.gain.none.500-1.sts"]


def test_thirds_are_told_by_the_mean_rating_of_a_pair() -> None:
    first = ["a dog", "an idea", "the dog", "my idea", "it", "one dog of an idea"]
    pairs = ScoredPairs(first, ["dog", "idea", "dog", "idea", "is", "dog idea"], *2 * [np.zeros(6)], None, None)
    every = np.ones(6, bool)
    found = thirds(pairs, {"dog": 4.9, "idea": 1.6}, every)
    assert {name: [*np.flatnonzero(chosen)] for name, chosen in found.items()} == {
        "abstract": [1, 3],
        "middle": [5],
        "concrete": [0, 2],
    }
    assert thirds(pairs, {}, every) == {}
    among = thirds(pairs, {"dog": 4.9, "idea": 1.6}, np.arange(6) < 2)
    assert {name: [*np.flatnonzero(chosen)] for name, chosen in among.items() if chosen.any()} == {
        "abstract": [1],
        "concrete": [0],
    }


def test_rise_is_the_gain_of_the_third_with_concrete_words_above_that_of_abstract_ones() -> None:
    tables = {("500-1", 0): table(10, 0.5), ("500-1-captions-only", 0): table(20, 0.9)}
    ratings = {"dog": 5.0, "way": 3.0, "idea": 1.0}
    found = scores_of(tables, ratings)
    ours, theirs = (tables[name, 0].subtasks[KEYS[2]] for name in ("500-1", "500-1-captions-only"))
    ends = {}
    for name, word in (("concrete", "dog"), ("abstract", "idea")):
        chosen = np.array([one == word for one in ours.first])
        of_part = [float(np.corrcoef(one.gold[chosen], one.score[chosen])[0, 1]) for one in (ours, theirs)]
        ends[name] = of_part[0] - of_part[1]
        assert found[f"note.gain.none.500-1.STSBenchmark.{name}"].value == pytest.approx(ends[name], abs=1e-6)
    rise = found["note.gain.none.500-1.STSBenchmark.rise"]
    assert rise.value == pytest.approx(ends["concrete"] - ends["abstract"], abs=2e-6)


def test_gain_of_a_genre_has_its_pairs_and_thirds_are_of_captions() -> None:
    tables = {("500-1", 0): table(10, 0.5), ("500-1-captions-only", 0): table(20, 0.9)}
    genres = np.array(["captions"] * 210 + ["news"] * 90)
    found = scores_of(tables, {"dog": 5.0, "way": 3.0, "idea": 1.0}, genres.tolist())
    ours, theirs = (tables[name, 0].subtasks[KEYS[2]] for name in ("500-1", "500-1-captions-only"))
    words = np.array(ours.first)
    chosen = {"captions": genres == "captions", "news": genres == "news"}
    chosen["concrete"] = chosen["captions"] & (words == "dog")
    for name, part in chosen.items():
        a, b = (float(np.corrcoef(one.gold[part], one.score[part])[0, 1]) for one in (ours, theirs))
        assert found[f"note.gain.none.500-1.STSBenchmark.{name}"].value == pytest.approx(a - b, abs=1e-6)


def test_equivalence_of_means_over_doses_is_corrected_for_their_number() -> None:
    tables = {(f"500-{captions}", 0): table(10, 0.5) for captions in (1, 2, 5)}
    tables |= {(f"500-{captions}-captions-only", 0): table(20 + captions, 0.5) for captions in (1, 2, 5)}
    found = scores_of(tables, {})
    names = [name for name in found if name.endswith(".equivalence.corrected")]
    places = {f"note.gain.none.{captions}.{task}" for captions in (2, 5) for task in ("STSBenchmark", "sts")}
    assert {name.removesuffix(".equivalence.corrected") for name in names} == places
    plain = [found[name.removesuffix(".corrected")].value for name in names]
    assert [found[name].value for name in names] == holm(plain)


def test_gain_on_image_captions_is_that_of_their_subtasks() -> None:
    found = scores_of({("500-1", 0): table(10, 0.5), ("500-1-captions-only", 0): table(20, 0.9)}, {})
    for part, key in (("captions", KEYS[0]), ("others", KEYS[1])):
        difference = r(table(10, 0.5), key) - r(table(20, 0.9), key)
        assert found[f"note.gain.none.500-1.sts.{part}"].value == pytest.approx(difference, abs=1e-6)


def test_mean_over_doses_leaves_out_pictures_without_two_captions() -> None:
    doses = ("500-1", "500-2", "4000-1")
    tables = {(dose, 0): table(place, 0.5) for place, dose in enumerate(doses)}
    tables |= {(f"{dose}-captions-only", 0): table(10 + place, 0.9) for place, dose in enumerate(doses)}
    found = scores_of(tables, {})
    assert found["note.gain.none.1.sts"] == found["note.gain.none.500-1.sts"]


def test_sweeps_of_other_networks_or_steps_have_rows_of_their_own() -> None:
    names = ["doses-train_pictures500-none-seed0", "doses-floor-train_pictures500", "doses-passes-train_pictures500"]
    found = [SWEEPS.match(name) for name in [*names, "doses-gru-train_pictures500", "other"]]
    assert [one and one[1] for one in found] == ["", "", "passes-", "gru-", None]
