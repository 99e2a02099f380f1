"""Composition and abstraction in an exact order of sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sightword.encoder.composition import abstract, compose
from sightword.errors import EncoderError
from sightword.model.similarity import order_errors

sets = arrays.arrays(np.float32, (3, 8), elements=st.sampled_from([0.0, 1.0]))


@given(sets)
def test_composition_of_sets_is_their_union_and_abstraction_their_intersection(given_sets):
    """A caption says a set of words; more words stand below."""
    union, shared = given_sets.any(axis=0), given_sets.all(axis=0)
    assert compose(given_sets, "order").tolist() == union.tolist()
    assert abstract(given_sets, "order").tolist() == shared.tolist()
    absent = 1 - given_sets  # the coordinates of a reversed order: what a caption does not say
    assert compose(absent, "reversed_order").tolist() == (1 - union).tolist()
    assert abstract(absent, "reversed_order").tolist() == (1 - shared).tolist()


@pytest.mark.parametrize("name", ["order", "reversed_order"])
def test_a_composition_is_below_its_parts_and_an_abstraction_above(name):
    """No penalty for a caption and what is below it (the penalty takes captions first)."""
    import torch

    vectors = np.abs(np.random.default_rng(0).normal(size=(4, 2, 5))).astype(np.float32)
    penalty = (
        (lambda above, below: order_errors(above, below)) if name == "order" else (lambda a, b: order_errors(b, a).T)
    )
    for pair, composed, abstraction in zip(vectors, compose(vectors, name), abstract(vectors, name), strict=True):
        parts = torch.from_numpy(pair)
        assert not penalty(parts, torch.from_numpy(composed)[None]).any()
        assert not penalty(torch.from_numpy(abstraction)[None], parts).any()
        assert penalty(torch.from_numpy(composed)[None], parts).max() > 0


@pytest.mark.parametrize("name", ["cosine", "dot"])
def test_products_compose_by_the_sum_of_vectors_of_length_1(name):
    vectors = np.array([[3.0, 4.0], [0.0, 2.0]], np.float32)
    assert compose(vectors, name) == pytest.approx(np.array([0.6, 1.8]))
    assert compose(np.zeros((2, 3), np.float32), name).tolist() == [0, 0, 0]
    with pytest.raises(EncoderError, match=r"have no abstraction; expected order-embeddings.*train.similarity: order"):
        abstract(vectors, name)
