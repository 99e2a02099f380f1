"""The bound below which matches are weak."""

from __future__ import annotations

import numpy as np
import pytest

from sightword.captions.normalise import Normalisation
from sightword.captions.vocabulary import Vocabulary
from sightword.evaluation.retrieval.index import Index
from sightword.search.weak import QUANTILE, SENTENCES, WeakMatches, readable


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


def test_the_bound_of_a_part_is_that_of_its_pictures_alone(monkeypatch):
    monkeypatch.setattr("sightword.search.weak._ROWS", 3)
    draw = np.random.default_rng(0)
    sentences, pictures = (draw.normal(size=(n, 6)).astype(np.float32) for n in (len(SENTENCES), 10))
    index, part = Index(10, 6, "dot", "pictures"), Index(10, 6, "dot", "pictures")
    index.add(pictures)
    part.add(pictures[[1, 8]])
    one, other = (WeakMatches(lambda a, b: a @ b.T) for _ in range(2))
    bound = one.bound(index, lambda: sentences, frozenset({1, 8}))
    assert bound == pytest.approx(other.bound(part, lambda: sentences), rel=1e-5)
    assert bound < WeakMatches(lambda a, b: a @ b.T).bound(index, lambda: sentences)


@pytest.mark.parametrize(
    ("captions", "known"),
    [
        (["Zwei große Hunde spielen mit einem Ball im Schnee, und ein Kind fragt warum."], True),
        (["两只狗在雪地里玩耍."], False),
        (["Две собаки бегут по снегу ."], False),
        (["كَلْبانِ يَلْعَبانِ في الثَّلْجِ ."], False),
    ],
)
def test_sentences_of_another_script_are_no_bound(captions, known):
    assert readable(Vocabulary.build(captions, normalise=Normalisation())) is known


def test_the_sentences_stand_once_each():
    assert len(set(SENTENCES)) == len(SENTENCES)
