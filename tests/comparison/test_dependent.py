"""Tests of dependent correlations against published figures, simulation and each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from pipeline.comparison.dependent import steiger, williams

TESTS = [williams, steiger]
correlations = st.floats(-0.95, 0.95)


def test_williams_gives_published_figures():
    # Silver, Hittner & May 2006 (Applied Psychological Measurement 30, 152-153), the program depcor.
    found = williams(0.3, 0.4, 0.5, 100)
    assert (round(found.statistic, 4), round(found.p, 4)) == (-1.0767, 0.2843)
    # Steiger 1980, p. 249, case A: the same data give t and z of about 0.89.
    assert williams(0.5, 0.4, 0.1, 103).statistic == pytest.approx(0.8913, abs=1e-4)


def test_steiger_gives_published_figures():
    # depcor again.
    found = steiger(0.3, 0.4, 0.5, 100)
    assert (round(found.statistic, 4), round(found.p, 4)) == (-1.0718, 0.2838)
    # Steiger 1980, p. 249, case A, prints -0.8913 from a rounded covariance; R's cocor gives -0.8887185.
    assert steiger(0.4, 0.5, 0.1, 103).statistic == pytest.approx(-0.8887185, abs=1e-7)
    assert steiger(0.4, 0.5, 0.1, 103).statistic == pytest.approx(-0.8913, abs=3e-3)


@pytest.mark.parametrize(
    ("r_a", "r_b", "r_ab", "pairs", "t", "z"),
    [
        # What R's cocor printed for data of which it prints the correlations to four digits.
        (0.8066, 0.2383, 0.2255, 177, 9.3823, 8.5460),
        (-0.1741, 0.2015, 0.3734, 646, -9.0340, -8.6124),
    ],
)
def test_they_agree_with_another_program(r_a, r_b, r_ab, pairs, t, z):
    assert williams(r_a, r_b, r_ab, pairs).statistic == pytest.approx(t, abs=3e-3)
    assert steiger(r_a, r_b, r_ab, pairs).statistic == pytest.approx(z, abs=3e-3)


def test_when_nothing_differs_one_in_twenty_is_called_significant():
    random = np.random.default_rng(5)
    runs, pairs = 2000, 60
    gold, shared, one, two = random.standard_normal((4, runs, pairs))
    calls = dict.fromkeys(TESTS, 0)
    for g, x, y in zip(gold, gold + shared + one, gold + shared + two, strict=True):
        r = np.corrcoef([g, x, y])
        for test in TESTS:
            calls[test] += test(r[0, 1], r[0, 2], r[1, 2], pairs).p < 0.05
    for test in TESTS:  # within 2.5 standard errors of a share of 2000
        assert calls[test] / runs == pytest.approx(0.05, abs=0.0125), test.__name__


@pytest.mark.parametrize("test", TESTS)
def test_a_true_difference_is_found_where_intervals_alone_do_not(test):
    """Systems that agree with each other: their intervals overlap by far, and yet one is better."""
    found = test(0.62, 0.60, 0.97, 750)
    assert found.p < 0.01
    assert found.statistic > 0


@settings(deadline=None, max_examples=50)
@given(correlations, correlations, correlations, st.integers(4, 5000))
def test_changing_places_changes_the_sign_only(r_a, r_b, r_ab, pairs):
    assume(abs(r_a - r_b) > 1e-9)
    assume(np.linalg.eigvalsh([[1, r_a, r_b], [r_a, 1, r_ab], [r_b, r_ab, 1]])[0] > 1e-6)
    for test in TESTS:
        one, other = test(r_a, r_b, r_ab, pairs), test(r_b, r_a, r_ab, pairs)
        assert one.statistic == pytest.approx(-other.statistic, rel=1e-9, abs=1e-12)
        assert one.p == pytest.approx(other.p, rel=1e-9)
        assert 0 <= one.p <= 1
        assert (one.statistic > 0) == (r_a > r_b)
    t, z = williams(r_a, r_b, r_ab, pairs), steiger(r_a, r_b, r_ab, pairs)
    assert t.p == pytest.approx(2 * stats.t.sf(abs(t.statistic), pairs - 3), rel=1e-8, abs=1e-300)
    assert z.p == pytest.approx(2 * stats.norm.sf(abs(z.statistic)), rel=1e-8, abs=1e-300)


@pytest.mark.parametrize("test", TESTS)
def test_systems_that_are_the_same_have_no_difference(test):
    same = test(0.7, 0.7, 1.0, 50)
    assert (same.statistic, same.p) == (0.0, 1.0)
    assert test(0.7, 0.7, 0.4, 50) == same
    assert test(1.0, 1.0, 1.0, 50) == same
    # Scores in float32 and in float64: what differs is rounding, and is not tested.
    assert test(0.7, 0.7 + 2e-9, 1.0 - 1e-16, 50) == same


def test_a_perfect_correlation_has_williams_t_but_no_fisher_z():
    found = williams(1.0, 0.8, 0.8, 50)
    # By hand: the determinant is 0, the mean 0.9.
    assert found.statistic == pytest.approx(0.2 * math.sqrt(49 * 1.8 / (0.81 * 0.2**3)))
    assert found.p < 1e-6
    assert steiger(1.0, 0.8, 0.8, 50) is None
    assert williams(1.0, -1.0, -1.0, 50) is steiger(1.0, -1.0, -1.0, 50) is None


@pytest.mark.parametrize("test", TESTS)
def test_three_pairs_are_too_few(test):
    assert test(0.5, 0.4, 0.3, 3) is None
    assert test(0.5, 0.4, 0.3, 4) is not None


@pytest.mark.parametrize("test", TESTS)
def test_what_no_data_can_have_is_refused(test):
    with pytest.raises(ValueError, match="not all correlations"):
        test(0.5, 1.2, 0.3, 50)
    with pytest.raises(ValueError, match="not all correlations"):
        test(0.5, math.nan, 0.3, 50)
    with pytest.raises(ValueError, match="together"):
        test(0.9, -0.9, 0.9, 50)
