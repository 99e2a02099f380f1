from __future__ import annotations

import logging
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pipeline.errors import ScoringError
from pipeline.retrieval import order
from pipeline.retrieval import ranks as module
from pipeline.retrieval.ranks import rank
from pipeline.retrieval.similarity import Cosine, tie_width


def brute_force(scores, owner):
    """Ranks from the full matrix (captions, pictures) of exact or float64 scores, one comparison at a time."""
    captions, pictures = range(len(owner)), range(len(scores[0]))
    own = [scores[c][owner[c]] for c in captions]
    to_image = [1 + sum(scores[c][i] >= own[c] for i in pictures if i != owner[c]) for c in captions]
    to_caption = []
    for i in pictures:
        best = max(own[c] for c in captions if owner[c] == i)
        to_caption.append(1 + sum(scores[c][i] >= best for c in captions if owner[c] != i))
    return to_image, to_caption


def exact_cosines(images, captions):
    """Signed squares of the cosines as fractions: the same order as the cosines, without any rounding."""

    def squared(c, i):
        dot = sum(Fraction(int(a)) * int(b) for a, b in zip(c, i, strict=True))
        norms = sum(int(a) ** 2 for a in c) * sum(int(b) ** 2 for b in i)
        return Fraction(0) if not norms else abs(dot) * dot / norms

    return [[squared(c, i) for i in images] for c in captions]


@st.composite
def corpora(draw, elements, dtype):
    pictures, width = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    extra = draw(st.lists(st.integers(0, pictures - 1), max_size=8))
    owner = draw(st.permutations([*range(pictures), *extra]))
    images = draw(hnp.arrays(dtype, (pictures, width), elements=elements))
    captions = draw(hnp.arrays(dtype, (len(owner), width), elements=elements))
    return images, captions, np.array(owner)


def exact_orders(images, captions):
    """Minus the error of order-embeddings, in whole numbers."""

    def error(c, i):
        return sum(max(0, int(a) - int(b)) ** 2 for a, b in zip(c, i, strict=True))

    return [[-error(c, i) for i in images] for c in captions]


EXACT = {"cosine": exact_cosines, "order": exact_orders}


@pytest.mark.parametrize("similarity", EXACT)
@given(corpus=corpora(st.integers(-2, 2), np.int64), tile=st.sampled_from([1, 3, 64]))
@settings(deadline=None)
def test_ranks_are_exact_ties_and_all(similarity, corpus, tile):
    images, captions, owner = corpus
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_rows_in_block", lambda width, *, most: tile)
        patch.setattr(order, "_PLAIN_TILE", 2)
        found = rank(images.astype(np.float32), captions.astype(np.float32), owner, similarity, top=3)
    scores = EXACT[similarity](images, captions)
    to_image, to_caption = brute_force(scores, owner)
    for top, matrix in ((found.top_images, scores), (found.top_captions, list(zip(*scores, strict=True)))):
        best = [sorted(range(len(row)), key=lambda place: -row[place])[:3] for row in matrix]
        assert top.candidate.tolist() == best
    assert found.caption_to_image.tolist() == to_image
    assert found.image_to_caption.tolist() == to_caption


@pytest.mark.parametrize("blocks", [64 * 8 * 16, 1 << 25])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ranks_agree_with_the_full_matrix_whatever_the_tiles(monkeypatch, blocks, dtype):
    monkeypatch.setattr(module, "_BLOCK_BYTES", blocks)
    random = np.random.default_rng(3)
    images = random.standard_normal((150, 16)).astype(dtype)
    owner = random.permutation(np.concatenate([np.arange(150), random.integers(0, 150, 300)]))
    captions = (images[owner] + random.standard_normal((450, 16))).astype(dtype)
    captions[7], captions[300] = captions[5], 2 * captions[5]  # ties, also up to the length

    def unit(rows):
        return rows.astype(np.float64) / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)

    scores = np.einsum("cd,id->ci", unit(captions), unit(images))
    scores[300] = scores[7] = scores[5]
    found = rank(images, captions, owner, top=5)
    to_image, to_caption = brute_force(scores, owner)
    assert found.caption_to_image.tolist() == to_image
    assert found.image_to_caption.tolist() == to_caption
    for top, matrix in ((found.top_images, scores), (found.top_captions, scores.T)):
        order = np.argsort(-matrix, axis=1, kind="stable")[:, :5]
        np.testing.assert_array_equal(top.candidate, order)
        np.testing.assert_allclose(top.score, np.take_along_axis(matrix, order, 1), atol=3e-10)


