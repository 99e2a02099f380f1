"""Incomplete files are rejected; complete files pass, with the oddities of cameras and programs."""

from __future__ import annotations

import functools
import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from picture_bytes import saved
from PIL import Image

from sightword.images.decode import PADDING, RejectError, decode

KINDS = {
    "baseline": {},
    "optimised": {"optimize": True},
    "restarts": {"restart_marker_rows": 1},
    "progressive": {"progressive": True},
    "progressive with restarts": {"progressive": True, "restart_marker_rows": 1},
    "full colours": {"subsampling": 0},
}
END = b"\xff\xd9"
HOLE = bytes(4096)
PAGE = b"<!DOCTYPE html><title>404 Not Found</title>\n" * 400


@functools.cache
def scene() -> Image.Image:
    """Smooth shapes with some noise, which compress about as a photograph does."""
    rng = np.random.default_rng(0)
    coarse = Image.fromarray(rng.integers(0, 256, (24, 32, 3), np.uint8)).resize((400, 300), Image.Resampling.BICUBIC)
    noisy = np.asarray(coarse, np.int16) + rng.integers(-9, 10, (300, 400, 3), np.int16)
    return Image.fromarray(noisy.clip(0, 255).astype(np.uint8))


@functools.cache
def jpeg(kind: str) -> bytes:
    return saved(scene(), "JPEG", quality=90, **KINDS[kind])


def verdict(data: bytes) -> str | None:
    """The reason why a file is rejected, or none."""
    try:
        decode(data, exif=False, max_pixels=10**8)
    except RejectError as error:
        return error.reason
    return None


@pytest.mark.parametrize("tenth", range(2, 10))
@pytest.mark.parametrize("kind", KINDS)
def test_an_incomplete_jpeg_is_rejected(kind: str, tenth: int) -> None:
    whole = jpeg(kind)
    cut = len(whole) * tenth // 10
    assert verdict(whole) is None
    assert verdict(whole[:cut] + END) == "incomplete"
    for missing in (whole[:cut] + HOLE + whole[cut + len(HOLE) :], whole[:cut] + PAGE, whole[:cut]):
        assert verdict(missing) in ("incomplete", "truncated", "damaged")  # Pillow finds some of them


def test_a_progressive_jpeg_that_ends_between_two_scans_is_rejected() -> None:
    whole = jpeg("progressive")
    first, *later = [at for at in range(len(whole)) if whole.startswith((b"\xff\xda", END), at)]
    assert len(later) > 5
    for scan in later[:-1]:
        assert verdict(whole[:scan] + END) == "incomplete"
    assert verdict(whole[:first] + END) is not None


def test_a_hole_in_a_scan_is_found_wherever_the_decoder_recovers() -> None:
    whole = jpeg("baseline")
    for start in range(2000, len(whole) - 2000, 512):
        assert verdict(whole[:start] + bytes(64) + whole[start + 64 :]) == "incomplete"


