"""Decoding, pixel by pixel, and files that are none; test_robustness.py has a row for every kind of file."""

from __future__ import annotations

import os
import re
import struct
import zlib

import numpy as np
import pytest
from picture_bytes import bmp, chunk, saved
from PIL import Image

from sightword.images.decode import RejectError, decode, read_file

LIMIT = 1_000_000


def pixels(data: bytes, *, exif: bool = False) -> np.ndarray:
    picture = decode(data, exif=exif, max_pixels=LIMIT)
    assert picture.mode == "RGB"
    return np.asarray(picture)


def rejected(data: bytes) -> str:
    with pytest.raises(RejectError) as caught:
        decode(data, exif=False, max_pixels=LIMIT)
    return str(caught.value)


def gradient(width: int = 20, height: int = 10) -> np.ndarray:
    values = np.arange(width * height * 3) * 7 % 256
    return values.reshape(height, width, 3).astype(np.uint8)


def test_sixteen_bit_grey_keeps_its_range() -> None:
    values = np.array([[0, 128, 129, 257, 32768, 65535]], np.uint16)
    assert pixels(saved(Image.fromarray(values)))[0, :, 0].tolist() == [0, 0, 1, 1, 128, 255]


RGB_KINDS = ("PNG", "JPEG", "BMP", "PPM", "AVIF", "JPEG2000")
SEEDS = {
    kind: saved(Image.fromarray(gradient(24, 24)).convert(mode), kind)
    for kind, mode in {"GIF": "P", "WEBP": "RGBA"}.items() | dict.fromkeys(RGB_KINDS, "RGB").items()
}


@pytest.mark.parametrize("kind", ["GIF", "BMP", "JPEG2000", "PNG"])
def test_a_file_that_ends_in_its_header_is_named_as_damaged_or_truncated(kind: str) -> None:
    """And no message of Python's about buffers and indices reaches the log."""
    for length in range(13, 40):
        with pytest.raises(RejectError) as caught:
            decode(SEEDS[kind][:length], exif=False, max_pixels=LIMIT)
        assert caught.value.reason in ("damaged", "truncated"), length
        assert not re.search("buffer|index|no more images", caught.value.detail), length


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


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (saved(Image.new("RGB", (8, 8)), "JPEG").replace(b"\xff\xc0\x00\x11\x08", b"\xff\xc0\x00\x11\x0c"), "12-bit"),
        (bmp(np.zeros((4, 4, 4), np.uint8), header=108).replace(b"\1\0\x20\0\3", b"\1\0\x20\0\4"), "compression"),
    ],
    ids=["JPEG of 12 bits", "BMP of JPEG"],
)
def test_a_kind_that_pillow_does_not_read_is_unsupported(data, words) -> None:
    assert rejected(data).startswith("unsupported_mode: ")
    assert words in rejected(data)


@pytest.mark.parametrize("text", [b"Python is a language", b"II said", b"RIFF....WAVE and more"])
def test_text_is_not_a_picture(text) -> None:
    assert rejected(text) == rejected(text) == "not_a_picture: it begins like no known format"


def png(depth: int, kind: int, row: bytes, width: int, transparent: bytes) -> bytes:
    """A PNG file of one row."""
    head = struct.pack(">IIBBBBB", width, 1, depth, kind, 0, 0, 0)
    pixels = chunk(b"IDAT", zlib.compress(b"\0" + row))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"tRNS", transparent) + pixels + chunk(b"IEND", b"")


GREY = np.linspace(0, 255, 64).reshape(4, 16).astype(np.uint8)
COLOURS = np.stack([GREY, GREY[::-1], GREY[:, ::-1]], 2)
CLEAR = np.dstack([COLOURS, np.zeros((4, 16), np.uint8)])


@pytest.mark.parametrize("header", [56, 124])
def test_bmp_with_only_zero_alpha_is_opaque(header) -> None:
    bgra = np.dstack([COLOURS[:, :, ::-1], np.zeros((4, 16), np.uint8)])
    assert np.array_equal(pixels(bmp(bgra, header=header)), COLOURS)
    bgra[0, 0, 3] = 255  # alpha that says something
    found = pixels(bmp(bgra, header=header))
    assert np.array_equal(found[0, 0], COLOURS[0, 0])
    assert (found[1:] == 255).all()


@pytest.mark.parametrize(
    "data",
    [
        saved(Image.fromarray(CLEAR), "PNG"),
        saved(Image.fromarray(CLEAR), "WEBP", lossless=True, exact=True),
        saved(Image.new("LA", (4, 4), (7, 0)), "PNG"),
        saved(Image.new("L", (4, 4), 7), "PNG", transparency=7),
        saved(Image.new("RGB", (4, 4), (7, 8, 9)), "PNG", transparency=(7, 8, 9)),
        saved(Image.fromarray(np.full((4, 4), 700, np.uint16)), "PNG", transparency=700),
        saved(Image.new("P", (4, 4), 0), "GIF", transparency=0),
    ],
    ids=["RGBA", "WebP", "LA", "grey", "colour", "16 bits", "GIF"],
)
def test_picture_of_which_nothing_is_visible_is_rejected(data) -> None:
    assert rejected(data) == "invisible: all of it is transparent"


@pytest.mark.parametrize("depth", [1, 2, 4, 8, 16])
def test_transparent_grey_of_a_png_is_found_at_each_depth(depth) -> None:
    top = 2**depth - 1
    values = sorted({0, 1, top // 3, top - 1, top})
    text = "".join(format(value, f"0{depth}b") for value in values)
    text += "0" * (-len(text) % 8)
    row = int(text, 2).to_bytes(len(text) // 8, "big")
    for clear in values:
        found = pixels(png(depth, 0, row, len(values), struct.pack(">H", clear)))[0, :, 0]
        expected = [255 if value == clear else value * 255 / top for value in values]
        assert np.abs(found - expected).max() <= 1, clear


def test_transparent_colour_of_sixteen_bits_is_unsupported() -> None:
    colour = struct.pack(">HHH", 0x1234, 0x5678, 0x9ABC)
    message = rejected(png(16, 2, colour, 1, colour))
    assert message == "unsupported_mode: its transparent colour has 16 bits, its decoded pixels have 8"
