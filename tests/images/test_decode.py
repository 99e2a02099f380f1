"""Decoding, pixel by pixel, and files that are none; test_robustness.py has a row for every kind of file."""

from __future__ import annotations

import io
import os
import re
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from sightword.images.decode import Reason, RejectError, decode, read_file

LIMIT = 1_000_000


def saved(picture: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def pixels(data: bytes, *, exif: bool = False) -> np.ndarray:
    picture = decode(data, exif=exif, max_pixels=LIMIT)
    assert picture.mode == "RGB"
    return np.asarray(picture)


def reason(data: bytes, limit: int = LIMIT) -> str:
    with pytest.raises(RejectError) as caught:
        decode(data, exif=False, max_pixels=limit)
    return caught.value.reason


def gradient(width: int = 20, height: int = 10) -> np.ndarray:
    values = np.arange(width * height * 3) * 7 % 256
    return values.reshape(height, width, 3).astype(np.uint8)


def test_rgb_is_unchanged() -> None:
    assert np.array_equal(pixels(saved(Image.fromarray(gradient()))), gradient())


def test_sixteen_bit_grey_keeps_its_range() -> None:
    values = np.array([[0, 128, 129, 257, 32768, 65535]], np.uint16)
    assert pixels(saved(Image.fromarray(values)))[0, :, 0].tolist() == [0, 0, 1, 1, 128, 255]


def test_thirty_two_bit_values_are_rejected() -> None:
    big = Image.fromarray(np.full((4, 4), 70_000, np.int32))
    assert reason(saved(big, "TIFF")) == "unsupported_mode"
    assert reason(saved(Image.fromarray(np.full((4, 4), 0.5, np.float32)), "TIFF")) == "unsupported_mode"


def test_reasons_are_the_same_in_every_run() -> None:
    details = set()
    for _ in range(2):
        with pytest.raises(RejectError) as caught:
            decode(b"not a picture, again", exif=False, max_pixels=LIMIT)
        details.add(caught.value.detail)
    assert len(details) == 1
    assert "0x" not in details.pop()


RGB_KINDS = ("PNG", "JPEG", "BMP", "PPM", "AVIF", "JPEG2000")
SEEDS = {
    kind: saved(Image.fromarray(gradient(24, 24)).convert(mode), kind)
    for kind, mode in {"GIF": "P", "WEBP": "RGBA", "TIFF": "CMYK"}.items() | dict.fromkeys(RGB_KINDS, "RGB").items()
}


@pytest.mark.parametrize("kind", ["GIF", "BMP", "JPEG2000", "PNG"])
def test_a_file_that_ends_in_its_header_is_named_as_damaged_or_truncated(kind: str) -> None:
    """And no message of Python's about buffers and indices reaches the log."""
    for length in range(13, 40):
        with pytest.raises(RejectError) as caught:
            decode(SEEDS[kind][:length], exif=False, max_pixels=LIMIT)
        assert caught.value.reason in ("damaged", "truncated"), length
        assert not re.search("buffer|index|no more images", caught.value.detail), length


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(SEEDS)), st.data())
def test_garbled_files_are_pictures_or_reasons(kind: str, data: st.DataObject) -> None:
    garbled = bytearray(SEEDS[kind][: data.draw(st.integers(1, len(SEEDS[kind])))])
    for _ in range(data.draw(st.integers(0, 4))):
        garbled[data.draw(st.integers(0, len(garbled) - 1))] = data.draw(st.integers(0, 255))
    try:
        picture = decode(bytes(garbled), exif=True, max_pixels=LIMIT)
    except RejectError as error:
        known = error.reason in {*get_args(Reason)} - {"missing", "unreadable", "not_a_file", "empty"}
    else:
        known = picture.mode == "RGB" and picture.resize((8, 8)).size == (8, 8)  # usable when its file is closed
    assert known


def test_paths_that_are_not_picture_files_are_rejected(tmp_path) -> None:
    def why(path: object) -> str:
        with pytest.raises(RejectError) as caught:
            read_file(path, max_pixels=LIMIT)
        assert str(tmp_path) not in caught.value.detail
        return caught.value.reason

    (tmp_path / "empty.jpg").touch()
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "link.jpg").symlink_to("nowhere")
    (tmp_path / "loop.jpg").symlink_to("loop.jpg")
    assert why(tmp_path / "empty.jpg") == "empty"
    assert why(tmp_path / "none.jpg") == "missing"
    assert why(tmp_path / "empty.jpg" / "below.jpg") == "missing"
    assert why(tmp_path / "link.jpg") == "missing"
    assert why(tmp_path) == "not_a_file"
    assert why(tmp_path / "pipe.jpg") == "not_a_file"
    assert why(tmp_path / "loop.jpg") == "unreadable"
    assert why(tmp_path / ("x" * 300)) == "unreadable"
    assert why(str(tmp_path / "nul\0.jpg")) == "missing"