def test_odd_segments_do_not_hide_missing_pixels() -> None:
    whole = jpeg("baseline")
    cut = whole[: len(whole) // 2] + END
    tables = cut.index(b"\xff\xdb")
    assert verdict(cut.replace(b"JFIF\0\1\1", b"JFIF\0\7\7")) == "incomplete"
    assert verdict(cut[:tables] + b"\xff\xe2\0\x10ICC_PROFILE\0\5\2" + cut[tables:]) == "incomplete"


def test_odd_but_complete_jpegs_pass() -> None:
    whole = jpeg("baseline")
    tables, pixels = whole.index(b"\xff\xdb"), np.asarray(scene())
    for odd in (
        whole.replace(b"JFIF\0\1\1", b"JFIF\0\7\7"),
        whole[:tables] + b"\xff\xe2\0\x10ICC_PROFILE\0\5\2" + whole[tables:],
        whole[:tables] + b"\xff\xfe\0\x09\xff\xd9 \xff\xda\xff\xd9" + whole[tables:],  # a comment full of markers
        whole[:tables] + b"junk" + whole[tables:],
        whole[:tables] + b"\xff\xff\xff" + whole[tables:],
        whole[:-2] + bytes(PADDING) + END,
        whole[:-2] + b"\xff\xff\xff" + END,
        whole + b"\0" * 5000,
        whole + PAGE,
        whole + whole[: len(whole) // 2] + END,
    ):
        picture = decode(odd, exif=False, max_pixels=10**8)
        assert np.abs(np.asarray(picture).astype(int) - pixels).mean() < 8
    assert verdict(whole[:-2] + b"\x5a" * (2 * PADDING) + END) == "incomplete"


def test_the_first_picture_of_a_phones_jpeg_is_checked() -> None:
    whole = saved(scene(), "MPO", save_all=True, append_images=[scene()], quality=90)
    second = whole.index(b"\xff\xd8", 2)
    assert verdict(whole) is None
    assert verdict(whole[: second + 5000] + END) is None
    assert verdict(whole[: second // 2] + END + whole[second // 2 + 2 :]) == "incomplete"


@st.composite
def pictures(draw: st.DrawFn) -> Image.Image:
    """Noise, slopes, even colours and patterns, of any size and mode."""
    width, height = draw(st.integers(1, 130)), draw(st.integers(1, 130))
    mode = draw(st.sampled_from(["RGB", "L", "CMYK"]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    rows, columns = np.mgrid[:height, :width]
    values = {
        "noise": rng.integers(0, 256, (height, width)),
        "slope": rows + 2 * columns,
        "even": np.full((height, width), draw(st.sampled_from([0, 128, 255]))),
        "board": ((rows // draw(st.integers(1, 9)) + columns) % 2) * 255,
    }[draw(st.sampled_from(["noise", "slope", "even", "board"]))]
    grey = Image.fromarray((values % 256).astype(np.uint8))
    return grey if mode == "L" else Image.merge(mode, [grey, *grey.resize(grey.size).split() * (len(mode) - 1)])


@settings(max_examples=150)
@given(
    pictures(), st.integers(1, 100), st.sampled_from(list(KINDS.values())), st.sampled_from(["4:4:4", "4:2:2", "4:2:0"])
)
def test_a_whole_jpeg_has_the_pixels_of_pillow(
    picture: Image.Image, quality: int, options: dict[str, object], subsampling: str
) -> None:
    data = saved(picture, "JPEG", quality=quality, **{"subsampling": subsampling, **options})
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    assert np.array_equal(np.asarray(decode(data, exif=False, max_pixels=10**8)), expected)


@pytest.mark.parametrize("kind", ["baseline", "restarts", "progressive"])
def test_a_jpeg_cut_at_any_byte_of_its_pixels_is_rejected(kind: str) -> None:
    whole = saved(scene().resize((48, 40)), "JPEG", quality=60, **KINDS[kind])
    for cut in range(whole.index(b"\xff\xda"), len(whole) - len(END)):
        assert verdict(whole[:cut]) is not None
        # A decoder takes the missing bits of the last two bytes for ones, which may be right.
        assert verdict(whole[:cut] + END) is not None or cut >= len(whole) - len(END) - 2


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_even_and_patterned_pictures_with_zero_codes_pass(options: dict[str, object]) -> None:
    pattern = np.tile(np.array([[0, 255], [255, 0]], np.uint8).repeat(3, 0).repeat(3, 1), (200, 200))
    stripes = np.tile(np.array([96, 160], np.uint8).repeat(8), (1000, 60))
    for values in (np.full((1500, 1500), 255, np.uint8), pattern, stripes):
        for quality in (30, 75, 95):
            assert verdict(saved(Image.fromarray(values), "JPEG", quality=quality, **options)) is None


# Colour types of PNG with their channels and bit depths (PNG specification, table 11.1).
PNG_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
PNG_TYPES = [(kind, depth) for kind, depths in PNG_DEPTHS.items() for depth in depths]
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


def png(width: int, height: int, kind: int, depth: int, *, interlaced: bool, share: float, pieces: int = 1) -> bytes:
    """A PNG file with the first ``share`` of its data: rows of 1s, their filter none; every checksum is right."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    grid = np.zeros((height, width))
    parts = [grid]
    if interlaced:  # Adam7, as the specification draws it
        steps = [(0, 8, 0, 8), (0, 8, 4, 8), (4, 8, 0, 4), (0, 4, 2, 4), (2, 4, 0, 2), (0, 2, 1, 2), (1, 2, 0, 1)]
        parts = [grid[top::down, left::right] for top, down, left, right in steps]
    data = b"".join(
        (b"\0" + b"\1" * -(-part.shape[1] * depth * CHANNELS[kind] // 8)) * part.shape[0] for part in parts if part.size
    )
    packed = zlib.compress(data[: int(len(data) * share)])
    size = -(-len(packed) // pieces)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlaced))
        + (chunk(b"PLTE", bytes(3 * 2**depth)) if kind == 3 else b"")
        + b"".join(chunk(b"IDAT", packed[at : at + size]) for at in range(0, len(packed), size))
        + chunk(b"IEND", b"")
    )


SIDES = st.integers(1, 40)


@given(SIDES, SIDES, st.sampled_from(PNG_TYPES), st.booleans(), st.floats(0, 0.99), st.integers(1, 9))
def test_a_png_without_all_of_its_rows_is_rejected(width, height, kind, interlaced, share, pieces) -> None:
    make = functools.partial(png, width, height, *kind, interlaced=interlaced)
    assert verdict(make(share=1, pieces=pieces)) is None
    assert verdict(make(share=share)) in ("incomplete", "truncated", "damaged")


@pytest.mark.parametrize("tenth", range(1, 10))
def test_a_truncated_png_reports_the_share_of_its_pixels(tenth: int) -> None:
    with pytest.raises(RejectError, match=rf"incomplete: its data end after {10 * tenth} % of the pixels"):
        decode(png(63, 40, 2, 8, interlaced=False, share=tenth / 10), exif=False, max_pixels=10**6)


def test_a_large_png_is_counted_in_pieces() -> None:
    assert verdict(png(2000, 1500, 2, 8, interlaced=False, share=1, pieces=3)) is None
    assert verdict(png(2000, 1500, 2, 8, interlaced=False, share=0.999)) in ("incomplete", "truncated")
    assert verdict(saved(scene().resize((1500, 1200)), "PNG")) is None


@pytest.mark.slow
def test_real_photographs_pass(real_data: Path) -> None:
    photographs = sorted((real_data / "flickr8k/images").glob("*.jpg"))
    smaller = sorted((real_data / "flickr8k/images_224").glob("*.jpg"))  # progressive ones
    assert len(photographs) == 300
    assert len(smaller) == 8091
    reasons = {path.name: verdict(path.read_bytes()) for path in [*photographs, *smaller[::20]]}
    assert {name: reason for name, reason in reasons.items() if reason is not None} == {}
