"""The bound below which matches are weak."""

from __future__ import annotations

import numpy as np
import pytest

from sightword.evaluation.retrieval.index import Index
from sightword.search.weak import QUANTILE, SENTENCES, WeakMatches


def test_the_bound_is_a_quantile_of_the_best_scores_and_follows_pictures_that_are_added(monkeypatch):
    monkeypatch.setattr("sightword.search.weak._ROWS", 3)
    draw = np.random.default_rng(0)
    sentences, pictures = (draw.normal(size=(n, 6)).astype(np.float32) for n in (len(SENTENCES), 10))
    index, weak = Index(10, 6, "dot", "pictures"), WeakMatches(lambda a, b: a @ b.T)
    assert weak.bound(index, lambda: sentences) == -np.inf
    for count in (1, 5, 10):
        index.add(pictures[len(index) : count])
        best = [max(float(sentence @ picture) for picture in pictures[:count]) for sentence in sentences]
        assert weak.bound(index, lambda: 1 / 0) == pytest.approx(np.quantile(best, QUANTILE), rel=1e-5)


def test_the_sentences_stand_once_each():
    assert len(set(SENTENCES)) == len(SENTENCES)
