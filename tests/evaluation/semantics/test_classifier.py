from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from plain_classifier import examples, features, plain_fit

from sightword.errors import SemanticsError
from sightword.evaluation.semantics import classifier
from sightword.evaluation.semantics.classifier import AdamRegression, accuracy
from sightword.evaluation.semantics.encoding import Inputs

GRID = [1e-5, 1e-4, 1e-3, 1e-2]


@pytest.mark.parametrize(
    ("kind", "classes", "dtype"), [("vector", 2, np.float32), ("compared", 3, np.float64), ("all", 3, np.float32)]
)
def test_joint_fits_equal_separate_fits(kind, classes, dtype):
    train = examples(150, 1, classes, kind=kind, dtype=dtype)
    dev = examples(70, 2, classes, kind=kind, dtype=dtype)
    found = AdamRegression(classes, seed=7).scan(train, dev, GRID)
    for (score, layer), penalty in zip(found, GRID, strict=True):
        expected, plain, _ = plain_fit(features(train), train.labels, classes, penalty, 7, (features(dev), dev.labels))
        assert score == expected
        torch.testing.assert_close(layer.weight, plain.weight, rtol=0, atol=2e-6)
        torch.testing.assert_close(layer.bias, plain.bias, rtol=0, atol=2e-6)


def test_each_fit_stops_by_its_own_accuracy():
    train, dev = examples(150, 8), examples(70, 9)
    ends = [plain_fit(features(train), train.labels, 3, p, 1111, (features(dev), dev.labels))[2] for p in [0.0, 1.0]]
    assert ends[0] != ends[1]  # so that the comparison says something
    seen = []
    together = AdamRegression(3, on_round=seen.append).scan(train, dev, [0.0, 1.0])
    assert seen == list(range(4, max(ends) + 1, 4))
    for penalty, (score, layer) in zip([0.0, 1.0], together, strict=True):
        ((alone, other),) = AdamRegression(3).scan(train, dev, [penalty])
        assert score == alone
        torch.testing.assert_close(layer.weight, other.weight, rtol=0, atol=1e-6)


def test_a_fit_that_keeps_getting_better_ends_past_200_epochs(monkeypatch):
    train, dev = examples(30, 1), examples(30, 2)
    looks = iter(range(1000))
    monkeypatch.setattr(classifier._Fits, "right", lambda self, dev: [next(looks)])
    seen = []
    AdamRegression(3, on_round=seen.append).scan(train, dev, [0.0])
    assert seen[-1] == 204


def test_without_dev_examples_a_twentieth_is_held_out():
    train, test = examples(210, 5), examples(100, 6)
    _, plain, _ = plain_fit(features(train), train.labels, 3, 1e-3, 1111)
    fitted = AdamRegression(3).final(train, 1e-3)
    torch.testing.assert_close(fitted.weight, plain.weight, rtol=0, atol=2e-6)
    with torch.no_grad():
        assert fitted.predict(test).tolist() == plain(torch.from_numpy(features(test))).argmax(1).tolist()


@pytest.mark.parametrize("kind", ["vector", "compared", "directed", "all"])
def test_a_batch_and_the_whole_are_the_published_features(kind):
    part = examples(20, 1, kind=kind, dtype=np.float64)
    index = np.array([3, 19, 3])
    np.testing.assert_array_equal(part.batch(index).numpy(), features(part)[index].astype(np.float32))
    assert part.batch(slice(0, 5)).shape == (5, part.width)
    np.testing.assert_array_equal(part.at(index).batch(slice(None)), part.batch(index))
    assert part.at(index).labels.tolist() == part.labels[index].tolist()


@pytest.mark.parametrize(("kind", "same"), [("compared", True), ("directed", False), ("all", False)])
def test_swapped_sides_change_the_features_that_tell_a_direction(kind, same):
    part = examples(20, 1, kind=kind, dtype=np.float64)
    swapped = replace(part, first=part.second, second=part.first)
    assert (swapped.batch(slice(None)) == part.batch(slice(None))).all(1).tolist() == [same] * 20


def test_vectors_whose_products_overflow_are_refused():
    part = examples(40, 1, kind="compared")
    huge = Inputs(part.vectors * 1e30, "compared", part.first, part.second, part.labels)
    with (
        pytest.raises(SemanticsError, match="so large that a classifier on them overflows"),
        np.errstate(over="ignore"),
    ):
        AdamRegression(3).scan(huge, huge, [1.0])


def test_torchs_global_state_is_restored():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    threads = torch.get_num_threads()
    part = examples(40, 1)
    AdamRegression(3).final(part, 1e-3).predict(part)
    assert torch.rand(1) == expected
    assert torch.get_num_threads() == threads


def test_accuracy_is_a_share():
    assert accuracy(np.array([0, 1, 2]), np.array([0, 2, 2])) == 2 / 3
