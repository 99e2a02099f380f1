from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightword.errors import ScoringError
from sightword.retrieval.protocols import score
from sightword.retrieval.querybank import bank_rows, with_querybank
from sightword.retrieval.ranks import rank


def embedded(seed, *counts, width=6):
    random = np.random.default_rng(seed)
    return [random.standard_normal((count, width)).astype(np.float32) for count in counts]


def cosine(a, b):
    return float(np.dot(a, b) / math.sqrt(np.dot(a, a) * np.dot(b, b)))


@given(seed=st.integers(0, 1000), temperature=st.sampled_from([0.02, 0.05, 1.0]))
def test_ranks_are_those_of_the_inverted_softmax_by_a_loop(seed, temperature):
    images, captions, bank_images, bank_captions = (side.astype(np.float64) for side in embedded(seed, 7, 14, 5, 9))
    owner = np.repeat(np.arange(7), 2)
    found = rank(*with_querybank(images, captions, bank_images, bank_captions, temperature=temperature), owner, "dot")

    def normalised(query, candidate, bank):
        share = sum(math.exp(cosine(candidate, other) / temperature) for other in bank)
        return math.exp(cosine(query, candidate) / temperature) / share

    for row, caption in enumerate(captions):
        scores = [normalised(caption, image, bank_captions) for image in images]
        assert found.caption_to_image[row] == 1 + sum(each > scores[owner[row]] for each in scores)
    for row, image in enumerate(images):
        scores = [normalised(image, caption, bank_images) for caption in captions]
        best = max(scores[2 * row : 2 * row + 2])
        rivals = [each for place, each in enumerate(scores) if owner[place] != row]
        assert found.image_to_caption[row] == 1 + sum(each > best for each in rivals)


def test_more_than_one_block_of_the_bank_and_of_candidates():
    images, captions, bank_images, bank_captions = embedded(0, 1500, 2500, 1100, 2300)
    found, back = with_querybank(images, captions, bank_images, bank_captions)
    for given_, row in ((images, 1499), (images, 3)):
        cosines = bank_captions @ given_[row] / np.linalg.norm(bank_captions, axis=1) / np.linalg.norm(given_[row])
        assert found[row, -2] == pytest.approx(-np.log(np.exp(20.0 * cosines).mean()) / 20, abs=1e-6)
    cosines = bank_images @ captions[2400] / np.linalg.norm(bank_images, axis=1) / np.linalg.norm(captions[2400])
    assert back[2400, -1] == pytest.approx(-np.log(np.exp(20.0 * cosines).mean()) / 20, abs=1e-6)
    assert found.shape == (1500, 8)
    assert back.shape == (2500, 8)


def test_a_hub_loses_its_place():
    """The last picture is nearer to each caption than the caption's own picture is."""
    images = np.eye(5)
    captions = np.vstack([images[:4] + 2 * images[4], images[4]])
    owner = np.arange(5)
    assert score(images, captions, owner)["caption_to_image"]["r1"] == 20.0
    bank = captions[:4] * [[1.0], [2.0], [3.0], [4.0]]  # lengths do not matter
    assert score(*with_querybank(images, captions, images, bank), owner, "dot")["caption_to_image"]["r1"] == 100.0


def test_a_collapsed_model_scores_no_better_than_chance():
    owner = np.repeat(np.arange(40), 5)
    sides = (np.full((count, 7), 0.3) for count in (40, 200, 11, 13))
    assert score(*with_querybank(*sides), owner, "dot")["rsum"] == 0.0


def test_wrong_embeddings_are_told():
    images, captions, bank = embedded(0, 3, 3, 3)
    with pytest.raises(ScoringError, match=r"the dimensions are .*'bank_captions': 5.* expected the same number"):
        with_querybank(images, captions, bank, bank[:, :5])
    bank[1, 2] = np.nan
    with pytest.raises(ScoringError, match=r"bank_images: 1 of 3 rows have values that are not finite"):
        with_querybank(images, captions, bank, captions)


def test_the_bank_has_each_picture_with_its_first_caption_or_evenly_spaced_ones():
    owner = np.array([0, 0, 1, 2, 2, 2, 3, 4])
    assert [rows.tolist() for rows in bank_rows(owner)] == [[0, 1, 2, 3, 4], [0, 2, 3, 6, 7]]
    assert [rows.tolist() for rows in bank_rows(owner, 2)] == [[0, 2], [0, 3]]
