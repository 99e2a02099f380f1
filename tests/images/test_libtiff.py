"""What libtiff reports is the reason of a reject, not a line between the stage's."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from sightword.images.decode import RejectError, decode

SHAPES = Image.fromarray(
    np.kron(np.random.default_rng(0).integers(0, 256, (12, 12, 3)), np.ones((16, 16, 1))).astype("u1")
)
COMPRESSIONS = {
    **dict.fromkeys([None, "tiff_lzw", "tiff_adobe_deflate", "jpeg", "packbits", "lzma", "zstd"], "RGB"),
    **dict.fromkeys(["group3", "group4", "tiff_ccitt"], "1"),
}


def saved(compression: str | None) -> bytes:
    buffer = io.BytesIO()
    SHAPES.convert(COMPRESSIONS[compression]).save(buffer, "TIFF", compression=compression)
    return buffer.getvalue()


def damaged(compression: str) -> bytes:
    """A file with noise in the middle of its pixels."""
    whole = saved(compression)
    start = len(whole) // 3
    noise = np.random.default_rng(1).integers(0, 256, 200, np.uint8).tobytes()
    return whole[:start] + noise + whole[start + len(noise) :]


def verdict(data: bytes) -> str | None:
    try:
        decode(data, exif=False, max_pixels=10**6)
    except RejectError as error:
        return f"{error.reason}: {error.detail}"
    return None


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_whole_files_pass(compression: str | None) -> None:
    assert verdict(saved(compression)) is None


@pytest.mark.parametrize(
    ("compression", "words"),
    [
        ("group4", "Fax4Decode: "),  # libtiff goes on after it, and Pillow takes the picture
        ("tiff_ccitt", "Fax3DecodeRLE: "),
        ("tiff_lzw", "Using code not yet in table"),
        ("lzma", "LZMADecode: Decoding error"),
    ],
)
def test_an_error_of_libtiff_is_a_reason_and_is_not_printed(compression: str, words: str, capfd) -> None:
    assert str(verdict(damaged(compression))).startswith(f"damaged: {words}")
    assert capfd.readouterr() == ("", "")


def test_each_thread_collects_the_errors_of_its_own_picture(capfd) -> None:
    files = [saved("group4"), damaged("group4"), saved("tiff_lzw"), damaged("lzma")] * 25
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(verdict, files)) == [verdict(file) for file in files]
    assert capfd.readouterr() == ("", "")
