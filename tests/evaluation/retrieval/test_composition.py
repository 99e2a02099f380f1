"""Queries of two words on drawn scenes, with an exact embedding by hand."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from sightword.corpus.sample.scene import scenes_of
from sightword.corpus.sample.sentences import attributes
from sightword.corpus.sample.world import load_world
from sightword.evaluation.retrieval.composition import attribute_pairs, composition_entry

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def scenes():
    """The attributes of the sample's test pictures."""
    world = load_world(REPOSITORY / "data/raw/sample")
    return {f"p{number:03}": attributes(scene, world) for number, scene in enumerate(scenes_of(world, "test"))}


@pytest.fixture(scope="module")
def exact(scenes):
    """A dimension for each attribute: the encoder, and the pictures' embeddings."""
    every = sorted({attribute for own in scenes.values() for attribute in own})
    place = {attribute: number for number, attribute in enumerate(every)}

    def encode(texts):
        return np.eye(len(every), dtype=np.float32)[[place[text] for text in texts]]

    return encode, np.stack([encode(own).max(axis=0) for own in scenes.values()])


def rows(scenes):
    return [(image_id, attribute) for image_id, own in scenes.items() for attribute in own]


def test_an_exact_order_finds_every_composition_first_and_sums_and_chance_are_those_of_loops(scenes, exact):
    encode, images = exact
    found = composition_entry(encode, images, rows(scenes), list(scenes), "order")
    together = {frozenset(two) for own in scenes.values() for two in itertools.combinations(own, 2)}
    assert found["queries"] == len(together) > 100
    assert found["composed"] == {"r1": 100.0, "r5": 100.0, "r10": 100.0}
    expected, chances = [], []
    for one, other in map(sorted, together):
        query = (encode([one]) + encode([other]))[0]
        cosines = images @ query / np.linalg.norm(images, axis=1)
        right = np.array([one in own and other in own for own in scenes.values()])
        expected.append(1 + int((cosines[~right] >= cosines[right].max() - 1e-9).sum()))
        chances.append(1 - math.comb(int((~right).sum()), 5) / math.comb(len(scenes), 5))
    for depth in (1, 5, 10):
        assert found["sum"][f"r{depth}"] == pytest.approx(100 * np.mean(np.array(expected) <= depth))
    assert found["chance"]["r5"] == pytest.approx(100 * np.mean(chances))
    assert found["alone"]["r1"] < 20  # all pictures with one attribute are tied, and ties count against


def test_a_crowded_picture_is_found_by_the_maximum_and_missed_by_the_sum():
    """The cosine of a picture of ten things with two of them is below that of a picture of one of the two."""
    crowded = [("crowd", f"thing {number}") for number in range(8)]
    drawn = [("crowd", "red"), ("crowd", "star"), *crowded, ("alone", "red"), ("other", "star")]
    words = sorted({word for _, word in drawn})

    def encode(texts):
        return np.eye(10, dtype=np.float32)[[words.index(text) for text in texts]]

    images = np.stack([encode(["red"])[0], np.ones(10, np.float32), encode(["star"])[0]])
    found = composition_entry(encode, images, drawn, ["alone", "crowd", "other"], "order")
    assert found["queries"] == 45
    assert found["composed"]["r1"] == 100
    # Of the 45 pairs the 17 with red or with star have a rival.
    assert found["sum"]["r1"] == pytest.approx(100 * 28 / 45)


def test_a_reversed_order_and_the_cosine_are_measured_alike(scenes, exact):
    encode, images = exact
    as_given = composition_entry(encode, images, rows(scenes), list(scenes), "order")
    reverse = composition_entry(
        lambda texts: 1 - encode(texts), 1 - images, rows(scenes), list(scenes), "reversed_order"
    )
    assert reverse["composed"] == as_given["composed"]
    assert reverse["alone"] == as_given["alone"]
    cosine = composition_entry(encode, images, rows(scenes), list(scenes), "cosine")
    assert cosine["composed"] == cosine["sum"] == as_given["sum"]


def test_pairs_are_those_of_the_given_pictures():
    drawn = [("b", "red"), ("a", "star"), ("a", "red"), ("b", "star"), ("c", "ring"), ("c", "red"), ("a", "snow")]
    words, both, (queries, pictures) = attribute_pairs(drawn, ["a", "b"])
    assert words == ["red", "snow", "star"]
    assert both.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert [*zip(queries.tolist(), pictures.tolist(), strict=True)] == [(0, 0), (1, 0), (1, 1), (2, 0)]


def test_without_known_attributes_there_is_no_entry():
    assert composition_entry(len, np.ones((1, 2), np.float32), [], ["a"], "order") is None
    assert composition_entry(len, np.ones((1, 2), np.float32), [("b", "red"), ("a", "x")], ["a"], "order") is None
