"""A picture from outside has the features that the collection's way gives it, or there is a reason why not."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from search_world import bomb

from sightword.errors import SearchError, WeightsError
from sightword.search.networks import UploadedPictures


def test_uploaded_file_has_its_features_and_copy_is_known(world, searcher):
    table = world.table()
    picture = table.image_ids[4]
    data = (world.files / picture).read_bytes()
    assert np.array_equal(searcher.uploads.features(data), table.features[4])
    assert searcher.uploads.row(data) == 4
    assert searcher.uploads.row(data + b"x") is None


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "0 bytes"),
        (bomb(30_000), "900000000|pixels"),
        (bomb(8000), "64000000|8000 x 8000"),
    ],
)
def test_upload_of_no_picture_or_a_bomb_is_refused(searcher, data, what):
    with pytest.raises(SearchError, match=what):
        searcher.uploads.features(data)


def test_upload_that_would_grow_too_large_is_refused(searcher):
    buffer = io.BytesIO()
    Image.new("L", (1, 1_000_000)).save(buffer, "PNG")
    with pytest.raises(SearchError, match="would become 64 x"):
        searcher.uploads.features(buffer.getvalue())


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"backbone": "", "origin": "precomputed: mine.npy"}, r"uses precomputed features \(precomputed: mine.npy\)"),
        ({"transform": "{}"}, "do not say how"),
        ({"weights": "mine.pth"}, r"a file of their own \(mine.pth\): give it as weights"),
    ],
)
def test_features_that_cannot_be_computed_say_why(world, changed, why):
    found = UploadedPictures({**world.table().attributes, **changed}, {})
    with pytest.raises(SearchError, match=why):
        found.features((world.files / "scene-001.png").read_bytes())


def test_other_weights_are_refused(world, tmp_path):
    (tmp_path / "other.pth").write_bytes(b"something")
    attributes = {**world.table().attributes, "weights": "mine.pth"}
    data = (world.files / "scene-001.png").read_bytes()
    with pytest.raises(WeightsError, match="has the sha256"):
        UploadedPictures(attributes, {}, weights=tmp_path / "other.pth").features(data)
    other_random = {**world.table().attributes, "weights": "random:2"}
    with pytest.raises(SearchError, match="random weights are not the same here"):
        UploadedPictures(other_random, {}).features(data)
