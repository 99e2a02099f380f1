from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sightword.statistics.inference import (
    clustered_half_width,
    clustered_interval,
    fisher_interval,
    holm,
    interval_ends,
    interval_text,
    mcnemar,
    mean_ranks,
    pearson,
    proportion_interval,
    rounded,
    spearman,
    with_interval,
)

numbers = st.lists(st.integers(-5, 5), min_size=3, max_size=40)


@pytest.mark.parametrize(("percent", "queries", "half"), [(27.5, 5000, 1.2), (38.5, 1000, 3.0)])
def test_proportion_interval_published_recall_has_the_published_half_width(percent, queries, half):
    assert round(proportion_interval(percent, queries), 1) == half


@given(st.integers(1, 400).flatmap(lambda cases: st.tuples(st.integers(0, cases), st.just(cases))))
def test_proportion_interval_few_successes_or_failures_is_wilsons(hits_of):
    hits, cases = hits_of
    found = proportion_interval(100 * hits / cases, cases)
    if min(hits, cases - hits) >= 10:
        assert found == pytest.approx(196 * math.sqrt(hits * (cases - hits) / cases**3))
    else:
        wanted = stats.binomtest(hits, cases).proportion_ci(2 * stats.norm.cdf(1.96) - 1, method="wilson")
        assert found == pytest.approx([100 * wanted.low, 100 * wanted.high], abs=1e-9)
        assert 0 <= found[0] <= 100 * hits / cases <= found[1] <= 100


@pytest.mark.parametrize(("percent", "queries"), [(101, 5), (-1, 5), (50, 0)])
def test_proportion_interval_invalid_proportion_is_refused(percent, queries):
    with pytest.raises(ValueError, match="not a proportion"):
        proportion_interval(percent, queries)


def test_with_interval_shows_half_width_or_ends():
    assert with_interval(27.5, proportion_interval(27.5, 5000)) == "27.5 ± 1.2"
    assert with_interval(100, proportion_interval(100, 80)) == "100.0 (95.4 to 100.0)"
    assert with_interval(77.123, 1.5, 2) == "77.12 ± 1.50"
    assert with_interval(50.0, None) == with_interval(50.0, math.inf) == "50.0"
    assert interval_text([95.42, 100.0]) == "95.4 to 100.0"
    assert interval_ends(99.0, 2.0) == (97.0, 100.0)
    assert interval_ends(99.0, [94.0, 99.8]) == (94.0, 99.8)


def test_clustered_interval_many_cases_is_the_half_width_over_clusters():
    right, clusters = np.random.default_rng(0).random(600) < 0.7, np.arange(200).repeat(3)
    assert clustered_interval(right, clusters) == pytest.approx(100 * clustered_half_width(right, clusters))


def test_clustered_interval_cases_that_are_equal_counts_clusters():
    clusters = np.arange(20).repeat(3)
    assert clustered_interval(np.ones(60), clusters) == proportion_interval(100, 20)
    one = np.arange(60) < 3  # a whole cluster is right: the effective number of cases is that of clusters, less one
    assert clustered_interval(one, clusters) == pytest.approx(proportion_interval(5, 19))
    assert clustered_interval([True, False], [7, 7]) == proportion_interval(50, 1)
    with pytest.raises(ValueError, match="no cases"):
        clustered_interval([], [])


@given(st.lists(st.booleans(), min_size=2, max_size=40))
def test_with_a_case_in_each_cluster_the_interval_is_walds(right):
    wald = 1.96 * math.sqrt(np.mean(right) * (1 - np.mean(right)) / len(right))
    found = clustered_half_width(right, range(len(right)))
    assert found == pytest.approx(wald * math.sqrt(len(right) / (len(right) - 1)), abs=1e-12)


def test_mcnemar_without_clusters_is_the_exact_test():
    first, second = np.array([True] * 9 + [False] * 3), np.array([True] + [False] * 8 + [True, False, False])
    tail = sum(math.comb(9, k) for k in (0, 1)) / 2**9
    assert mcnemar(first, second) == (8, 1, pytest.approx(2 * tail))
    assert mcnemar(first, first) == (0, 0, 1.0)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_with_a_case_in_each_cluster_the_test_is_mcnemars(rows):
    first, second = np.array(rows, bool).T
    one, other, p = mcnemar(first, second, range(len(rows)))
    assert (one, other) == ((first & ~second).sum(), (second & ~first).sum())
    assert p == pytest.approx(stats.chi2.sf((one - other) ** 2 / (one + other), 1) if one + other else 1.0)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=3, max_size=60))
