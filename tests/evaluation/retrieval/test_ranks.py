from __future__ import annotations

import logging
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sightword.errors import ScoringError
from sightword.evaluation.retrieval import ranks as module
from sightword.evaluation.retrieval.ranks import rank
from sightword.model.similarity import tie_width


def brute_force(scores, owner, tie=lambda score: score):
    """Ranks from the full matrix (captions, pictures) of exact or float64 scores, one comparison at a time.

    ``tie`` lowers a score by what ties may differ.
    """
    captions, pictures = range(len(owner)), range(len(scores[0]))
    own = [scores[c][owner[c]] for c in captions]
    to_image = [1 + sum(scores[c][i] >= tie(own[c]) for i in pictures if i != owner[c]) for c in captions]
    to_caption = []
    for i in pictures:
        best = max(own[c] for c in captions if owner[c] == i)
        to_caption.append(1 + sum(scores[c][i] >= tie(best) for c in captions if owner[c] != i))
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


def exact_dots(images, captions):
    """Dot products of whole numbers."""
    return [[sum(int(a) * int(b) for a, b in zip(c, i, strict=True)) for i in images] for c in captions]


def exact_orders(images, captions):
    """Minus the error of order-embeddings, in whole numbers."""

    def error(c, i):
        return sum(max(0, int(a) - int(b)) ** 2 for a, b in zip(c, i, strict=True))

    return [[-error(c, i) for i in images] for c in captions]


def exact_reversed_orders(images, captions):
    """What the picture exceeds the caption by."""
    return [list(column) for column in zip(*exact_orders(captions, images), strict=True)]


EXACT = {"cosine": exact_cosines, "dot": exact_dots, "order": exact_orders, "reversed_order": exact_reversed_orders}


def float64_scores(similarity, images, captions):
    """The full matrix (captions, pictures), nothing tiled."""
    images, captions = images.astype(np.float64), captions.astype(np.float64)
    if similarity == "cosine":
        images, captions = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (images, captions))
    if similarity in ("cosine", "dot"):
        return np.einsum("cd,id->ci", captions, images)
    excess = captions[:, None] - images
    return -(np.maximum(-excess if similarity == "reversed_order" else excess, 0) ** 2).sum(-1)


