from __future__ import annotations

import logging
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sightword.compute.devices import threads
from sightword.errors import ScoringError
from sightword.evaluation.retrieval import ranks as module
from sightword.evaluation.retrieval.ranks import rank, tiles
from sightword.evaluation.retrieval.similarity import NAMES, embeddings, similarity
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
@settings(deadline=None, max_examples=40)
def test_ranks_are_exact_ties_and_all(similarity, corpus, tile):
    images, captions, owner = corpus
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_TILE", tile)
        patch.setattr(module, "_BLOCK_BYTES", 8 * tile * images.shape[1])
        found = rank(captions.astype(np.float32), images.astype(np.float32), owner, similarity, top=3)
    check(found, EXACT[similarity](images, captions), owner, 3)


@pytest.mark.parametrize("similarity", EXACT)
@pytest.mark.parametrize(("tile", "dtype"), [(16, np.float16), (100, np.float32), (1024, np.float64)])
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
    found = rank(captions, images, owner, similarity, top=5)
    check(found, scores, owner, 5)
    tops = ((found.top_images, scores), (found.top_captions, scores.T))
    for top, matrix in tops:
        np.testing.assert_allclose(top.score, -np.sort(-matrix, axis=1)[:, :5], rtol=1e-7, atol=3e-10)


@pytest.mark.parametrize("similarity", EXACT)
@pytest.mark.parametrize("offset", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(2))
def test_a_collapsed_model_never_beats_chance(seed, offset, similarity):
    # The same vector for all: a matrix product may still give other last bits at the edges of its tiles.
    random = np.random.default_rng(seed)
    images = np.tile(random.standard_normal(random.integers(1, 400)), (97, 1))
    owner = random.permutation(np.repeat(np.arange(97), 5))
    found = rank(images[owner] + offset, images, owner, similarity, top=10)
    assert (found.caption_to_image == 97).all()
    assert (found.image_to_caption == 97 * 5 - 4).all()
    assert (found.top_images.candidate == np.arange(10)).all()
    assert (found.top_captions.candidate == np.arange(10)).all()


@pytest.mark.parametrize("similarity", ["dot", "order", "reversed_order"])
@pytest.mark.parametrize("scale", [1e-120, 1.0, 1e130])
def test_ranks_by_lengths_do_not_mind_the_size(similarity, scale):
    random = np.random.default_rng(7)
    images = np.abs(random.standard_normal((50, 24)))
    owner = random.permutation(np.concatenate([np.arange(50), random.integers(0, 50, 100)]))
    captions = images[owner] * random.uniform(0.5, 1.2, (150, 24))
    found = rank(scale * captions, scale * images, owner, similarity, top=5)
    check(found, float64_scores(similarity, images, captions), owner, 5)


def test_the_order_is_not_symmetric_and_takes_lengths_as_they_are():
    images, captions = np.array([[3.0, 3.0], [1.0, 1.0]]), np.array([[2.0, 2.0], [0.5, 0.5]])
    found = rank(captions, images, [0, 1], "order", top=2)
    turned = rank(captions, images, [0, 1], "reversed_order", top=2)
    assert found.top_images.score.tolist() == [[0.0, -2.0], [0.0, 0.0]]  # a caption stands below its picture
    assert found.caption_to_image.tolist() == [1, 2]
    assert found.image_to_caption.tolist() == [2, 1]
    assert turned.top_images.score.tolist() == [[0.0, -2.0], [-0.5, -12.5]]
    assert turned.top_images.candidate.tolist() == [[1, 0], [1, 0]]


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


@pytest.mark.parametrize(
    ("images", "captions", "owner", "message"),
    [
        (np.ones((2, 3)), np.ones((2, 4)), [0, 1], "captions have 4 dimensions, pictures 3"),
        (np.ones((2, 3)), np.ones((0, 3)), [], r"caption_embeddings: has shape \(0, 3\)"),
        ([[1.0], [1.0, 2.0]], np.ones((2, 1)), [0, 1], "image_embeddings: is no array of numbers"),
        (np.ones((2, 3), bool), np.ones((2, 3)), [0, 1], "image_embeddings: .* holds bool; expected rows of real"),
        (np.ones((2, 3)), np.ones((2, 3)), [[0], [1]], r"image_of_caption: has shape \(2, 1\)"),
        (np.array([[1e200], [np.inf]]), np.ones((2, 1)), [0, 1], "1 of 2 rows have values that are not finite.*row 1"),
        (np.ones((2, 3)), np.ones((2, 3)), [-1, 5], "caption 0 belongs to picture row -1, and 1 more"),
        (np.ones((2, 3)), np.ones((2, 3)), [0.0, 1.0], "one whole number for each caption"),
        (np.ones((3, 3)), np.ones((2, 3)), [0, 2], "1 of 3 pictures have no caption, the first is row 1"),
    ],
)
def test_what_cannot_be_scored_is_told(images, captions, owner, message):
    with pytest.raises(ScoringError, match=message):
        rank(captions, images, owner)