@pytest.mark.parametrize("similarity", EXACT)
@pytest.mark.parametrize("offset", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(4))
def test_a_collapsed_model_never_beats_chance(seed, offset, similarity):
    # The same vector for all: a matrix product may still give other last bits at the edges of its tiles.
    random = np.random.default_rng(seed)
    images = np.tile(random.standard_normal(random.integers(1, 400)), (97, 1))
    owner = random.permutation(np.repeat(np.arange(97), 5))
    found = rank(images, images[owner] + offset, owner, similarity, top=10)
    assert (found.caption_to_image == 97).all()
    assert (found.image_to_caption == 97 * 5 - 4).all()
    assert (found.top_images.candidate == np.arange(10)).all()
    assert (found.top_captions.candidate == np.arange(10)).all()


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e20])
@pytest.mark.parametrize("tile", [16, 1000])
def test_order_ranks_agree_with_the_full_matrix_whatever_the_tiles_and_the_size(monkeypatch, tile, scale):
    monkeypatch.setattr(module, "_rows_in_block", lambda width, *, most: tile)
    random = np.random.default_rng(7)
    images = scale * np.abs(random.standard_normal((150, 24)))
    owner = random.permutation(np.concatenate([np.arange(150), random.integers(0, 150, 300)]))
    captions = images[owner] * random.uniform(0.5, 1.2, (450, 24))
    captions[300] = captions[7] = captions[5]
    scores = -(np.maximum(captions[:, None] - images, 0) ** 2).sum(-1)
    found = rank(images, captions, owner, "order", top=5)
    to_image, to_caption = brute_force(scores, owner)
    assert found.caption_to_image.tolist() == to_image
    assert found.image_to_caption.tolist() == to_caption
    np.testing.assert_array_equal(found.top_images.candidate, np.argsort(-scores, axis=1, kind="stable")[:, :5])
    np.testing.assert_allclose(found.top_captions.score, -np.sort(-scores.T, axis=1)[:, :5], rtol=1e-7)


def test_the_order_is_not_symmetric_and_takes_lengths_as_they_are():
    images, captions = np.array([[3.0, 3.0], [1.0, 1.0]]), np.array([[2.0, 2.0], [0.5, 0.5]])
    found = rank(images, captions, [0, 1], "order", top=2)
    assert found.top_images.score.tolist() == [[0.0, -2.0], [0.0, 0.0]]  # a caption stands below its picture
    assert found.caption_to_image.tolist() == [1, 2]
    assert found.image_to_caption.tolist() == [2, 1]


def test_values_too_large_to_be_squared_are_told():
    with pytest.raises(ScoringError, match="too large for the order similarity; expected at most 1e"):
        rank(np.eye(2) * 1e200, np.eye(2), [0, 1], "order")


def test_embeddings_may_be_mapped_from_a_file(tmp_path):
    random = np.random.default_rng(2)
    images, captions = random.standard_normal((30, 4)), random.standard_normal((60, 4))
    owner = np.tile(np.arange(30), 2)
    for name, rows in (("images", images), ("captions", captions)):
        np.save(tmp_path / f"{name}.npy", rows)
    mapped = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("images", "captions"))
    found, expected = rank(*mapped, owner), rank(images, captions, owner)
    np.testing.assert_array_equal(found.caption_to_image, expected.caption_to_image)