def ranked(images, captions, owner, similarity, *, top):
    """Ranks with lists, and the same ranks without, where float32 comes first and doubtful pairs or tiles after it."""
    found = rank(captions, images, owner, similarity, top=top)
    for few in (0, 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_FEW", few)
            alone = rank(captions, images, owner, similarity)
        assert np.array_equal(alone.caption_to_image, found.caption_to_image)
        assert np.array_equal(alone.image_to_caption, found.image_to_caption)
    return found


def check(found, scores, owner, top):
    """Against ranks and lists by brute force."""
    to_image, to_caption = brute_force(scores, owner)
    assert found.caption_to_image.tolist() == to_image
    assert found.image_to_caption.tolist() == to_caption
    for best_found, matrix in ((found.top_images, scores), (found.top_captions, list(zip(*scores, strict=True)))):
        assert best_found.candidate.tolist() == [
            sorted(range(len(row)), key=lambda place, row=row: -row[place])[:top] for row in matrix
        ]


@pytest.mark.parametrize("similarity", EXACT)
@given(
    corpus=corpora(st.integers(-2, 2), np.int64),
    tile=st.sampled_from([1, 3, 64]),
)
@settings(deadline=None)
def test_ranks_are_exact_ties_and_all(similarity, corpus, tile):
    images, captions, owner = corpus
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_TILE", tile)
        patch.setattr(module, "_BLOCK_BYTES", 8 * tile * images.shape[1])
        found = ranked(images.astype(np.float32), captions.astype(np.float32), owner, similarity, top=3)
    check(found, EXACT[similarity](images, captions), owner, 3)


@pytest.mark.parametrize("similarity", EXACT)
@pytest.mark.parametrize("tile", [16, 100, 1024])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_ranks_agree_with_the_full_matrix_whatever_the_tiles(monkeypatch, similarity, tile, dtype):
    monkeypatch.setattr(module, "_TILE", tile)
    monkeypatch.setattr(module, "_BLOCK_BYTES", 8 * 24 * 100)
    random = np.random.default_rng(3)
    images = random.standard_normal((150, 24)).astype(dtype)
    owner = random.permutation(np.concatenate([np.arange(150), random.integers(0, 150, 300)]))
    captions = (images[owner] + random.standard_normal((450, 24))).astype(dtype)
    captions[300] = captions[7] = captions[5]
    if similarity == "cosine":
        captions[300] *= 2  # a tie up to the length
    scores = float64_scores(similarity, images, captions)
    scores[300] = scores[7] = scores[5]
    found = ranked(images, captions, owner, similarity, top=5)
    check(found, scores, owner, 5)
    tops = ((found.top_images, scores), (found.top_captions, scores.T))
    for top, matrix in tops:
        np.testing.assert_allclose(top.score, -np.sort(-matrix, axis=1)[:, :5], rtol=1e-7, atol=3e-10)


@pytest.mark.parametrize("similarity", EXACT)
@pytest.mark.parametrize("step", [1e-8, 1e-6])
def test_scores_that_are_equal_in_float32_are_told_apart(similarity, step):
    random = np.random.default_rng(0)
    images = np.abs(random.standard_normal(300)) + step * random.standard_normal((80, 300))
    owner = random.permutation(np.repeat(np.arange(80), 2))
    captions = images[owner] + 0.1 + step * random.standard_normal((160, 300))
    if similarity == "reversed_order":
        captions -= 0.3
    scores = float64_scores(similarity, images, captions)
    assert len(np.unique(scores.astype(np.float32))) < 1000  # of 12800

    longest = 2.0 ** sum(np.frexp(np.linalg.norm(rows, axis=1).max())[1] for rows in (images, captions))

    def tie(score):
        return score - tie_width(300) * {"cosine": 1, "dot": longest}.get(similarity, abs(score))

    found = rank(captions, images, owner, similarity)
    to_image, to_caption = brute_force(scores, owner, tie)
    assert found.caption_to_image.tolist() == to_image
    assert found.image_to_caption.tolist() == to_caption


@pytest.mark.parametrize("similarity", EXACT)
@pytest.mark.parametrize("offset", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(4))
def test_a_collapsed_model_never_beats_chance(seed, offset, similarity):
    # The same vector for all: a matrix product may still give other last bits at the edges of its tiles.
    random = np.random.default_rng(seed)
    images = np.tile(random.standard_normal(random.integers(1, 400)), (97, 1))
    owner = random.permutation(np.repeat(np.arange(97), 5))
    found = ranked(images, images[owner] + offset, owner, similarity, top=10)
    assert (found.caption_to_image == 97).all()
    assert (found.image_to_caption == 97 * 5 - 4).all()
    assert (found.top_images.candidate == np.arange(10)).all()
    assert (found.top_captions.candidate == np.arange(10)).all()


@pytest.mark.parametrize("similarity", ["dot", "order", "reversed_order"])
@pytest.mark.parametrize("scale", [1e-120, 1e-30, 1.0, 1e20, 1e130])
def test_ranks_by_lengths_do_not_mind_the_size(similarity, scale):
    random = np.random.default_rng(7)
    images = np.abs(random.standard_normal((50, 24)))
    owner = random.permutation(np.concatenate([np.arange(50), random.integers(0, 50, 100)]))
    captions = images[owner] * random.uniform(0.5, 1.2, (150, 24))
    found = ranked(scale * images, scale * captions, owner, similarity, top=5)
    check(found, float64_scores(similarity, images, captions), owner, 5)


@pytest.mark.parametrize("similarity", sorted(EXACT.keys() - {"dot"}))
def test_a_few_rows_of_other_sizes_harm_no_others(similarity):
    random = np.random.default_rng(8)
    images = random.random((40, 12)) * np.repeat([1, 1e-12, 1e-30, 1e-60], 10)[:, None]
    owner = random.permutation(np.repeat(np.arange(40), 2))
    captions = images[owner] * random.uniform(0.5, 1.2, (80, 12))
    check(ranked(images, captions, owner, similarity, top=3), float64_scores(similarity, images, captions), owner, 3)


def test_the_order_is_not_symmetric_and_takes_lengths_as_they_are():
    images, captions = np.array([[3.0, 3.0], [1.0, 1.0]]), np.array([[2.0, 2.0], [0.5, 0.5]])
    found = ranked(images, captions, [0, 1], "order", top=2)
    turned = rank(captions, images, [0, 1], "reversed_order", top=2)
    assert found.top_images.score.tolist() == [[0.0, -2.0], [0.0, 0.0]]  # a caption stands below its picture
    assert found.caption_to_image.tolist() == [1, 2]
    assert found.image_to_caption.tolist() == [2, 1]
    assert turned.top_images.score.tolist() == [[0.0, -2.0], [-0.5, -12.5]]
    assert turned.top_images.candidate.tolist() == [[1, 0], [1, 0]]


def test_lengths_weigh_in_the_dot_product():
    images, captions = np.array([[3.0, 0.0], [1.0, 1.0]]), np.array([[1.0, 1.0], [0.5, 0.0]])
    found = ranked(images, captions, [1, 0], "dot", top=2)
    assert found.top_images.score.tolist() == [[3.0, 2.0], [1.5, 0.5]]
    assert found.caption_to_image.tolist() == [2, 1]
    assert found.image_to_caption.tolist() == [2, 1]
    assert rank(captions, images, [1, 0], "cosine").caption_to_image.tolist() == [1, 1]


def test_values_too_large_to_be_multiplied_are_told():
    with pytest.raises(ScoringError, match=r"image_embeddings: embeddings are too long for the dot product; expected"):
        rank(np.eye(2), np.eye(2) * 1e200, [0, 1], "dot")


def test_values_too_large_to_be_squared_are_told():
    with pytest.raises(ScoringError, match="too long for the order similarity; expected a length of at most 1e"):
        rank(np.eye(2), np.eye(2) * 1e200, [0, 1], "order")


def test_embeddings_may_be_mapped_from_a_file(tmp_path):
    random = np.random.default_rng(2)
    images, captions = random.standard_normal((30, 4)), random.standard_normal((60, 4))
    owner = np.tile(np.arange(30), 2)
    for name, rows in (("images", images), ("captions", captions)):
        np.save(tmp_path / f"{name}.npy", rows)
    mapped = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("captions", "images"))
    found, expected = rank(*mapped, owner), rank(captions, images, owner)
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


