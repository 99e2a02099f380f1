"""SEQ against numpy.linalg, and against the maps done one after another."""

from __future__ import annotations

import numpy as np
import pytest

from sightword.grounded.training.sequential import sequential

RANDOM = np.random.default_rng(0)
VECTORS = RANDOM.normal(1, 2, (300, 6))
PICTURE_OF = np.arange(300)


def test_a_known_linear_map_is_recovered():
    matrix, bias = RANDOM.normal(size=(4, 6)), RANDOM.normal(size=4)
    found = sequential(VECTORS, VECTORS @ matrix.T + bias, PICTURE_OF).picture
    np.testing.assert_allclose(found.matrix, matrix, atol=1e-10)
    np.testing.assert_allclose(found.bias, bias, atol=1e-10)


@pytest.mark.parametrize("width", [2, 9])
def test_regression_and_principal_axes_are_those_of_numpy(width):
    pictures, picture_of = RANDOM.normal(size=(100, width)), np.arange(300) // 3
    found = sequential(VECTORS, pictures, picture_of)
    inputs = np.column_stack([VECTORS, np.ones(300)])
    weights, *_ = np.linalg.lstsq(inputs, pictures[picture_of], rcond=None)
    np.testing.assert_allclose(found.picture(VECTORS), inputs @ weights, atol=1e-10)
    together = np.column_stack([VECTORS, inputs @ weights])
    _, _, axes = np.linalg.svd(together - together.mean(axis=0), full_matrices=False)
    expected = (together - together.mean(axis=0)) @ axes[:6].T
    scores = found.sentence(VECTORS)
    signs = np.sign((expected * scores).sum(axis=0))
    np.testing.assert_allclose(scores * signs, expected, atol=1e-9)


def test_captions_that_decide_nothing_have_the_least_map():
    vectors = VECTORS.copy()
    vectors[:, 5] = vectors[:, 0]  # a direction that no caption has
    pictures = RANDOM.normal(size=(300, 3))
    found = sequential(vectors, pictures, PICTURE_OF)
    inputs = vectors - vectors.mean(axis=0)
    expected = np.linalg.pinv(inputs) @ (pictures - pictures.mean(axis=0))
    np.testing.assert_allclose(found.picture.matrix, expected.T, atol=1e-9)
    assert np.isfinite(found.sentence.matrix).all()
