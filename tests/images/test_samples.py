"""Grey range and alpha as the file's own tags state them, with files that are built here byte by byte."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from picture_bytes import bmp, chunk, packed12, tiff
from PIL import Image

from sightword.images.decode import RejectError, decode

GREY = np.linspace(0, 1, 64).reshape(4, 16)
"""Brightness from black, 0, to white, 1."""


def png(depth: int, kind: int, row: bytes, width: int, transparent: bytes) -> bytes:
    """A PNG file of one row."""
    head = struct.pack(">IIBBBBB", width, 1, depth, kind, 0, 0, 0)
    pixels = chunk(b"IDAT", zlib.compress(b"\0" + row))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"tRNS", transparent) + pixels + chunk(b"IEND", b"")


def saved(picture: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(decode(data, exif=False, max_pixels=10_000)).astype(int)


def rejected(data: bytes) -> str:
    with pytest.raises(RejectError) as caught:
        decode(data, exif=False, max_pixels=10_000)
    return str(caught.value)


def scaled(bits: int, dtype: str) -> np.ndarray:
    return np.round(GREY * (2**bits - 1)).astype(dtype)


@pytest.mark.parametrize(
    "data",
    [
        tiff(scaled(8, "u1")),
        tiff(255 - scaled(8, "u1"), t262=0),
        tiff(scaled(16, "u2")),
        tiff(scaled(16, "u2"), order=">"),
        tiff(65535 - scaled(16, "u2"), t262=0),
        tiff(scaled(12, "u2"), data=packed12(scaled(12, "u2")), t258=12),
    ],
    ids=["8 bits", "8 bits, white is 0", "16 bits", "16 bits, big-endian", "16 bits, white is 0", "12 bits"],
)
def test_grey_tiff_of_any_range_has_its_brightness(data) -> None:
    found = pixels(data)
    assert np.abs(found[:, :, 0] - GREY * 255).max() <= 1
    assert (found[0, 0, 0], found[-1, -1, 0]) == (0, 255)
    assert np.array_equal(found[:, :, 0], found[:, :, 2])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (tiff((scaled(8, "u1") // 2).astype("i1"), t339=2), "signed samples have no agreed black and white"),
        (tiff(scaled(15, "i2"), t339=2), "signed samples"),
        (tiff(scaled(16, "u4")), "samples of 32 bits have no agreed black and white"),
        (tiff(scaled(16, "u2"), t262=None), "without the tag PhotometricInterpretation, 0 may be black or white"),
        (tiff(scaled(8, "u1"), t262=None), "without the tag PhotometricInterpretation"),
    ],
    ids=["signed, 8 bits", "signed, 16 bits", "32 bits", "16 bits without the tag", "8 bits without the tag"],
)
def test_grey_tiff_without_an_agreed_white_is_unsupported(data, words) -> None:
    assert rejected(data).startswith(f"unsupported_mode: {words}")


@pytest.mark.parametrize(
    "data",
    [
        tiff(np.stack([scaled(16, "u2")] * 2, 2), t338=2),
        tiff(GREY.astype("f2"), t339=3),
        tiff(GREY.astype("f8"), t339=3),
        tiff(65535 - scaled(16, "u2"), order=">", t262=0),
        tiff(scaled(8, "u1"), t259=34887),
        tiff(scaled(8, "u1"), t258=[8] * 10, t277=6),
    ],
    ids=["16 bits with alpha", "half floats", "doubles", "big-endian, white is 0", "compression", "6 samples"],
)
def test_tiff_of_a_kind_that_is_not_read_is_unsupported(data) -> None:
    assert rejected(data) == "unsupported_mode: its kind of samples is not read"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("bits", tiff(np.stack([scaled(16, "u2")] * 3, 2), t262=2, t284=2, t273=[8, 136, 264], t279=[128] * 3)),
        ("white is 0", tiff(255 - scaled(8, "u1"), t262=0, t284=2)),
        ("order of bits", tiff(scaled(8, "u1"), t266=2, t284=2)),
    ],
)
def test_separate_planes_that_pillow_reads_as_other_bytes_are_unsupported(name, data) -> None:
    assert rejected(data).startswith("unsupported_mode: samples of this kind in separate planes")


def test_separate_planes_of_plain_bytes_are_read() -> None:
    colour = np.stack([scaled(8, "u1"), scaled(8, "u1")[::-1], scaled(8, "u1")[:, ::-1]], 2)
    planes = colour.transpose(2, 0, 1).tobytes()
    data = tiff(colour, data=planes, t262=2, t284=2, t273=[8, 72, 136], t279=[64] * 3)
    assert np.array_equal(pixels(data), colour)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (tiff(scaled(8, "u1"))[:90], ""),
        (saved(Image.new("RGB", (8, 8)), "JPEG").replace(b"\xff\xc0\x00\x11\x08", b"\xff\xc0\x00\x11\x0c"), "12-bit"),
        (tiff(scaled(8, "u1"), t258=[8] * 8, t277=8), "samples per pixel"),
        (bmp(np.zeros((4, 4, 4), np.uint8), header=108).replace(b"\1\0\x20\0\3", b"\1\0\x20\0\4"), "compression"),
    ],
    ids=["cut TIFF", "JPEG of 12 bits", "TIFF of 8 samples", "BMP of JPEG"],
)
def test_file_that_begins_like_a_picture_is_not_called_unknown(data, words) -> None:
    message = rejected(data)
    assert message.startswith("unsupported_mode: " if words else ("damaged: ", "truncated: "))
    assert words in message


@pytest.mark.parametrize("text", [b"Python is a language", b"II said", b"RIFF....WAVE and more"])
def test_text_is_not_a_picture(text) -> None:
    assert rejected(text) == "not_a_picture: it begins like no known format"


COLOURS = np.stack([scaled(8, "u1"), scaled(8, "u1")[::-1], scaled(8, "u1")[:, ::-1]], 2)
CLEAR = np.dstack([COLOURS, np.zeros((4, 16), np.uint8)])


@pytest.mark.parametrize("header", [56, 108, 124])
def test_bmp_with_only_zero_alpha_is_opaque(header) -> None:
    bgra = np.dstack([COLOURS[:, :, ::-1], np.zeros((4, 16), np.uint8)])
    assert np.array_equal(pixels(bmp(bgra, header=header)), COLOURS)
    bgra[0, 0, 3] = 255  # alpha that says something
    found = pixels(bmp(bgra, header=header))
    assert np.array_equal(found[0, 0], COLOURS[0, 0])
    assert (found[1:] == 255).all()


def test_fourth_sample_of_a_tiff_is_alpha_only_if_a_tag_says_so() -> None:
    assert rejected(tiff(CLEAR, t262=2, t338=2)) == "invisible: all of it is transparent"
    assert rejected(tiff(CLEAR, t262=2, t338=1)) == "invisible: all of it is transparent"
    for tags in ({}, {"t338": 0}):
        assert np.array_equal(pixels(tiff(CLEAR, t262=2, **tags)), COLOURS)


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
