from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightword.captions.table import CaptionTable
from sightword.errors import CaptionsError, ScoringError
from sightword.evaluation.retrieval.querybank import bank, with_querybank
from sightword.evaluation.retrieval.ranks import rank
from sightword.features.tables.table import Origin, read_features, write_features


def embedded(seed, *counts, width=6):
    random = np.random.default_rng(seed)
    return [random.standard_normal((count, width)).astype(np.float32) for count in counts]


def cosine(a, b):
    return float(np.dot(a, b) / math.sqrt(np.dot(a, a) * np.dot(b, b)))


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 1000), temperature=st.sampled_from([0.02, 0.05, 1.0]))
def test_ranks_are_those_of_the_inverted_softmax_by_a_loop(seed, temperature):
    images, captions, bank_images, bank_captions = (side.astype(np.float64) for side in embedded(seed, 7, 14, 5, 9))
    owner = np.repeat(np.arange(7), 2)
    found = rank(*with_querybank(captions, images, bank_captions, bank_images, temperature=temperature), owner, "dot")

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


def test_more_than_one_tile_of_the_bank_and_of_candidates():
    images, captions, bank_images, bank_captions = embedded(0, 1500, 2500, 1100, 2300)
    back, found = with_querybank(captions, images, bank_captions, bank_images)
    assert (found.shape, back.shape) == ((1500, 8), (2500, 8))
    for row in (3, 1499):
        cosines = bank_captions @ images[row] / np.linalg.norm(bank_captions, axis=1) / np.linalg.norm(images[row])
        assert found[row, -2] == pytest.approx(-np.log(np.exp(20.0 * cosines).mean()) / 20, abs=1e-6)
    cosines = bank_images @ captions[2400] / np.linalg.norm(bank_images, axis=1) / np.linalg.norm(captions[2400])
    assert back[2400, -1] == pytest.approx(-np.log(np.exp(20.0 * cosines).mean()) / 20, abs=1e-6)


def test_wrong_values_are_told():
    images, captions, asking = embedded(0, 3, 3, 3)
    with pytest.raises(
        ScoringError, match=r"bank_captions: has 5 dimensions, the captions have 6.* expected the same n"
    ):
        with_querybank(captions, images, asking[:, :5], asking)
    for temperature in (0, -0.05, math.nan, math.inf, 1e-320, 11):
        with pytest.raises(ScoringError, match=r"the temperature is .* expected a number from 0.001 to 10"):
            with_querybank(captions, images, asking, asking, temperature=temperature)
    asking[1, 2] = np.nan
    with pytest.raises(ScoringError, match=r"bank_images: 1 of 3 rows have values that are not finite"):
        with_querybank(captions, images, captions, asking)


@pytest.mark.parametrize(("most", "expected"), [(9, [1, 2, 4, 5]), (2, [1, 4]), (3, [1, 2, 4])])
def test_the_bank_has_evenly_spaced_training_pictures_with_their_first_captions(tmp_path, most, expected):
    ids = [f"p{number}" for number in range(6)]
    values = np.array([0, 1, 2, 4, 5])
    block = (np.arange(5), values[:, None].astype(np.float32))
    origin = Origin("b", "p", "w", "", "{}", "float32", "extracted")
    write_features(tmp_path / "f.h5", [f"p{value}" for value in values], [""] * 5, 1, [block], origin, ["p3"])
    of_caption = [image_id for image_id in ids for _ in range(2)]
    captions = CaptionTable(
        of_caption,
        [0, 1] * 6,
        ["test" if image_id == "p0" else "train" for image_id in of_caption],
        [f"{image_id} {number}" for image_id in ids for number in range(2)],
        [np.array([2], np.int32)] * 12,
    )
    features, texts = bank(read_features(tmp_path / "f.h5"), captions, most)
    assert features[:, 0].tolist() == expected
    assert texts == [f"p{number} 0" for number in expected]


def test_a_bank_without_pictures_is_told(tmp_path):
    block = (np.array([0]), np.ones((1, 1), np.float32))
    origin = Origin("b", "p", "w", "", "{}", "float32", "extracted")
    write_features(tmp_path / "f.h5", ["p1"], [""], 1, [block], origin, ["p0"])
    for split, text in (("train", "the query bank, could be decoded"), ("dev", "has no captions for the query bank")):
        captions = CaptionTable(["p0", "p1"], [0, 0], [split, "test"], ["a", "b"], [np.array([2], np.int32)] * 2)
        with pytest.raises(CaptionsError, match=rf"the split 'train'.*{text}.* Leave querybank out"):
            bank(read_features(tmp_path / "f.h5"), captions, 5)
