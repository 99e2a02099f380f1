"""Paired tests and tables of scenarios against plain computations, and the published tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from sightword.evaluation.published import published
from sightword.grounded.comparing import Results, compare, gains, structure_table, summary, transfer_table
from sightword.grounded.judging.settings import TRANSFER
from sightword.statistics.bootstrap import resampled_spearman

PAIRS, PICTURES = 120, 200


def run(scenario, seed, *, noise, shift=0.0, transfer=True):
    """A run whose scores are people's with noise; the resamples of the structure are shared but for a shift."""
    random = np.random.default_rng([1, seed])
    gold = np.random.default_rng(0).integers(0, 26, PAIRS) / 5
    score = gold + noise * random.standard_normal(PAIRS)
    genres = np.repeat(["captions", "news", "forums"], PAIRS // 3)
    related = pd.DataFrame({"space": "grounded", "task": "STSBenchmark", "subtask": "cosine", "genre": genres,
                            "pair": np.arange(PAIRS) + 1, "gold": gold, "score": score, "centred": score,
                            "concreteness": np.linspace(1, 5, PAIRS), "seen": False})  # fmt: skip
    drawn = 0.1 + 0.02 * np.random.default_rng(5).standard_normal(PICTURES) + shift
    structure = pd.DataFrame({"space": "grounded", "split": "dev", "resample": np.arange(PICTURES) + 1}
                             | dict.fromkeys(("mnno", "rho_vis", "c_inter", "c_intra"), drawn))  # fmt: skip
    right = np.random.default_rng(7).random(PAIRS) < (0.6 + shift)
    places, tasks = np.tile(np.arange(PAIRS) + 1, 2), np.repeat(["MR", "MRPC"], PAIRS)
    other = np.arange(PAIRS) < 0.7 * PAIRS
    examples = pd.DataFrame(
        {
            "space": "sentence",
            "task": tasks,
            "example": places,
            "first": places,
            "right": np.concatenate([right, other]),
        }
    )
    values = dict.fromkeys(("mnno", "rho_vis", "c_inter", "c_intra"), 0.1 + shift)
    rho = {genre: {"spearman": float(spearmanr(gold[genres == genre], score[genres == genre])[0])}
           for genre in ("captions", "news", "forums")}  # fmt: skip
    benchmark = {"all": {"spearman": float(spearmanr(gold, score)[0])}} | rho
    space = {"structure": {"dev": values | {"pictures": 9, "captions": 18, "k": 2}},
             "relatedness": {"STSBenchmark": benchmark}}  # fmt: skip
    space["centred"] = {"structure": space["structure"], "relatedness": space["relatedness"]}
    entry = {"MR": {"accuracy": 100 * right.mean()}, "MRPC": {"accuracy": 70.0, "f1": 80.0}}
    other = space | ({"transfer": entry} if transfer else {})
    metrics = {"judged": "grounded", "spaces": {"sentence": other, "grounded": space}}
    return Results(scenario, seed, metrics, {"relatedness": related, "structure": structure, "transfer": examples})


@pytest.fixture(scope="module")
def scenarios():
    return {
        "t": [run("t", 0, noise=3.0), run("t", 1, noise=3.0)],
        "cg": [run("cg", 0, noise=1.0, shift=0.05), run("cg", 1, noise=1.5, shift=0.05)],
        "same": [run("same", 0, noise=3.0), run("same", 1, noise=3.0)],
    }


def test_a_clear_difference_is_found_and_equal_scenarios_do_not_differ(scenarios):
    tests = {(test.scenario, test.key): test for test in compare(scenarios, "t", resamples=300)}
    better = tests["cg", "stsb"]
    assert better.low > 0
    assert better.holm < 0.01
    assert better.low <= better.difference <= better.high
    same = tests["same", "stsb"]
    assert (same.difference, same.low, same.high, same.p) == (0.0, 0.0, 0.0, 1.0)
    assert tests["cg", "mnno"].difference == pytest.approx(0.05)
    assert tests["cg", "mnno"].p == 0.0  # resamples are paired: each has the same difference
    assert tests["cg", "MR"].low is None
    assert tests["cg", "MR"].p > 0
    assert not any(scenario == "t" or key == "sick" for scenario, key in tests)
    assert all(test.holm >= test.p for test in tests.values())


def test_examples_with_one_first_sentence_count_together(scenarios):
    found = []
    for first in (np.arange(PAIRS) // 3, np.arange(PAIRS)):
        pair = {name: [run(name, 0, noise=1.0, shift=shift)] for name, shift in (("t", 0.0), ("cg", 0.2))}
        for (one,) in pair.values():
            table = one.tables["transfer"]
            table["first"] = np.tile(first, 2)
            mr = table["task"] == "MR"
            table.loc[mr, "right"] = np.repeat(table.loc[mr, "right"].to_numpy()[::3], 3)
        tests = compare(pair, "t", resamples=20)
        (test,) = [test for test in tests if test.key == "MR"]
        (cell,) = [row.cells["MR"] for row in transfer_table(pair, tests) if row.name == "cg"]
        found.append((test.p, cell.high - cell.low))
    assert found[0][0] > found[1][0]
    assert found[0][1] == pytest.approx(found[1][1] * np.sqrt(3), rel=0.02)


def test_the_p_of_a_bootstrap_is_that_of_many_resamples(scenarios):
    """With p near 0.05, the normal distribution and the share of resamples beyond 0 agree."""
    pair = {"t": [run("t", 0, noise=2.0)], "cg": [run("cg", 3, noise=1.6)]}
    test = next(test for test in compare(pair, "t", resamples=4000) if test.key == "stsb")
    gold = pair["t"][0].pairs("stsb")["gold"].to_numpy()
    scores = np.array([runs[0].pairs("stsb")["score"] for runs in pair.values()])
    base, own = resampled_spearman(gold, scores, samples=4000, seed=9)
    assert test.p == pytest.approx(2 * min((own <= base).mean(), (own >= base).mean()), abs=0.05)


def test_the_summary_has_means_and_deviations_over_seeds(scenarios):
    found = summary(scenarios)
    values = [run.score("stsb") for run in scenarios["cg"]]
    assert found["cg.stsb"] == pytest.approx(np.mean(values), abs=1e-6)
    assert found["cg.stsb_sd"] == pytest.approx(np.std(values, ddof=1), abs=1e-6)
    assert found["cg.mnno"] == pytest.approx(0.15)
    assert found["cg.transfer_mean"] == pytest.approx((scenarios["cg"][0].score("MR") + 70) / 2, abs=1e-6)
    assert "cg.sick" not in found
    assert not any(key.endswith("_sd") for key in summary({"t": scenarios["t"][:1]}))
    untrained = [run("t", 0, noise=1.0), run("t", 0, noise=1.0)]  # every seed has the same encoder
    assert not any(key.endswith("_sd") for key in summary({"t": untrained}))
    assert structure_table({"t": untrained}, [])[0].cells["stsb"].sd is None


def test_gains_are_larger_where_the_scenario_is_better(scenarios):
    """The scenario has people's ranks on concrete pairs, the baseline's on the others."""
    base = run("t", 0, noise=3.0)
    better = run("cg", 0, noise=3.0)
    related = better.tables["relatedness"]
    concrete = related["concreteness"] > 3
    related.loc[concrete, "score"] = related.loc[concrete, "gold"]
    (gain,) = gains({"t": [base], "cg": [better]}, "t")
    assert gain.low > 0.1
    assert gain.pairs == PAIRS
    related["concreteness"] = np.nan
    assert gains({"t": [base], "cg": [better]}, "t") == []


def test_tables_have_intervals_deviations_and_tests(scenarios):
    tests = compare(scenarios, "t", resamples=100)
    rows = structure_table(scenarios, tests)
    kinds = [(row.kind, row.name, row.detail) for row in rows[:3]]
    assert kinds == [("judged", "t", "grounded"), ("space", "t", "sentence"), ("centred", "t", "grounded")]
    cell = next(row for row in rows if row.name == "cg" and row.kind == "judged").cells["stsb"]
    assert cell.low < cell.value < cell.high
    assert cell.sd > 0
    assert "sick" not in rows[0].cells
    own = transfer_table(scenarios, tests)[0].cells["MR"]
    assert own.high - own.value == pytest.approx(98 * np.sqrt(own.value * (100 - own.value)) / 50 / np.sqrt(PAIRS - 1))
    without = {"t": [run("t", 0, noise=1.0, transfer=False)]}
    assert transfer_table(without, []) == []


def test_the_means_of_table_3_are_those_of_its_accuracies_but_for_two():
    for row in published("transfer"):
        mean = np.mean([row.scores[task] for task in TRANSFER])
        assert row.scores["transfer_mean"] == pytest.approx(mean, abs=0.0501)
    means = {row.system: row.scores["transfer_mean"] for row in published("transfer")}
    assert (means["GS-Cap"], means["T + CM"]) == (78.9, 81.2)  # printed as 78.4 and 81.1
    assert len(published("transfer")) == 13