def test_over_clusters_of_one_size_it_is_the_test_of_durkalski(rows):
    first, second = np.array(rows[: len(rows) // 3 * 3], float).reshape(-1, 3, 2).transpose(2, 0, 1)
    shares = (first - second).mean(axis=1)
    wanted = stats.chi2.sf(shares.sum() ** 2 / (shares @ shares), 1) if shares.any() else 1.0
    _, _, p = mcnemar(first.ravel(), second.ravel(), np.arange(len(shares)).repeat(3))
    assert p == pytest.approx(wanted)


def test_an_interval_needs_four_pairs_and_a_perfect_correlation_has_no_width():
    assert fisher_interval(0.5, 3) is None
    assert fisher_interval(-1.0, 9) == (-1.0, -1.0)
    with pytest.raises(ValueError, match="not a correlation"):
        fisher_interval(math.nan, 9)


@settings(deadline=None)
@given(numbers, st.data())
def test_correlations_agree_with_scipy(x, data):
    y = data.draw(st.lists(st.integers(-5, 5), min_size=len(x), max_size=len(x)))
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert pearson(x, y) is None
        assert spearman(x, y) is None
        return
    assert pearson(x, y) == pytest.approx(stats.pearsonr(x, y)[0], abs=1e-12)
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y)[0], abs=1e-12)


@settings(deadline=None)
@given(numbers)
def test_tied_values_share_their_mean_rank(x):
    np.testing.assert_array_equal(mean_ranks(x), stats.rankdata(x))


def test_a_series_constant_up_to_rounding_has_no_correlation():
    flat = 0.1 + 1e-17 * np.arange(9)
    noise = np.where(np.arange(9) % 2, 1.0, 1.0 + 2**-52)
    for x in (np.ones(9), flat, noise):
        assert pearson(x, np.arange(9)) is None
        assert spearman(np.arange(9), x) is None


@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_correlation_of_large_and_small_numbers_is_that_of_their_shares(size):
    x, y = np.array([1.0, 5.0, -7.5]), np.array([1.0, -2.0, 4.0])
    assert pearson(x * size, y / size) == pytest.approx(pearson(x, y), abs=1e-12)


@pytest.mark.parametrize("correlation", [pearson, spearman])
def test_invalid_series_are_refused(correlation):
    with pytest.raises(ValueError, match="not finite"):
        correlation([1, 2, math.nan], [1, 2, 3])
    with pytest.raises(ValueError, match="do not pair up"):
        correlation([1, 2, 3], [1, 2])
    with pytest.raises(ValueError, match="shape"):
        correlation([[1, 2]], [[1, 2]])


def test_holm_by_hand():
    # 4 x 0.005 = 0.02; 3 x 0.01 = 0.03; 2 x 0.03 = 0.06; 1 x 0.04 = 0.04, no smaller than the one before: 0.06.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.2]) == [0.2]
    assert holm([]) == []
    assert holm([0.7, 0.6]) == [1.0, 1.0]


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.sampled_from([0.001, 0.01, 0.05, 0.2, 0.5]))
def test_holm_agrees_with_his_stepwise_procedure(p, level):
    """Holm's own description: while the smallest of the m that are left is below level / m, take it."""
    taken, left = [], sorted(range(len(p)), key=lambda place: p[place])
    while left and p[left[0]] * len(left) < level:
        taken.append(left.pop(0))
    corrected = holm(p)
    assert [place for place in range(len(p)) if corrected[place] < level] == sorted(taken)
    assert all(raw <= value <= 1 for raw, value in zip(p, corrected, strict=True))
    order = sorted(range(len(p)), key=lambda place: p[place])
    assert [corrected[place] for place in order] == sorted(corrected)


@pytest.mark.parametrize("p", [[0.5, 1.5], [-0.1], [math.nan]])
def test_holm_takes_probabilities_only(p):
    with pytest.raises(ValueError, match="not a probability"):
        holm(p)


def test_metrics_are_rounded_at_any_depth_and_nothing_else_is():
    found = rounded({"a": {"b": 30.939999999999998, "n": 3}, "c": [0.1234567891, None], "d": "x", "e": True})
    assert found == {"a": {"b": 30.94, "n": 3}, "c": [0.123457, None], "d": "x", "e": True}
    assert rounded(2.5, 0) == 2.0
