"""Scores of binary decisions, against plain loops over pairs; small whole numbers, so that energies tie."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightword.evaluation.binary import best_threshold, histogram, mistakes, score

labelled = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=30).filter(
    lambda pairs: len({label for _, label in pairs}) == 2
)


@given(labelled)
def test_auc_tied_energies_is_the_share_of_ordered_pairs(pairs):
    true, false = ([value for value, label in pairs if label == wanted] for wanted in (True, False))
    ordered = sum((low < high) + (low == high) / 2 for low in true for high in false)
    found = score(np.array([value for value, _ in pairs], np.float32), np.array([label for _, label in pairs]), 2.0)
    assert found["auc"] == pytest.approx(ordered / len(true) / len(false), abs=1e-6)


@given(labelled)
def test_average_precision_tied_energies_are_accepted_together(pairs):
    true = [value for value, label in pairs if label]
    precisions = [sum(one <= value for one in true) / sum(one <= value for one, _ in pairs) for value in true]
    found = score(np.array([value for value, _ in pairs], np.float32), np.array([label for _, label in pairs]), 2.0)
    assert found["average_precision"] == pytest.approx(sum(precisions) / len(true), abs=1e-6)


@given(labelled, st.integers(-1, 6))
def test_accuracy_and_f1_are_those_of_the_counts(pairs, threshold):
    found = score(np.array([value for value, _ in pairs]), np.array([label for _, label in pairs]), threshold)
    hits = sum(value <= threshold and label for value, label in pairs)
    accepted = sum(value <= threshold for value, _ in pairs)
    right = sum((value <= threshold) == label for value, label in pairs)
    assert found["accuracy"] == pytest.approx(100 * right / len(pairs), abs=1e-6)
    assert found["f1"] == pytest.approx(200 * hits / (accepted + sum(label for _, label in pairs)), abs=1e-6)


@pytest.mark.parametrize("scale", [1e-40, 1, 1e30])
@given(labelled)
def test_threshold_accepts_the_pairs_of_its_accuracy(scale, pairs):
    energies = np.array([scale * (1 + value) for value, _ in pairs], np.float32)
    labels = np.array([label for _, label in pairs])
    threshold, accuracy = best_threshold(energies, labels)
    assert 100 * ((energies <= threshold) == labels).mean() == pytest.approx(accuracy)


def test_histogram_and_mistakes():
    energies = np.array([0.0, 0.25, 0.5, 3.0, 1.0])
    labels = np.array([True, False, True, True, False])
    rows = histogram(energies, labels)
    assert (rows[0][0], sum(row[2] for row in rows), sum(row[3] for row in rows)) == (0.0, 3, 2)
    assert mistakes(energies, labels, 0.4, 5).tolist() == [3, 1, 2]
    assert mistakes(energies, labels, 0.4, 1).tolist() == [3]
