"""The bootstrap against a plain loop with the same draws, and where it must have no surprises."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from sightword.statistics import bootstrap
from sightword.statistics.bootstrap import (
    draws,
    pearson_differences,
    resampled,
    resampled_pearson,
    resampled_spearman,
)


def system_scores(pairs, seed, better=0.0):
    random = np.random.default_rng(seed)
    gold, shared, one, two = random.standard_normal((4, pairs))
    return gold, (1 + better) * gold + 0.7 * shared + one, gold + 0.7 * shared + two


def plain(gold, a, b, samples, seed, name=""):
    random = np.random.default_rng([seed, zlib.crc32(name.encode())])
    found = []
    for _ in range(samples):
        drawn = random.integers(0, len(gold), len(gold))
        r = np.corrcoef([gold[drawn], a[drawn], b[drawn]])
        found.append(r[0, 1] - r[0, 2])
    return np.array(found)


@pytest.mark.parametrize("at_once", [1, 100, 1 << 17])
def test_it_is_a_loop_over_resamples(monkeypatch, at_once):
    monkeypatch.setattr(bootstrap, "_IN_CACHE", at_once)
    gold, a, b = system_scores(31, 1)
    found = pearson_differences(3.5 + gold, 1e6 + a, 0.001 * b, samples=200, seed=4, name="x")
    np.testing.assert_allclose(found, plain(gold, a, b, 200, 4, "x"), rtol=0, atol=1e-9)


def test_interval_and_p_are_counted():
    differences = np.arange(-10, 190) / 100  # 10 below 0, one at 0, 189 above
    found = resampled(differences)
    assert (found.low, found.high) == pytest.approx((np.percentile(differences, 2.5), np.percentile(differences, 97.5)))
    assert found.p == 2 * (11 + 1) / (200 + 1)
    assert resampled(np.ones(99)).p == 2 / 100


def test_seed_and_name_choose_the_draws():
    gold, a, b = system_scores(40, 2)
    draw = pearson_differences(gold, a, b, samples=50, seed=1, name="x")
    np.testing.assert_array_equal(draw, pearson_differences(gold, a, b, samples=50, seed=1, name="x"))
    for other in ({"seed": 2, "name": "x"}, {"seed": 1, "name": "y"}):
        assert not np.allclose(draw, pearson_differences(gold, a, b, samples=50, **other))


def test_a_system_does_not_differ_from_itself():
    gold, a, _ = system_scores(200, 3)
    found = resampled(pearson_differences(gold, a, 5 + 3 * a, samples=300, seed=0))
    assert (found.low, found.high, found.p) == (0, 0, 1)


def test_resamples_without_a_correlation_are_left_out():
    gold, a, b = np.array([0.0, 0, 0, 1]), np.array([1.0, 2, 3, 4]), np.array([1.0, 2, 2, 3])
    differences = pearson_differences(gold, a, b, samples=2000, seed=0)
    # A resample without the last pair, or with nothing else, has constant gold scores.
    assert np.isnan(differences).mean() == pytest.approx(0.75**4 + 0.25**4, abs=0.04)
    assert resampled(differences) is not None
    assert resampled(np.where(np.arange(100) < 51, np.nan, 0.1)) is None
    assert resampled(np.empty(0)) is None


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(*3 * [st.integers(0, 4)]), min_size=5, max_size=30), st.integers(0, 99))
def test_resampled_correlations_are_those_of_the_drawn_pairs(rows, seed):
    gold, *scores = np.array(rows, float).T
    assume(all(len(set(series)) > 1 for series in (gold, *scores)))
    (times,) = draws(len(gold), 6, seed, "x")
    for resample, correlate in ((resampled_spearman, spearmanr), (resampled_pearson, pearsonr)):
        found = resample(gold, np.array(scores), samples=6, seed=seed, name="x")
        for score, of_system in zip(scores, found, strict=True):
            for drawn, r in zip(times.astype(int), of_system, strict=True):
                x, y = np.repeat(gold, drawn), np.repeat(score, drawn)
                if len(set(x)) > 1 and len(set(y)) > 1:
                    assert r == pytest.approx(correlate(x, y)[0], abs=1e-9)
                else:
                    assert np.isnan(r)
