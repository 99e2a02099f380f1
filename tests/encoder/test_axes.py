"""Fewer axes of an encoder of n-grams."""

from __future__ import annotations

import numpy as np
import pytest
from encoder_kinds import BAG, summed

from sightword.encoder.axes import keep_axes
from sightword.errors import EncoderError
from sightword.model.similarity import unit_rows

TEXTS = ["a dog runs", "two cats sit", "a red ball", "dogs run in snow", "the cat", "a man"]


def test_kept_axes_are_the_projection_of_vectors_of_both_sides() -> None:
    whole = summed(BAG)
    features = np.random.default_rng(0).normal(size=(4, 7)).astype(np.float32)
    short = keep_axes(whole, 3, TEXTS)
    vectors = whole.encode(TEXTS)
    axes = np.linalg.svd(vectors.astype(np.float64))[2][:3].T  # right singular vectors: those of the second moment
    for found, before in (
        (short.encode(TEXTS), vectors),
        (short.encode_images(features), whole.encode_images(features)),
    ):
        expected = unit_rows(before @ axes)
        np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-5)
        assert found.shape[1] == 3
    both = short.encode(TEXTS) @ short.encode_images(features).T
    expected = unit_rows(vectors @ axes) @ unit_rows(whole.encode_images(features) @ axes).T
    np.testing.assert_allclose(both, expected, atol=1e-5)


def test_axes_that_cannot_be_kept_are_refused() -> None:
    with pytest.raises(EncoderError, match="has 5 trained numbers a vector; expected more than the 5 to keep"):
        keep_axes(summed(BAG), 5, TEXTS)
    with pytest.raises(EncoderError, match="axes can be kept of one network of n-grams and the cosine"):
        keep_axes(summed(BAG | {"similarity": "order"}), 3, TEXTS)