def test_its_own_captions_are_no_rivals_of_each_other():
    images = np.array([[1.0, 0.0], [0.0, 1.0]])
    captions = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
    found = rank(captions, images, [0, 0, 0, 1])
    assert found.image_to_caption.tolist() == [1, 1]


@st.composite
def clustered(draw):
    """Vectors of few kinds, so that ties and identical captions abound, and captions in any order."""
    pictures = draw(st.integers(1, 9))
    extra = draw(st.lists(st.integers(0, pictures - 1), max_size=12))
    owner = np.array(draw(st.permutations([*range(pictures), *extra])))
    kinds = np.random.default_rng(draw(st.integers(0, 99))).random((draw(st.integers(1, 4)), 5))
    images, captions = (
        kinds[draw(st.lists(st.integers(0, len(kinds) - 1), min_size=count, max_size=count))]
        for count in (pictures, len(owner))
    )
    return images, captions, owner


@pytest.mark.parametrize("similarity", EXACT)
@given(corpus=clustered(), data=st.data())
@settings(deadline=None, max_examples=40)
def test_what_ranks_may_and_may_not_depend_on(similarity, corpus, data):
    images, captions, owner = corpus
    found = rank(captions, images, owner, similarity)
    assert found.caption_to_image.min() >= 1
    assert found.caption_to_image.max() <= len(images)
    assert (found.image_to_caption <= 1 + len(owner) - np.bincount(owner)).all()

    # Captions in another order have the same ranks.
    order = np.array(data.draw(st.permutations(range(len(owner)))))
    turned = rank(captions[order], images, owner[order], similarity)
    np.testing.assert_array_equal(turned.caption_to_image, found.caption_to_image[order])
    np.testing.assert_array_equal(turned.image_to_caption, found.image_to_caption)

    # So have pictures.
    order = np.array(data.draw(st.permutations(range(len(images)))))
    turned = rank(captions, images[order], np.argsort(order)[owner], similarity)
    np.testing.assert_array_equal(turned.caption_to_image, found.caption_to_image)
    np.testing.assert_array_equal(turned.image_to_caption, found.image_to_caption[order])

    # One caption more, identical to one of the same picture, is no rival of it; to the other pictures it is
    # what its twin is.
    twin = data.draw(st.integers(0, len(owner) - 1))
    more = rank(np.concatenate([captions, captions[[twin]]]), images, np.append(owner, owner[twin]), similarity)
    np.testing.assert_array_equal(
        more.caption_to_image, np.append(found.caption_to_image, found.caption_to_image[twin])
    )
    assert more.image_to_caption[owner[twin]] == found.image_to_caption[owner[twin]]
    assert (more.image_to_caption - found.image_to_caption >= 0).all()
    assert (more.image_to_caption - found.image_to_caption <= 1).all()


