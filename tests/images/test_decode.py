"""Any picture a lab has: decoded to RGB, or a row with a reason; never a crash."""

from __future__ import annotations

import errno
import io
import os
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from pipeline.images.decode import RejectError, decode, read_file

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


def test_rgb_comes_back_as_it_is() -> None:
    assert np.array_equal(pixels(saved(Image.fromarray(gradient()))), gradient())


def test_grey_is_copied_to_three_channels() -> None:
    grey = gradient()[:, :, 0]
    assert np.array_equal(pixels(saved(Image.fromarray(grey))), np.stack([grey] * 3, axis=2))


def test_one_bit_becomes_black_and_white() -> None:
    picture = Image.new("1", (4, 4), 0)
    picture.putpixel((1, 2), 1)
    found = pixels(saved(picture))
    assert found[2, 1].tolist() == [255, 255, 255]
    assert found.sum() == 3 * 255


def test_sixteen_bit_grey_keeps_its_range() -> None:
    values = np.array([[0, 128, 129, 257, 32768, 65535]], np.uint16)
    assert pixels(saved(Image.fromarray(values)))[0, :, 0].tolist() == [0, 0, 1, 1, 128, 255]


def test_thirty_two_bit_values_are_rejected() -> None:
    big = Image.fromarray(np.full((4, 4), 70_000, np.int32))
    assert reason(saved(big, "TIFF")) == "unsupported_mode"
    assert reason(saved(Image.fromarray(np.full((4, 4), 0.5, np.float32)), "TIFF")) == "unsupported_mode"


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparency_lies_over_white(mode: str) -> None:
    picture = Image.new("RGBA", (3, 1), (0, 0, 0, 0))
    picture.putpixel((1, 0), (0, 0, 0, 255))
    picture.putpixel((2, 0), (0, 0, 0, 128))
    found = pixels(saved(picture.convert(mode)))[0]
    assert found[0].tolist() == [255] * 3
    assert found[1].tolist() == [0] * 3
    assert found[2].tolist() == [127] * 3


def test_palette() -> None:
    picture = Image.new("P", (2, 1))
    picture.putpalette([10, 20, 30, 200, 100, 50])
    picture.putpixel((1, 0), 1)
    assert pixels(saved(picture))[0].tolist() == [[10, 20, 30], [200, 100, 50]]


@pytest.mark.parametrize("kind", ["PNG", "GIF"])
def test_palette_with_transparency_lies_over_white(kind: str) -> None:
    picture = Image.new("P", (2, 1))
    picture.putpalette([10, 20, 30, 200, 100, 50])
    picture.putpixel((1, 0), 1)
    assert pixels(saved(picture, kind, transparency=0))[0].tolist() == [[255, 255, 255], [200, 100, 50]]


def test_a_transparent_colour_of_an_rgb_picture_lies_over_white() -> None:
    picture = Image.new("RGB", (2, 1), (1, 2, 3))
    picture.putpixel((1, 0), (9, 9, 9))
    assert pixels(saved(picture, transparency=(1, 2, 3)))[0].tolist() == [[255, 255, 255], [9, 9, 9]]


def test_cmyk() -> None:
    found = pixels(saved(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "JPEG", quality=95))
    assert np.abs(found[8, 8].astype(int) - [255, 0, 0]).max() < 6


@pytest.mark.parametrize("kind", ["GIF", "WEBP"])
def test_an_animation_gives_its_first_frame(kind: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    options = {"lossless": True} if kind == "WEBP" else {}
    data = saved(frames[0], kind, save_all=True, append_images=frames[1:], **options)
    assert pixels(data)[4, 4].tolist() == [255, 0, 0]


def test_exif_orientation_is_followed_only_when_asked() -> None:
    exif = Image.Exif()
    exif[274] = 6  # turn by 90 degrees
    data = saved(Image.new("RGB", (20, 10), "green"), "JPEG", exif=exif)
    assert pixels(data).shape == (10, 20, 3)
    assert pixels(data, exif=True).shape == (20, 10, 3)


def test_a_truncated_jpeg_says_so() -> None:
    data = saved(Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)), "JPEG")
    assert reason(data[: len(data) // 2]) == "truncated"


def test_no_bytes_and_text() -> None:
    assert reason(b"") == "empty"
    assert reason(b"this is no picture\n" * 10) == "not_a_picture"


def test_postscript_is_not_run() -> None:
    assert reason(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n") == "not_a_picture"


def test_a_bomb_is_refused_by_its_header() -> None:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")

    side = (50_000).to_bytes(4, "big")
    header = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", side + side + b"\x08\x02\0\0\0")
    bomb = header + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    assert reason(bomb) == "too_large"  # beyond what Pillow allows
    assert reason(saved(Image.new("RGB", (101, 100))), limit=10_000) == "too_large"  # beyond ours


def test_reasons_hold_nothing_that_changes_from_run_to_run() -> None:
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


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(SEEDS)), st.data())
def test_garbled_files_are_pictures_or_reasons(kind: str, data: st.DataObject) -> None:
    garbled = bytearray(SEEDS[kind][: data.draw(st.integers(1, len(SEEDS[kind])))])
    for _ in range(data.draw(st.integers(0, 4))):
        garbled[data.draw(st.integers(0, len(garbled) - 1))] = data.draw(st.integers(0, 255))
    try:
        picture = decode(bytes(garbled), exif=True, max_pixels=LIMIT)
    except RejectError as error:
        known = error.reason in {"truncated", "damaged", "not_a_picture", "too_large", "unsupported_mode"}
    else:
        known = picture.mode == "RGB"
    assert known


def test_files_that_are_none(tmp_path) -> None:
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


def test_a_file_without_permission(tmp_path, monkeypatch) -> None:
    path = tmp_path / "secret.png"
    path.write_bytes(b"x")
    path.chmod(0)
    if os.geteuid() == 0:  # who reads every file: the system's answer to others stands in

        def refused(self):
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr(Path, "read_bytes", refused)
    with pytest.raises(RejectError, match="unreadable"):
        read_file(path, max_pixels=LIMIT)


def test_links_and_names_of_any_alphabet_are_read(tmp_path) -> None:
    outside = tmp_path / "outside.png"
    outside.write_bytes(SEEDS["PNG"])
    link = tmp_path / "Kätzchen 猫 🐈.png"
    link.symlink_to(outside)
    assert read_file(link, max_pixels=LIMIT) == SEEDS["PNG"]