@given(st.integers(1, 700), st.integers(1, 70), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=40)
def test_identical_rows_tie_wherever_they_lie_in_the_tiles(width, pictures, seed):
    random = np.random.default_rng(seed)
    half = random.standard_normal((pictures, width)).astype(np.float32)
    images = np.concatenate([half, half])  # each picture has a twin far away
    owner = np.arange(2 * pictures)
    found = rank(images, images, owner)
    assert (found.caption_to_image >= 2).all()
    assert (found.image_to_caption >= 2).all()
    assert (found.caption_to_image == found.caption_to_image[np.r_[pictures : 2 * pictures, :pictures]]).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_scores_err_less_than_the_width_of_a_tie(threads):
    random = np.random.default_rng(1)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for width in (1, 2, 3, 17, 512, 2048):
            rows = Cosine(width).rows(random.standard_normal((131, width)))
            exact = np.array(
                [[float(x) for x in row] for row in rows.astype(np.longdouble) @ rows.T.astype(np.longdouble)]
            )
            product = (torch.from_numpy(rows) @ torch.from_numpy(rows).T).numpy()
            assert np.abs(product - exact).max() < tie_width(width) / 4
    finally:
        torch.set_num_threads(before)


def test_its_own_captions_are_no_rivals_of_each_other():
    images = np.array([[1.0, 0.0], [0.0, 1.0]])
    captions = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
    found = rank(images, captions, [0, 0, 0, 1])
    assert found.image_to_caption.tolist() == [1, 1]


def test_lengths_do_not_matter_even_extreme_ones():
    images = np.array([[1e200, 0.0], [0.0, 1e-200]])
    captions = np.array([[1e-250, 1e-260], [0.0, 1e250]])
    found = rank(images, captions, [0, 1])
    assert found.caption_to_image.tolist() == found.image_to_caption.tolist() == [1, 1]


def test_rows_of_zeros_score_0_and_are_told(caplog):
    with caplog.at_level(logging.WARNING):
        found = rank(np.zeros((3, 2)), np.ones((3, 2)), [2, 1, 0])
    assert found.caption_to_image.tolist() == [3, 3, 3]
    assert "3 of 3 rows are all zero" in caplog.text


def test_fewer_candidates_than_asked_for_give_a_shorter_list():
    found = rank(np.eye(3), np.eye(3), [0, 1, 2], top=10)
    assert found.top_images.candidate.shape == (3, 3)
    assert found.top_images.candidate[:, 0].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("images", "captions", "owner", "message"),
    [
        (np.ones((2, 3)), np.ones((2, 4)), [0, 1], "pictures have 3 dimensions, captions 4"),
        (np.ones(3), np.ones((2, 3)), [0, 1], r"image_embeddings: has shape \(3,\)"),
        (np.ones((2, 0)), np.ones((2, 0)), [0, 1], r"has shape \(2, 0\)"),
        (np.ones((2, 3)), np.ones((2, 3)) * 1j, [0, 1], "caption_embeddings: holds complex128"),
        (np.array([[1.0], [np.nan]]), np.ones((2, 1)), [0, 1], "1 of 2 rows have values that are not finite.*row 1"),
        (np.ones((2, 1)), np.array([[np.inf], [1.0]]), [0, 1], "caption_embeddings: 1 of 2 rows"),
        (np.ones((2, 3)), np.ones((2, 3)), [0, 2], "caption 1 belongs to picture row 2; expected rows 0 to 1"),
        (np.ones((2, 3)), np.ones((2, 3)), [-1, 5], "caption 0 belongs to picture row -1, and 1 more"),
        (np.ones((2, 3)), np.ones((3, 3)), [0, 1], "2 entries for 3 captions"),
        (np.ones((2, 3)), np.ones((2, 3)), [0.0, 1.0], "one whole number for each caption"),
        (np.ones((3, 3)), np.ones((2, 3)), [0, 2], "1 of 3 pictures have no caption, the first is row 1"),
    ],
)
def test_what_cannot_be_scored_is_told(images, captions, owner, message):
    with pytest.raises(ScoringError, match=message):
        rank(images, captions, owner)


def test_an_unknown_similarity_is_told():
    with pytest.raises(ScoringError, match="no such similarity: 'dot'; expected cosine or order"):
        rank(np.eye(2), np.eye(2), [0, 1], "dot")