def test_lengths_do_not_matter_even_extreme_ones():
    images = np.array([[1e200, 0.0], [0.0, 1e-200]])
    captions = np.array([[1e-250, 1e-260], [0.0, 1e250]])
    found = rank(captions, images, [0, 1])
    assert found.caption_to_image.tolist() == found.image_to_caption.tolist() == [1, 1]


def test_rows_of_zeros_score_0_and_are_told(caplog):
    with caplog.at_level(logging.WARNING):
        found = rank(np.ones((3, 2)), np.zeros((3, 2)), [2, 1, 0])
    assert found.caption_to_image.tolist() == [3, 3, 3]
    assert "3 of 3 rows are all zero" in caplog.text


def test_fewer_candidates_than_asked_for_give_a_shorter_list():
    found = rank(np.eye(3), np.eye(3), [0, 1, 2], top=10)
    assert found.top_images.candidate.shape == (3, 3)
    assert found.top_images.candidate[:, 0].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("images", "captions", "owner", "message"),
    [
        (np.ones((2, 3)), np.ones((2, 4)), [0, 1], "captions have 4 dimensions, pictures 3"),
        (np.ones(3), np.ones((2, 3)), [0, 1], r"image_embeddings: has shape \(3,\)"),
        (np.ones((2, 0)), np.ones((2, 0)), [0, 1], r"has shape \(2, 0\)"),
        (np.ones((0, 3)), np.ones((2, 3)), [0, 1], r"image_embeddings: has shape \(0, 3\)"),
        (np.ones((2, 3)), np.ones((0, 3)), [], r"caption_embeddings: has shape \(0, 3\)"),
        ([[1.0], [1.0, 2.0]], np.ones((2, 1)), [0, 1], "image_embeddings: is no array of numbers"),
        ([["a"]], np.ones((1, 1)), [0], r"image_embeddings: has shape \(1, 1\) and holds <U1"),
        (
            np.ones((2, 3), bool),
            np.ones((2, 3)),
            [0, 1],
            "image_embeddings: .* holds bool; expected rows of real numbers",
        ),
        (np.ones((2, 3)), np.ones((2, 3)), [[0], 1], "image_of_caption: is no array of numbers"),
        (np.ones((2, 3)), np.ones((2, 3)), [[0], [1]], r"image_of_caption: has shape \(2, 1\)"),
        (np.array([[1e200], [np.inf]]), np.ones((2, 1)), [0, 1], "1 of 2 rows have values that are not finite.*row 1"),
        (np.ones((2, 3)), np.ones((2, 3)) * 1j, [0, 1], "caption_embeddings: .* holds complex128"),
        (np.array([[1.0], [np.nan]]), np.ones((2, 1)), [0, 1], "1 of 2 rows have values that are not finite.*row 1"),
        (np.ones((2, 1)), np.array([[np.inf], [1.0]]), [0, 1], "caption_embeddings: 1 of 2 rows"),
        (np.ones((2, 3)), np.ones((2, 3)), [0, 2], "caption 1 belongs to picture row 2; expected rows 0 to 1"),
        (np.ones((2, 3)), np.ones((2, 3)), [-1, 5], "caption 0 belongs to picture row -1, and 1 more"),
        (
            np.ones((2, 3)),
            np.ones((3, 3)),
            [0, 1],
            r"has shape \(2,\) .* expected one whole number for each caption, shape \(3,\)",
        ),
        (np.ones((2, 3)), np.ones((2, 3)), [0.0, 1.0], "one whole number for each caption"),
        (np.ones((3, 3)), np.ones((2, 3)), [0, 2], "1 of 3 pictures have no caption, the first is row 1"),
    ],
)
def test_what_cannot_be_scored_is_told(images, captions, owner, message):
    with pytest.raises(ScoringError, match=message):
        rank(captions, images, owner)


def test_an_unknown_similarity_is_told():
    with pytest.raises(ScoringError, match="no such similarity: 'l2'; expected cosine, dot, order or reversed_order"):
        rank(np.eye(2), np.eye(2), [0, 1], "l2")