CPU = torch.device("cpu")


def made(name, images, captions):
    return similarity(name, embeddings(captions, "captions"), embeddings(images, "images"), CPU)


def hard(kind, rows, width, random):
    if kind == "normal":
        return random.standard_normal((rows, width))
    if kind == "alike":  # nothing cancels: sums and their rounding grow
        return 1 + 1e-3 * random.random((rows, width))
    if kind == "steady":  # each sum rounds the same way time and again
        return np.ones((1, width)) * np.where(random.random((rows, 1)) < 0.5, 1, 1e-4) * random.random((rows, 1))
    return np.exp(12 * random.standard_normal((rows, width)))  # a few numbers dwarf the others


def longdoubles(name, images, captions):
    images, captions = images.astype(np.longdouble), captions.astype(np.longdouble)
    if name == "cosine":
        images, captions = (rows / np.sqrt((rows**2).sum(1, keepdims=True)) for rows in (images, captions))
    if name in ("cosine", "dot"):
        return captions @ images.T
    excess = captions[:, None] - images
    return -(np.maximum(-excess if name == "reversed_order" else excess, 0) ** 2).sum(-1)


@pytest.mark.parametrize("kind", ["normal", "alike", "steady", "spread"])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_scores_err_no_more_than_is_said(name, count, kind):
    random = np.random.default_rng(1)
    with threads(count):
        for width in (1, 3, 300, 2048):
            images, captions = (hard(kind, rows, width, random) for rows in (37, 53))
            captions[: len(images)] = images  # errors of 0 too
            alike = made(name, images, captions)
            right = longdoubles(name, images, captions) / alike.unit
            found = torch.empty(right.shape, dtype=torch.float64)
            alike.scores(alike.captions(slice(0, 53)), alike.images(slice(0, 37)), found)
            tie = tie_width(width) / 4 * (abs(right) if "order" in name else 1)
            assert (abs(found.numpy() - right) <= tie).all()
            owner = random.integers(0, 37, 53)
            limits = np.broadcast_to(tie, right.shape)[np.arange(53), owner]
            assert (abs(alike.pairs(np.arange(53), owner) - right[np.arange(53), owner]) <= limits).all()


@pytest.mark.parametrize(("captions", "images"), [(2, 333), (300, 100)])
def test_scores_by_any_number_of_threads_have_equal_bytes(captions, images):
    random = np.random.default_rng(2)
    alike = made("cosine", random.standard_normal((images, 2048)), random.standard_normal((captions, 2048)))
    found = set()
    for count in (1, 2, 3, 4):
        with threads(count):
            found.add(b"".join(scores.numpy().tobytes() for _, _, scores in tiles(alike, progress=False)))
    assert len(found) == 1


def test_values_and_names_beyond_the_similarities_are_told():
    for name, words in (("dot", "the dot product; expected"), ("order", "the order similarity; expected a length of")):
        with pytest.raises(ScoringError, match=f"image_embeddings: embeddings are too long for {words}"):
            rank(np.eye(2), np.eye(2) * 1e200, [0, 1], name)
    with pytest.raises(ScoringError, match="no such similarity: 'l2'; expected cosine, dot, order or reversed_order"):
        rank(np.eye(2), np.eye(2), [0, 1], "l2")


# What a few pictures take is taken before, by the same tiles. Scores of all pairs would be 144 MB more.
MEASURE = """
import resource, sys
import numpy as np
from sightword.evaluation.retrieval import querybank, ranks

ranks._BLOCK_BYTES = 1 << 20

def peak(pictures, similarity):
    random = np.random.default_rng(0)
    images, captions = (random.random((count, 4), np.float32) for count in (pictures, 2 * pictures))
    found = ranks.rank(captions, images, np.arange(2 * pictures) % pictures, similarity, top=5)
    assert len(found.top_captions.candidate) == pictures
    querybank.with_querybank(captions, images, captions, images)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6

few = max(peak(1000, "cosine"), peak(1000, "order"))
print(max(peak(3000, "cosine"), peak(3000, "order")) - few)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_pairs(repository):
    done = subprocess.run(
        [sys.executable, "-c", MEASURE],
        cwd=repository,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 30
