"""The gains of pictures above counting: intervals over pairs, seeds and draws, weights by dev pairs, LSA."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from sightword.evaluation.semantics.relatedness import TfIdf
from sightword.evaluation.semantics.results import ScoredPairs
from sightword.statistics.inference import holm
from study.doses import FAMILY, FLOOR, LSA, System, at_each, correlations, counted, gain, judged, mixed, scores_of

PAIRS = 200
KEYS = (("STS12", "MSRvid"), ("STS13", "OnWN"), ("STSBenchmark", "cosine"))
DEV = ("STSBenchmark", "dev")
GOLD = {key: np.random.default_rng(place).normal(size=PAIRS) for place, key in enumerate((*KEYS, DEV))}
TEXTS = ["a dog", "way"] * (PAIRS // 2)
TESTS = {key: ScoredPairs(TEXTS, TEXTS, GOLD[key], GOLD[key], None, None) for key in KEYS}
NOISE = {"right": 0.6, "wrong": 1.2, "none": 1.5, "tf-idf": 1.0, "lsa": 1.1}


def scores() -> dict[System, dict[tuple[str, str], np.ndarray]]:
    """The scores of all kinds, people's with noise; by two doses, three draws, two seeds of a draw."""
    found = {}
    for place, (kind, noise) in enumerate(NOISE.items()):
        for pictures in (500, 2000):
            for draw in range(3):
                for seed in (2 * draw, 2 * draw + 1) if place < 3 else (-1,):
                    random = np.random.default_rng([place, pictures, seed + 1, draw])
                    own = {key: gold + noise * random.normal(size=PAIRS) for key, gold in GOLD.items()}
                    found[System(f"{kind} alone", pictures, 1, draw, seed)] = own
    return found


def r(one: np.ndarray, key: tuple[str, str]) -> float:
    return float(np.corrcoef(GOLD[key], one)[0, 1])


def test_gain_is_the_mean_over_seeds_doses_and_subtasks():
    every = scores()
    mixed(every, {DEV: GOLD[DEV]})
    found = scores_of(correlations(every, TESTS, ["news"] * PAIRS))
    by_draw = [
        [
            np.mean([r(0.6 * one[key] + 0.4 * floor[key], key) - r(floor[key], key) for key in KEYS[:2]])
            for pictures in (500, 2000)
            for floor in [every[System(FLOOR, pictures, 1, draw)]]
            for one in (every[System("right alone", pictures, 1, draw, seed)] for seed in (2 * draw, 2 * draw + 1))
        ]
        for draw in range(3)
    ]
    mean = found["note.gain.counting.1.sts"]
    assert mean.value == pytest.approx(np.mean(by_draw), abs=1e-6)
    assert mean.low > 0
    assert found["note.gain.counting.1.sts.captions"].value > 0
    assert found["note.gain.none-alone.500-1.STSBenchmark"].low > 0
    tests = [f"note.gain.{name}.1.{test}" for name in FAMILY for test in ("sts", "STSBenchmark")]
    assert {name for name in found if name.endswith(".corrected")} == {f"{name}.corrected" for name in tests}
    p = [found[f"{name}.p"].value for name in tests]
    assert [found[f"{name}.corrected"].value for name in tests] == pytest.approx(holm(p))


def test_benchmark_of_another_language_is_a_test_of_its_own():
    task, system = ("STSBenchmark-de", "cosine"), System("right alone", 500, 1, 0, 0)
    found = correlations({system: {task: GOLD[KEYS[0]]}}, {task: TESTS[KEYS[2]]}, [])
    assert [*found] == ["STSBenchmark-de"]


@pytest.mark.parametrize("spread", [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (1.0, 0.7, 1.2)])
def test_interval_covers_the_mean_of_known_variances(spread: tuple[float, float, float]):
    of_pairs, of_draws, of_seeds = spread
    random, inside = np.random.default_rng(0), 0
    for _ in range(1000):
        pairs = of_pairs * random.normal()  # what these pairs add to every gain, and what their resamples add to it
        again = of_pairs * random.normal(size=100)
        known = {}
        for draw in range(3):
            own = of_draws * random.normal()
            for seed in range(3):
                value = 5 + pairs + own + of_seeds * random.normal()
                known[System("right", 500, 1, draw, 3 * draw + seed)] = np.array([value, *(value + again)])
            known[System("floor", 500, 1, draw)] = np.zeros(101)
        score, _ = judged(gain(known, ("right", "floor"), [(500, 1)], 1))
        inside += score.low <= 5 <= score.high
    assert 0.93 < inside / 1000 < 0.98


def test_interval_of_draws_alone_is_that_of_student():
    values = np.array([0.001, 0.004, 0.002])
    score, p = judged(np.column_stack([values, np.full((3, 10), values.mean())]))
    known = ttest_1samp(values, 0)
    assert (score.low, score.high) == pytest.approx(tuple(known.confidence_interval()), abs=1e-6)
    assert p == pytest.approx(known.pvalue)


def test_dev_pairs_choose_the_weight_and_test_pairs_do_not():
    every, other = scores(), scores()
    for own in other.values():
        own[KEYS[2]] = -own[KEYS[2]]
    chosen = mixed(every, {DEV: GOLD[DEV]})
    assert mixed(other, {DEV: GOLD[DEV]}) == chosen

    def on_dev(weight: float) -> float:
        places = [
            (System("wrong alone", 500, 1, seed // 2, seed), System(FLOOR, 500, 1, seed // 2)) for seed in range(6)
        ]
        return sum(r(weight * every[one][DEV] + (1 - weight) * every[floor][DEV], DEV) for one, floor in places)

    assert chosen["wrong.500-1"] == max((number / 10 for number in range(11)), key=on_dev)
    assert 0 < chosen["wrong.500-1"] < 1


def test_lsa_is_the_decomposition_of_the_captions():
    captions = ["a dog runs", "the dog sleeps", "a man reads", "two men read a book", "a cat sleeps", "dogs run"]
    pairs = ScoredPairs(["a dog", "two men"], ["the dog runs", "a cat reads"], np.ones(2), np.ones(2), None, None)
    found = counted(captions, {DEV: pairs}, numbers=3)
    tfidf = TfIdf(captions)
    tfidf.prepare([*captions, *pairs.first, *pairs.second])
    rows, first, second = (tfidf.vectors(some).toarray() for some in (captions, pairs.first, pairs.second))
    basis = np.linalg.svd(rows / np.linalg.norm(rows, axis=1, keepdims=True))[2][:3]
    a, b = first @ basis.T, second @ basis.T
    cosines = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert found[LSA][DEV] == pytest.approx(cosines)
    assert found[FLOOR][DEV] == pytest.approx(tfidf.cosines(pairs.first, pairs.second))


def test_ends_of_the_amounts_stand_at_each_amount():
    known = {System("a alone", books, 5, 0, 0): np.array([books]) for books in (0, 11, 22, 89)}
    found = at_each(known)
    assert {one.pictures for one in found} == {11, 22, 89}
    for name, books in {"random-a": 0, "fewest-a": 11, "most-a": 89}.items():
        assert [found[System(f"{name} alone", place, 5, 0, 0)][0] for place in (11, 22, 89)] == [books] * 3
