"""Pictures and captions of a split find each other."""

import numpy as np
import pytest

from sightword.captions.table import CaptionTable
from sightword.errors import CaptionsError, FeaturesError
from sightword.features.tables.pairs import pair, report_uncaptioned
from sightword.features.tables.table import FeatureTable


def features(*image_ids):
    return FeatureTable(np.arange(len(image_ids) * 2, dtype=np.float32).reshape(-1, 2), list(image_ids), [], {})


CAPTIONS = CaptionTable(
    image_ids=["b", "b", "c", "a", "a", "a"],
    captions=[0, 1, 0, 0, 1, 2],
    splits=["train", "train", "dev", "train", "train", "train"],
    texts=["b0", "b1", "c0", "a0", "a1", "a2"],
    ids=[np.array([number], np.int32) for number in range(2, 8)],
)


def test_each_caption_points_to_the_features_of_its_picture():
    found = pair(features("a", "b", "c"), CAPTIONS, "train")
    assert found.image_ids == ["a", "b"]
    assert found.features.tolist() == [[0, 1], [2, 3]]
    for text, row in zip(found.texts, found.image_of_caption, strict=True):
        assert text[0] == found.image_ids[row]
    assert [ids.tolist() for ids in found.ids] == [[2], [3], [5], [6], [7]]
    assert found.numbers.tolist() == [0, 1, 0, 1, 2]


def test_captioned_pictures_without_features_are_counted_and_named():
    with pytest.raises(FeaturesError, match="1 of 2 pictures have no features: b"):
        pair(features("a", "c"), CAPTIONS, "train")


def test_captions_of_rejected_pictures_are_left_out_and_reported(caplog):
    table = FeatureTable(features("a").features, ["a"], [], {}, rejected=frozenset({"b"}))
    found = pair(table, CAPTIONS, "train")
    assert found.texts == ["a0", "a1", "a2"]
    assert "train: 2 captions of pictures that could not be decoded are left out" in caplog.text


def test_pictures_without_captions_are_counted_and_named(caplog):
    table = features("a", "b", "c", *"uvwxyz")
    assert pair(table, CAPTIONS, "train").image_ids == ["a", "b"]
    report_uncaptioned(features("a", "b", "c"), CAPTIONS)
    assert not caplog.records  # c is of dev
    report_uncaptioned(table, CAPTIONS)
    assert caplog.messages == ["6 pictures have features and no caption in any split: u, v, w, x, y and 1 more"]


def test_a_split_whose_pictures_were_all_rejected_is_named():
    table = FeatureTable(features("a", "b").features, ["a", "b"], [], {}, rejected=frozenset({"c"}))
    with pytest.raises(CaptionsError, match="the split 'dev' has no captions left: none of its pictures"):
        pair(table, CAPTIONS, "dev")


def test_an_empty_split_is_named():
    with pytest.raises(CaptionsError, match="the split 'test' has no captions"):
        pair(features("a", "b", "c"), CAPTIONS, "test")
