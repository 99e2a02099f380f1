"""Shards give back what was put in, say how it was made, and change little when little changes."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
import pytest
from picture_bytes import read_pictures
from PIL import Image

from sightword.errors import FileFormatError
from sightword.images import shards
from sightword.images.encoding import encode, hash_pixels
from sightword.images.shards import ResizedPicture

TRANSFORM = {"resize": 8, "interpolation": "lanczos", "exif": False}


def picture(image_id: str, encoding: str = "webp") -> tuple[ResizedPicture, np.ndarray]:
    rng = np.random.default_rng(len(image_id))
    values = rng.integers(0, 256, (8, 11, 3), np.uint8)
    used, data = encode(Image.fromarray(values), encoding)
    hashes = hashlib.sha256(image_id.encode()).hexdigest(), hash_pixels(values.data, 11, 8)
    return ResizedPicture(image_id, *hashes, 11, 8, used, data), values


@pytest.mark.parametrize("encoding", ["webp", "png", "raw"])
def test_every_encoding_is_lossless(encoding: str) -> None:
    row, values = picture("a", encoding)
    assert row.encoding == encoding
    assert np.array_equal(row.array(), values)


def test_a_picture_too_long_for_webp_becomes_png() -> None:
    used, data = encode(Image.new("RGB", (16_384, 1), "red"), "webp")
    assert used == "png"
    assert ResizedPicture("x", "", "", 16_384, 1, used, data).array().shape == (1, 16_384, 3)


def test_written_pictures_are_read_back(tmp_path) -> None:
    rows = [picture(f"{number:04d}")[0] for number in range(70)]
    assert shards.write_shard(shards.shard_path(tmp_path, 0), rows, TRANSFORM) == 70
    assert read_pictures(tmp_path) == rows
    assert [group.rows for group in dict.fromkeys(one.group for one in shards.list_pictures(tmp_path))] == [32, 32, 6]
    assert shards.read_transform(tmp_path) == TRANSFORM
    listed = [picture[:3] for picture in shards.list_pictures(tmp_path)]
    assert listed == [(row.image_id, row.sha256, row.pixels_sha256) for row in rows]


def test_pictures_are_found_by_id(tmp_path) -> None:
    ids = [f"picture-{number}" for number in range(20)]
    for shard in range(3):
        rows = [picture(i)[0] for i in sorted(ids) if shards.shard_of(i, 3) == shard]
        shards.write_shard(shards.shard_path(tmp_path, shard), rows, TRANSFORM)
    found = shards.find_pictures(tmp_path, ["picture-7", "picture-13", "nowhere"])
    assert {key: row.image_id for key, row in found.items()} == {"picture-7": "picture-7", "picture-13": "picture-13"}


def test_the_shard_of_an_id_is_fixed() -> None:
    digest = hashlib.sha256(b"1000268201_693b08cb0e.jpg").digest()
    assert shards.shard_of("1000268201_693b08cb0e.jpg", 16) == int.from_bytes(digest[:8], "big") % 16
    counts = np.bincount([shards.shard_of(str(number), 16) for number in range(8000)])
    assert counts.min() > 400


def test_shards_with_different_settings_are_refused(tmp_path) -> None:
    shards.write_shard(shards.shard_path(tmp_path, 0), [], TRANSFORM)
    shards.write_shard(shards.shard_path(tmp_path, 1), [], TRANSFORM | {"resize": 9})
    with pytest.raises(FileFormatError, match="another way"):
        shards.read_transform(tmp_path)


def test_a_truncated_shard_is_named(tmp_path) -> None:
    path = shards.shard_path(tmp_path, 0)
    shards.write_shard(path, [picture("a")[0]], TRANSFORM)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FileFormatError, match=r"shard-00\.parquet: is damaged or was changed"):
        shards.list_pictures(tmp_path)


def test_a_copy_with_other_pixels_of_the_same_files_is_refused(tmp_path) -> None:
    """As on a node with a copy of its own, which another Pillow resized."""
    here, there = picture("a")[0], picture("bb")[0]
    path = shards.shard_path(tmp_path, 0)
    shards.write_shard(path, [here], TRANSFORM)
    (listed,) = shards.list_pictures(tmp_path)
    other = {name: getattr(there, name) for name in ("pixels", "pixels_sha256")}
    shards.write_shard(path, [dataclasses.replace(here, **other)], TRANSFORM)
    with pytest.raises(FileFormatError, match="is not the file that was listed"):
        shards.read_arrays(shards.Selection(listed.group, frozenset("a")))


@pytest.mark.parametrize("other", [(11, 8, 1), (8, 11, 0)])
def test_pixels_and_their_shape_are_in_the_hash(other: tuple[int, int, int]) -> None:
    width, height, first = other
    pixels = bytes(11 * 8 * 3)
    assert hash_pixels(bytes([first]) + pixels[1:], width, height) != hash_pixels(pixels, 11, 8)


def test_the_same_picture_twice_is_refused(tmp_path) -> None:
    shards.write_shard(shards.shard_path(tmp_path, 0), [picture("a")[0], picture("a")[0]], TRANSFORM)
    with pytest.raises(FileFormatError, match="twice"):
        shards.list_pictures(tmp_path)
