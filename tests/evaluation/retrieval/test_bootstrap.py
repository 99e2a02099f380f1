from __future__ import annotations

import zlib

import numpy as np
import pytest

from sightword.evaluation.retrieval import protocols
from sightword.evaluation.retrieval.protocols import intervals
from sightword.statistics.inference import proportion_interval


def one_by_one(folds, resamples, seed):
    """Every resample written out query by query."""
    randoms = [np.random.default_rng([seed, zlib.crc32(f"fold {n}".encode())]) for n in range(len(folds))]
    found = []
    for _ in range(resamples):
        queries, medians = [], []
        for random, (ranks, picture) in zip(randoms, folds, strict=True):
            pictures = max(picture) + 1
            mine = [
                r for p in random.integers(0, pictures, pictures) for r, q in zip(ranks, picture, strict=True) if q == p
            ]
            medians.append(np.median(mine))
            queries += mine
        found.append([100 * sum(r <= k for r in queries) / len(queries) for k in (1, 5, 10)] + [np.mean(medians)])
    ends = np.percentile(np.array(found), [2.5, 97.5], axis=0).T.tolist()
    return dict(zip(("r1", "r5", "r10", "median_rank"), ends, strict=True))


@pytest.mark.parametrize("numbers", [1, 300, 1 << 21])
@pytest.mark.parametrize("spread", [3, 15, 1000])
@pytest.mark.parametrize("sizes", [[1], [9], [6, 11], [150]])
def test_intervals_are_those_of_a_plain_loop(monkeypatch, sizes, spread, numbers):
    monkeypatch.setattr(protocols, "_NUMBERS", numbers)
    random = np.random.default_rng(len(sizes))
    directions = [[], []]
    for size in sizes:
        picture = random.permutation(np.repeat(np.arange(size), random.integers(1, 8, size)))
        directions[0].append((random.integers(1, spread, len(picture)), picture))
        directions[1].append((random.integers(1, spread, size), np.arange(size)))
    for found, folds in zip(intervals(directions, resamples=40, seed=3), directions, strict=True):
        expected = one_by_one(folds, 40, 3)
        assert list(found) == list(expected)
        for name, ends in expected.items():
            assert found[name] == pytest.approx(ends, abs=1e-12)


def test_a_middle_far_from_the_samples_is_found_too():
    # One picture has nearly all the queries: a resample without it has its middle elsewhere.
    picture = np.array([0] * 400 + list(range(1, 30)))
    folds = [(np.array([1] * 400 + list(range(2, 31))), picture)]
    found, expected = intervals([folds], resamples=60)[0], one_by_one(folds, 60, 0)
    assert expected["median_rank"][1] > 10
    for name, ends in expected.items():
        assert found[name] == pytest.approx(ends)


def test_one_caption_each_gives_about_walds_interval():
    random = np.random.default_rng(0)
    ranks = random.geometric(0.2, 2000)
    low, high = intervals([[(ranks, np.arange(2000))]])[0]["r5"]
    percent = 100 * (ranks <= 5).mean()
    assert (high - low) / 2 == pytest.approx(proportion_interval(percent, 2000), rel=0.1)


def test_captions_that_share_their_pictures_fate_widen_it():
    ranks = np.repeat(np.random.default_rng(0).geometric(0.2, 400), 5)
    low, high = intervals([[(ranks, np.repeat(np.arange(400), 5))]])[0]["r5"]
    assert (high - low) / 2 > 1.8 * proportion_interval(100 * (ranks <= 5).mean(), 2000)


def test_the_draws_are_the_same_every_time():
    folds = [(np.random.default_rng(0).integers(1, 20, 50), np.arange(50))]
    assert intervals([folds]) == intervals([folds])
    assert intervals([folds, folds])[1] == intervals([folds])[0]  # both directions see the same pictures
    assert intervals([folds]) != intervals([folds], seed=1)
